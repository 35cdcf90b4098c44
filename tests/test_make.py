import subprocess
from pathlib import Path

MAKEFILE = Path(__file__).parents[1] / "Makefile"


def test_an_environment_that_was_left_half_made_is_made_whole(tmp_path: Path):
    """Ctrl-C in the first seconds of `make run` leaves a Python that has no pip."""
    venv, asked = tmp_path / ".venv" / "bin", tmp_path / "asked"
    venv.mkdir(parents=True)
    python = venv / "python"
    python.write_text(f'#!/bin/sh\necho "$@" >> {asked}\ncase "$*" in *version) exit 1;; esac\n')
    python.chmod(0o700)
    for file in ("pyproject.toml", "constraints.txt"):
        (tmp_path / file).touch()
    subprocess.run(
        ["make", "-s", "-f", MAKEFILE, f"PYTHON={python} again", ".venv/.run"], cwd=tmp_path, check=True
    )
    assert asked.read_text().splitlines()[:2] == ["-m pip --version", "again -m venv .venv"]
