"""`/agents.md`: one short page, whose tools, codes and links exist."""

import re

from tests.agents.agent import Agent
from tests.databases import only_sqlite
from tests.service import Service
from tests.sharing import shared

from mercato.agents.guide import MAX_BYTES
from mercato.agents.registry import TOOLS
from mercato.features.partners.model import Surface
from mercato_contract.problems import PROBLEMS

pytestmark = [only_sqlite, shared]


async def test_the_page_for_agents_is_short_and_what_it_names_exists(mercato: Service, agent: Agent):
    answer = await mercato.anonymous().get("/agents.md")
    assert answer.headers["Content-Type"] == "text/markdown; charset=utf-8"
    assert len(answer.body) <= MAX_BYTES
    text = answer.body.decode()
    assert f"POST {mercato.base}/mcp" in text
    named = set(re.findall(r"`([a-z]+_[a-z]+)`", text)) - {"approval_required"}
    assert named == set(TOOLS[Surface.MARKETFRONT])
    codes = re.findall(r"^\| `([A-Z_]+)`", text, re.MULTILINE)
    assert len(codes) == 5
    assert set(codes) <= PROBLEMS.keys()
    for link in re.findall(r"\]\(([^)]+)\)", text):
        assert link.startswith(mercato.base)
        assert (await mercato.anonymous().get(link.removeprefix(mercato.base))).status == 200, link


async def test_llms_txt_names_the_agents_door(mercato: Service):
    text = (await mercato.anonymous().get("/llms.txt")).body.decode()
    assert "/agents.md" in text
    assert "POST /mcp" in text
