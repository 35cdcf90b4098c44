"""explain_error: each error code, as its page explains it."""

import pytest
from tests.agents.agent import Agent
from tests.databases import only_sqlite
from tests.sharing import shared

from mercato.agents.tools import SMALL
from mercato_contract.problems import PROBLEMS

pytestmark = [only_sqlite, shared]


async def test_every_code_is_explained_within_the_bound(agent: Agent):
    for code, kind in PROBLEMS.items():
        answer = await agent.send("tools/call", {"name": "explain_error", "arguments": {"errorCode": code}})
        assert len(answer.body) <= SMALL
        found = answer.json()["result"]["structuredContent"]
        assert (found["errorCode"], found["status"]) == (code, kind.status)
        assert found["cause"]
        assert found["whatToDo"]


@pytest.mark.parametrize("code", ["", "x" * 64, "store_closed_"])
async def test_an_unknown_code_is_a_problem(agent: Agent, code: str):
    assert (await agent.refusal("explain_error", errorCode=code))["errorCode"] == "NOT_FOUND"
