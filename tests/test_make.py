import re
import shutil
import subprocess
from pathlib import Path

MAKEFILE = Path(__file__).parents[1] / "Makefile"


def make(where: Path, python: str) -> subprocess.CompletedProcess[str]:
    for package in ("contract", "client", "mercato"):
        (where / "packages" / package).mkdir(parents=True)
        (where / "packages" / package / "pyproject.toml").touch()
    (where / "requirements.lock").touch()
    return subprocess.run(
        ["make", "-s", "-f", MAKEFILE, f"PYTHON={python}", ".venv/.run"],
        cwd=where,
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_incomplete_environment_is_completed(tmp_path: Path):
    """Ctrl-C in the first seconds of `make run` leaves a Python without pip, and so does a missing python3-venv."""
    venv, asked = tmp_path / ".venv" / "bin", tmp_path / "asked"
    venv.mkdir(parents=True)
    python = venv / "python"
    python.write_text(f'#!/bin/sh\necho "$@" >> {asked}\ncase "$*" in *version) exit 1;; esac\n')
    python.chmod(0o700)
    made = make(tmp_path, f"{python} again")
    assert made.returncode == 0, made.stderr
    assert "again -m venv .venv" in asked.read_text().splitlines()


def test_a_python_that_is_too_old_is_refused_and_nothing_is_made(tmp_path: Path):
    made = make(tmp_path, "false")
    assert made.returncode != 0
    assert "needs Python 3.11 or newer" in made.stderr
    assert not (tmp_path / ".venv").exists()


def test_without_etcd_the_test_of_failovers_says_what_to_install_and_is_skipped(tmp_path: Path):
    which = shutil.which("make")
    assert which is not None
    made = subprocess.run(
        [which, "-s", "-o", ".venv/.dev", "-f", MAKEFILE, "PYTHON=python3", "test-ha"],
        cwd=tmp_path,
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    assert "apt-get install etcd-server" in made.stdout


def test_every_package_that_make_installs_is_pinned_by_its_hash():
    root = MAKEFILE.parent
    for line in MAKEFILE.read_text().splitlines():
        if re.search(r"\$\(PIP\).* install", line):
            ours = "--no-deps --no-build-isolation $(addprefix --editable ,$(PACKAGES))"
            assert "--require-hashes" in line or ours in line
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)", (root / "constraints.txt").read_text(), re.MULTILINE))
    for lock in root.glob("requirements*.lock"):
        for block in re.split(r"\n(?=\S)", lock.read_text().strip()):
            name, version = re.match(r"([\w.-]+)(?:\[.*?\])?==([^\s;]+)", block).groups()  # type: ignore[union-attr]
            assert "--hash=sha256:" in block, name
            assert pinned.get(name, version) == version, f"{name} in {lock.name}: run make lock"
