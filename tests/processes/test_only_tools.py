"""Where only the tools are installed, `mercato` has their commands, and says what the others need."""

import subprocess
import sys
from typing import Final

import pytest

SECRET: Final = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
RUN: Final = """
import importlib.metadata, sys
importlib.metadata.entry_points = lambda **_: ()
from mercato_tools.cli.main import run
code = run(sys.argv[1:])
served = sorted(name for name in sys.modules if name.split(".")[0] in {"mercato", "sqlalchemy", "cryptography"})
assert not served, served
sys.exit(code)
"""
"""Runs the command as where no other distribution adds to it."""


def only_tools(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", RUN, *arguments], capture_output=True, text=True, check=False, timeout=60
    )


def test_the_help_lists_the_commands_of_the_tools_and_where_the_others_are():
    shown = " ".join(only_tools("--help").stdout.replace("│", "").split())
    for line in ("catalog Catalogs: lint", "certify Certify a merchant.", "webhooks Webhooks: explain a sig"):
        assert line in shown
    assert "serve, demo, partner and more commands come with the service: pip install mercato" in shown


@pytest.mark.parametrize("command", ["serve", "demo", "partner"])
def test_an_unknown_command_says_where_the_service_is(command: str):
    refused = only_tools(command)
    assert refused.returncode == 2
    assert "pip install mercato" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (("listen", "--partner", "Bistro"), "Give the signing secret with --secret."),
        (("webhooks", "explain", "webhook.txt", "--partner", "Bistro"), "Give the signing secret with"),
        (
            ("certify", "merchant", "--webhook-url", "http://127.0.0.1:1", "--secret", SECRET, "--json"),
            "Give --unsigned.",
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else None,
)
def test_what_only_an_installation_knows_needs_the_service(
    arguments: tuple[str, ...], advice: str, tmp_path_factory: pytest.TempPathFactory
):
    file = tmp_path_factory.mktemp("webhook") / "webhook.txt"
    file.write_text("webhook-id: 1\nwebhook-timestamp: 1\nwebhook-signature: v1,AAAA\n\n{}")
    refused = only_tools(*(str(file) if word == file.name else word for word in arguments))
    assert refused.returncode == 2
    assert "needs the service, which isn't installed here" in refused.stderr
    assert advice in refused.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("catalog", "--help"),
        ("price", "--help"),
        ("url", "--help"),
        ("sandbox", "--help"),
        ("listen", "--help"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_the_commands_of_the_tools_load_nothing_of_the_service(arguments: tuple[str, ...]):
    helped = only_tools(*arguments)
    assert helped.returncode == 0, helped.stderr
