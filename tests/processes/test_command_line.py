import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mercato.cli import start
from mercato_tools.cli.main import run

MERCATO = Path(sys.executable).with_name("mercato")

GIVEN: dict[str, tuple[list[str], dict[str, Any]]] = {
    "nothing": (["serve"], {}),
    "all-options": (
        ["serve", "--host", "::1", "--port", "0", "--data-dir", "a/b", "--workers", "2", "--dev"],
        {
            "host": "::1",
            "port": 0,
            "data_dir": Path("a/b"),
            "workers": 2,
            "allow_private_networks": True,
        },
    ),
    "joined": (["serve", "--port=8001"], {"port": 8001}),
    "worker": (["worker", "--data-dir", "../x"], {"data_dir": Path("../x")}),
}

REFUSED = {
    "no-value": ["serve", "--port"],
    "empty-directory": ["serve", "--data-dir", ""],
    "no-number": ["serve", "--port", "http"],
    "unknown": ["serve", "--reload", "yes"],
    "of-another-command": ["worker", "--port", "1"],
}


@pytest.mark.parametrize(("arguments", "given"), GIVEN.values(), ids=GIVEN)
def test_options_of_a_process_reach_it(
    arguments: list[str], given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    calls: list[dict[str, Any]] = []

    def record(**options: Any) -> int:
        calls.append({name: value for name, value in options.items() if value is not None})
        return 0

    monkeypatch.setattr(start, arguments[0], record)
    assert run(arguments) == 0
    assert calls == [given]


@pytest.mark.parametrize("arguments", REFUSED.values(), ids=REFUSED)
def test_wrong_options_of_a_process_are_refused_with_where_its_help_is(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
):
    assert run(arguments) == 2
    assert f"See: mercato {arguments[0]} --help" in capsys.readouterr().err


def test_a_worker_process_imports_no_parser_of_commands():
    script = "import sys, mercato.cli.start; print('cyclopts' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_command_with_closed_streams_ends_normally(closed: str):
    ended = subprocess.run(
        ["sh", "-c", f'exec "$0" --version {closed}', MERCATO], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
