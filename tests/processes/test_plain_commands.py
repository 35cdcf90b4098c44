import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mercato.cli.commands import app
from mercato.cli.processes import start
from mercato.cli.processes.shortcut import find_plain

MERCATO = Path(sys.executable).with_name("mercato")

PLAIN = {
    "serve": ["serve"],
    "all-options": ["serve", "--host", "::1", "--port", "0", "--data-dir", "a/b", "--workers", "2"],
    "another-order": ["serve", "--data-dir", "/x", "--port", "8001"],
    "one-of-several": ["serve-one", "5", "4711", "0"],
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
    asked: list[Any] = []

    def noted(what: str) -> Any:
        return lambda *values, **given: asked.append(
            (
                what,
                dict(zip(("handle", "parent", "place"), values, strict=False))
                | {name: value for name, value in given.items() if value is not None},
            )
        )

    for name in ("serve", "serve_one", "worker"):
        monkeypatch.setattr(start, name, noted(name))
    plain = find_plain(arguments)
    assert plain is not None
    plain()
    app(arguments, exit_on_error=False, result_action="return_value")
    assert len(asked) == 2
    assert asked[0] == asked[1]


@pytest.mark.parametrize("arguments", NOT_PLAIN.values(), ids=NOT_PLAIN)
def test_other_arguments_are_left_to_the_parser(arguments: list[str]):
    assert find_plain(arguments) is None


def test_simple_arguments_import_no_parser():
    asked = "import sys, mercato.cli.processes.shortcut as s; s.find_plain(['serve']); print('cyclopts' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_command_with_closed_streams_ends_normally(closed: str):
    ended = subprocess.run(
        ["sh", "-c", f'exec "$0" --version {closed}', MERCATO], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
