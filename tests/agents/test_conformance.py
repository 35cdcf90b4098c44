"""The official conformance tool against the agents' door: every scenario that a server of tools alone must pass.

It needs Node.js 22, which its packages bring for Linux, and sends no key: a proxy on loopback adds one.
"""

import asyncio
import json
import os
import platform
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.agents.agent import Agent
from tests.databases import only_sqlite
from tests.waiting import PATIENCE

from mercato_client.testing.server import app_of, listening

HERE = Path(__file__).parent / "conformance"

pytestmark = pytest.mark.skipif("MERCATO_TEST_AGENTS" not in os.environ, reason="run by make test-agents")

PASSED = {
    "2025-06-18": ("server-initialize", "ping", "tools-list"),
    "2025-11-25": ("server-initialize", "ping", "tools-list", "dns-rebinding-protection"),
    "2026-07-28": ("tools-list", "dns-rebinding-protection", "http-header-validation"),
}
"""Scenarios whose checks all succeed, by revision."""

PARTLY = {
    "server-stateless": {
        "sep-2575-server-rejects-undeclared-capability": "no tool needs a capability of its client",
        "sep-2575-missing-capability-http-400": "no tool needs a capability of its client",
        "sep-2575-http-server-no-independent-requests-on-stream": "there are no streams",
        "sep-2575-server-no-log-without-loglevel": "there are no streams, so no log messages",
    },
    "caching": {
        "sep-2549-prompts-list-caching-hints": "there are no prompts",
        "sep-2549-resources-list-caching-hints": "there are no resources",
        "sep-2549-resources-templates-list-caching-hints": "there are no resources",
    },
}
"""Scenarios of 2026-07-28 whose checks succeed except these, with the reason."""

_FIXTURE = "it calls a tool of the tool's own example server, by its name"
OTHERS = {
    "server-session-lifecycle": "there are no sessions",
    "logging-set-level": "there are no logs for clients",
    "completion-complete": "there are no completions",
    "json-schema-2020-12": _FIXTURE,
    "elicitation-": _FIXTURE,
    "server-sse-": "there are no streams",
    "resources-": "there are no resources",
    "sep-2164-resource-not-found": "there are no resources",
    "sep-2640-": "there are no skills, which are an extension",
    "prompts-": "there are no prompts",
    "tools-call-": _FIXTURE,
    "tasks-": "there are no tasks, which are an extension",
    "input-required-result-": _FIXTURE,
    "http-custom-header-server-validation": "no argument of a tool is repeated in a header",
}
"""The other scenarios, by the beginnings of their names, with the reason why they don't apply."""


def node() -> str:
    """Return a Node.js of version 22 or newer, or skip."""
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), "")
    own = HERE / f"node_modules/node-linux-{machine}/bin/node"
    for found in (str(own) if own.exists() else None, shutil.which("node")):
        if found is None:
            continue
        version = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
        if int(version.removeprefix("v").partition(".")[0]) >= 22:
            return found
    pytest.skip("there is no Node.js 22 or newer")


def tool(revision: str) -> str:
    """Return the conformance tool that knows a revision."""
    name = "2026-07-28" if revision == "2026-07-28" else "2025-11-25"
    return str(HERE / f"node_modules/conformance-{name}/dist/index.js")


@asynccontextmanager
async def keyed(agent: Agent) -> AsyncIterator[str]:
    """Run a proxy that adds the agent's key to requests, and changes nothing else."""

    async def forward(request: web.Request, body: bytes) -> web.StreamResponse:
        headers = [(name, text) for name, text in request.headers.items() if name.lower() != "connection"]
        headers.append(("Authorization", f"Bearer {agent.client.key}"))
        url = agent.client.base + request.path_qs
        async with agent.client.session.request(request.method, url, data=body, headers=headers) as reply:
            content = await reply.read()
            kept = {
                n: v
                for n, v in reply.headers.items()
                if n.lower() not in {"content-length", "date", "server"}
            }
            return web.Response(status=reply.status, body=content, headers=kept)

    async def serve(request: web.Request) -> web.StreamResponse:
        return await forward(request, await request.read())

    async with listening(app_of(serve), closing=1) as base:
        yield base


async def run(*command: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    async with asyncio.timeout(6 * PATIENCE):
        output, _ = await process.communicate()
    return output.decode()


async def checks_of(agent: Agent, revision: str, scenario: str, folder: Path) -> list[Any]:
    """Run a scenario; return its checks."""
    async with keyed(agent) as base:
        output = await run(
            node(), tool(revision), "server", "--url", base + "/mcp", "--scenario", scenario,
            "--spec-version", revision, "-o", str(folder),
        )  # fmt: skip
    found = sorted(folder.rglob("checks.json"))
    assert len(found) == 1, output
    checks: list[Any] = json.loads(found[0].read_text())
    assert checks, output
    return checks


def failed(checks: list[Any]) -> dict[str, str]:
    return {
        check["id"]: check.get("errorMessage") or check["description"]
        for check in checks
        if check["status"] in {"FAILURE", "WARNING"}
    }


@only_sqlite
@pytest.mark.parametrize(
    ("revision", "scenario"),
    [(revision, scenario) for revision, scenarios in PASSED.items() for scenario in scenarios],
)
async def test_a_scenario_of_servers_with_tools_passes(
    agent: Agent, store: str, tmp_path: Path, revision: str, scenario: str
):
    assert store
    checks = await checks_of(agent, revision, scenario, tmp_path)
    assert failed(checks) == {}
    assert any(check["status"] == "SUCCESS" for check in checks)


@only_sqlite
@pytest.mark.parametrize("scenario", sorted(PARTLY))
async def test_a_scenario_passes_but_for_what_a_server_with_tools_alone_lacks(
    agent: Agent, tmp_path: Path, scenario: str
):
    checks = await checks_of(agent, "2026-07-28", scenario, tmp_path)
    found = failed(checks)
    assert found.keys() == PARTLY[scenario].keys(), found
    assert sum(check["status"] == "SUCCESS" for check in checks) > 2


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_every_scenario_of_the_tool_is_named_here(revision: str):
    output = await run(node(), tool(revision), "list", "--server")
    names = {line.split()[1] for line in output.splitlines() if line.strip().startswith("- ")}
    assert len(names) > 20
    known = {*PARTLY, *(name for scenarios in PASSED.values() for name in scenarios)}
    assert {name for name in names - known if not name.startswith(tuple(OTHERS))} == set()
