import re
import shutil
import subprocess
import tomllib
from itertools import chain
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.audit import OURS

ROOT = Path(__file__).parents[1]
MAKEFILE = ROOT / "Makefile"


def make(where: Path, python: str) -> subprocess.CompletedProcess[str]:
    for package in ("contract", "catalog", "client", "outbound", "tools", "mercato"):
        (where / "packages" / package).mkdir(parents=True)
        (where / "packages" / package / "pyproject.toml").touch()
    for name in ("pyproject.toml", "requirements.lock"):
        (where / name).touch()
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


def test_a_python_that_is_on_the_path_but_does_not_run_is_passed_over(tmp_path: Path):
    """A version manager's `python3.11` fails unless that version is selected."""
    which = shutil.which("make")
    assert which is not None
    for name, line in (("python3.11", "exit 127"), ("python3.12", 'echo "$@" >> asked')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o700)
    made = subprocess.run(
        [which, "-s", "-f", MAKEFILE, "start-here"],
        cwd=tmp_path,
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    assert "-m tests.docs.follow_start_here" in (tmp_path / "asked").read_text().splitlines()


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
    ours = "--no-deps --no-build-isolation $(addprefix --editable ,$(PACKAGES))"
    installs = [line for line in MAKEFILE.read_text().splitlines() if "$(PIP) install" in line]
    assert len(installs) == 3
    for line in installs:
        assert "--require-hashes" in line or ours in line


def test_the_lock_has_hashes_for_every_package_and_names_no_index():
    """Pip refuses what the lock doesn't pin; with the address of an index in it, it would work at that index alone."""
    text = (ROOT / "requirements.lock").read_text()
    for block in re.split(r"\n(?=\S)", text.strip()):
        assert re.match(r"[\w.-]+==[^\s;]+( ; [^\\]+)? \\\n    --hash=sha256:[0-9a-f]{64}", block), block
    assert "://" not in text
    assert "--index" not in text
    assert [file.name for file in ROOT.glob("*.lock")] == ["requirements.lock"]


def test_the_lock_satisfies_everything_that_is_required():
    pinned = dict(
        re.findall(r"^([\w.-]+)==([^\s;]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    )
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    required = [need for group in groups.values() for need in group if isinstance(need, str)]
    for file in ROOT.glob("packages/*/pyproject.toml"):
        project = tomllib.loads(file.read_text())["project"]
        required += [*project["dependencies"], *chain(*project.get("optional-dependencies", {}).values())]
    for requirement in map(Requirement, required):
        name = canonicalize_name(requirement.name)
        if name not in OURS:
            assert requirement.specifier.contains(pinned[name]), f"{requirement}: run make lock"
