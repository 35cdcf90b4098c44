"""`mercato key create --agent`: an agent with its limits from the command line."""

from pathlib import Path
from typing import Any, Final

import pytest
from tests.databases import mostly_sqlite
from tests.partners.test_commands import Shell, shell

pytestmark = mostly_sqlite

__all__ = ["shell"]

TERMS = (
    "--maximum-order", "30", "--maximum-day", "60", "--currency", "EUR", "--approval", "above:20",
    "--timezone", "Europe/Berlin",
)  # fmt: skip


@pytest.fixture
def front(shell: Shell) -> Any:
    return shell.json("partner", "create", "Front", "--kind", "marketfront")


def test_key_create_makes_an_agent_whose_key_descends_from_none(shell: Shell, front: Any, tmp_path: Path):
    made = shell.json("key", "create", "Front", "--agent", "Lunch", *TERMS)
    assert made["key"].startswith("mk_marketfront_")
    assert made["agentId"]
    listed = shell.json("key", "list", "--partner", "Front")["keys"]
    assert [(key["description"], key["agentId"]) for key in listed] == [
        (None, None), ("Agent Lunch", made["agentId"]),
    ]  # fmt: skip
    assert listed[1]["parentKeyId"] is None


def test_rolling_the_key_of_an_agent_keeps_the_agent(shell: Shell, front: Any):
    made = shell.json("key", "create", "Front", "--agent", "Lunch")
    rolled = shell.json("key", "roll", made["keyId"])
    listed = {key["keyId"]: key for key in shell.json("key", "list")["keys"]}
    assert listed[rolled["keyId"]]["agentId"] == made["agentId"]
    assert rolled["key"] != made["key"]


WRONG_OPTIONS: Final[tuple[tuple[tuple[str, ...], str], ...]] = (
    (("--maximum-day", "5"), "add --agent NAME"),
    (("--approval", "always"), "add --agent NAME"),
    (("--agent", "Lunch", "--surface", "commerce"), "Leave --surface out"),
    (("--agent", "Lunch", "--maximum-day", "5"), "currency is needed"),
    (("--agent", "Lunch", "--currency", "EUR", "--maximum-day", "five"), "not a decimal number"),
    (("--agent", "Lunch", "--approval", "maybe"), "never, always, or above:"),
    (("--agent", "Lun\u200bch"), "characters that can be seen"),
)
"""Options of `key create`, and what is said of them."""


def test_a_wrong_option_of_an_agent_says_what_to_do(shell: Shell, front: Any):
    for options, said in WRONG_OPTIONS:
        code = 2 if "add" in said or "Leave" in said else 1
        assert shell("key", "create", "Front", *options, code=code) == "", options
        assert said in shell.err, options
    assert len(shell.json("key", "list")["keys"]) == 1


def test_a_merchant_has_no_agents(shell: Shell):
    shell.json("partner", "create", "Shop", "--kind", "commerce")
    shell("key", "create", "Shop", "--agent", "Lunch", code=1)
    assert "can have no marketfront key" in shell.err
