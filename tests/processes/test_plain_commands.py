import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mercato.cli import find_plain
from mercato.cli.commands import app
from mercato.cli.processes import start

MERCATO = Path(sys.executable).with_name("mercato")

PLAIN = {
    "serve": ["serve"],
    "all-options": ["serve", "--host", "::1", "--port", "0", "--data-dir", "a/b", "--workers", "2"],
    "another-order": ["serve", "--data-dir", "/x", "--port", "8001"],
    "worker": ["worker"],
    "worker-elsewhere": ["worker", "--data-dir", "../x"],
}

NOT_PLAIN = {
    "nothing": [],
    "help": ["--help"],
    "help-of-serve": ["serve", "--help"],
    "another-command": ["migrate"],
    "no-value": ["serve", "--port"],
    "empty-value": ["serve", "--host", ""],
    "option-as-value": ["serve", "--host", "--port"],
    "negative": ["serve", "--port", "-1"],
    "no-number": ["serve", "--port", "http"],
    "other-digits": ["serve", "--port", "٣"],
    "underscores": ["serve", "--port", "8_000"],
    "joined": ["serve", "--port=1"],
    "twice": ["serve", "--port", "1", "--port", "2"],
    "unknown": ["serve", "--reload", "yes"],
    "of-another-command": ["worker", "--port", "1"],
    "positional": ["serve", "80"],
    "too-few": ["serve-one", "5", "4711"],
}


@pytest.mark.parametrize("arguments", PLAIN.values(), ids=PLAIN)
def test_simple_arguments_mean_the_same_as_to_the_parser(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
):
    calls: list[Any] = []

    def recorded(name: str) -> Any:
        return lambda **given: calls.append(
            (name, {option: value for option, value in given.items() if value is not None})
        )

    for name in ("serve", "worker"):
        monkeypatch.setattr(start, name, recorded(name))
    plain = find_plain(arguments)
    assert plain is not None
    plain()
    app(arguments, exit_on_error=False, result_action="return_value")
    assert len(calls) == 2
    assert calls[0] == calls[1]


def test_a_worker_process_needs_no_parser(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(start, "serve_one", lambda handle, parent, place: handle + parent + place)
    run = find_plain(["serve-one", "5", "4711", "1"])
    assert run is not None
    assert run() == 4717


@pytest.mark.parametrize("arguments", NOT_PLAIN.values(), ids=NOT_PLAIN)
def test_other_arguments_are_left_to_the_parser(arguments: list[str]):
    assert find_plain(arguments) is None


def test_simple_arguments_import_no_parser():
    asked = "import sys, mercato.cli as s; s.find_plain(['serve']); print('cyclopts' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_command_with_closed_streams_ends_normally(closed: str):
    ended = subprocess.run(
        ["sh", "-c", f'exec "$0" --version {closed}', MERCATO], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
