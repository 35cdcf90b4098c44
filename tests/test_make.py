import subprocess
from pathlib import Path

MAKEFILE = Path(__file__).parents[1] / "Makefile"


def make(where: Path, python: str) -> subprocess.CompletedProcess[str]:
    for file in ("pyproject.toml", "constraints.txt"):
        (where / file).touch()
    return subprocess.run(
        ["make", "-s", "-f", MAKEFILE, f"PYTHON={python}", ".venv/.run"],
        cwd=where,
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_environment_that_was_left_half_made_is_made_whole(tmp_path: Path):
    """Ctrl-C in the first seconds of `make run` leaves a Python that has no pip, and so does a lacking python3-venv."""
    venv, asked = tmp_path / ".venv" / "bin", tmp_path / "asked"
    venv.mkdir(parents=True)
    python = venv / "python"
    python.write_text(f'#!/bin/sh\necho "$@" >> {asked}\ncase "$*" in *version) exit 1;; esac\n')
    python.chmod(0o700)
    made = make(tmp_path, f"{python} again")
    assert made.returncode == 0, made.stderr
    assert "again -m venv .venv" in asked.read_text().splitlines()


def test_a_python_that_is_too_old_is_told_and_makes_nothing(tmp_path: Path):
    made = make(tmp_path, "false")
    assert made.returncode != 0
    assert "needs Python 3.11 or newer" in made.stderr
    assert not (tmp_path / ".venv").exists()
