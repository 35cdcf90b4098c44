"""Where only the tools are installed, `mercato` has their commands, and says what the others need."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

SECRET: Final = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
RUN: Final = """
import importlib.metadata, json, sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
importlib.metadata.entry_points = lambda **_: ()
from mercato_tools.cli.main import run
said = []
for command in map(str.split, sys.argv[1:]):
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        code = run(command)
    served = [name for name in sys.modules if name.split(".")[0] in {"mercato", "sqlalchemy", "cryptography"}]
    said.append({"code": code, "out": out.getvalue(), "err": err.getvalue(), "served": served})
print(json.dumps(said))
"""
"""Runs commands as where no other distribution adds to them, in one process: to import them costs most."""

HELPED: Final = [f"{group} --help" for group in ("catalog", "price", "url", "sandbox", "listen")]
OTHERS: Final = ["serve", "demo", "partner"]
ADVICE: Final = {
    "listen --partner Bistro": "Give the signing secret with --secret.",
    "webhooks explain webhook.txt --partner Bistro": "Give the signing secret with",
    f"certify merchant --webhook-url http://127.0.0.1:1 --secret {SECRET} --json": "Give --unsigned.",
}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each command has said, its code, and what of the service it or an earlier one has loaded."""
    directory: Path = tmp_path_factory.mktemp("webhook")
    (directory / "webhook.txt").write_text(
        "webhook-id: 1\nwebhook-timestamp: 1\nwebhook-signature: v1,AAAA\n\n{}"
    )
    commands = [*HELPED, "--help", *OTHERS, *ADVICE]
    ran = subprocess.run(
        [sys.executable, "-c", RUN, *commands],
        cwd=directory,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return dict(zip(commands, json.loads(ran.stdout), strict=True))


def test_the_help_lists_the_commands_of_the_tools_and_where_the_others_are(said: dict[str, Any]):
    shown = " ".join(said["--help"]["out"].replace("│", "").split())
    for line in ("catalog Catalogs: lint", "certify Certify a merchant.", "webhooks Webhooks: explain a sig"):
        assert line in shown
    assert "serve, demo, partner and more commands come with the service: pip install mercato" in shown


@pytest.mark.parametrize("command", OTHERS)
def test_an_unknown_command_says_where_the_service_is(said: dict[str, Any], command: str):
    refused = said[command]
    assert refused["code"] == 2
    assert "pip install mercato" in refused["err"]


@pytest.mark.parametrize("command", ADVICE)
def test_what_only_an_installation_knows_needs_the_service(said: dict[str, Any], command: str):
    refused = said[command]
    assert refused["code"] == 2
    assert "needs the service, which isn't installed here" in refused["err"]
    assert ADVICE[command] in refused["err"]


@pytest.mark.parametrize("command", HELPED)
def test_the_commands_of_the_tools_have_help(said: dict[str, Any], command: str):
    assert said[command]["code"] == 0, said[command]


def test_no_command_of_the_tools_loads_anything_of_the_service(said: dict[str, Any]):
    assert {command: one["served"] for command, one in said.items()} == {command: [] for command in said}
