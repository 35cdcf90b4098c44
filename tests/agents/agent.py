"""An AI agent's client: messages of the Model Context Protocol, written by hand, so that a test can send any."""

from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tests.service import Client

from mercato.agents.protocol import INITIALIZED, MODERN
from mercato_client.testing.caller import Answer

META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@dataclass
class Agent:
    """Speaks one revision of the protocol."""

    client: Client
    revision: str = MODERN
    _ids: Any = field(default_factory=lambda: count(1))

    def headers(self, method: str, name: str | None = None) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "MCP-Protocol-Version": self.revision}
        if self.revision == MODERN:
            headers["Mcp-Method"] = method
            if name is not None:
                headers["Mcp-Name"] = name
        return headers

    def message(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return a request with the members that its revision needs."""
        params = dict(params or {})
        if self.revision == MODERN:
            params.setdefault("_meta", META)
        return {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params}

    async def post(self, message: Any, **headers: str) -> Answer:
        """Send a message as it is, with these headers beside the content type."""
        return await self.client.post("/mcp", message, headers={"Content-Type": "application/json"} | headers)

    async def send(self, method: str, params: dict[str, Any] | None = None) -> Answer:
        """Send a request."""
        name = (params or {}).get("name")
        return await self.post(self.message(method, params), **self.headers(method, name))

    async def ask(self, method: str, params: dict[str, Any] | None = None) -> Any:
        """Send a request that succeeds; return its result."""
        answer = await self.send(method, params)
        assert answer.status == 200, answer.body
        body = answer.json()
        assert "result" in body, body
        return body["result"]

    async def result(self, tool: str, **arguments: Any) -> Any:
        """Call a tool; return its result, also one that is refused."""
        return await self.ask("tools/call", {"name": tool, "arguments": arguments})

    async def call(self, tool: str, **arguments: Any) -> Any:
        """Call a tool that succeeds; return the facts."""
        result = await self.result(tool, **arguments)
        assert not result["isError"], result
        return result["structuredContent"]

    async def refusal(self, tool: str, **arguments: Any) -> Any:
        """Call a tool that refuses; return the problem."""
        result = await self.result(tool, **arguments)
        assert result["isError"], result
        return result["structuredContent"]

    async def text(self, tool: str, **arguments: Any) -> str:
        """Call a tool; return the text of its result."""
        (part,) = (await self.result(tool, **arguments))["content"]
        text: str = part["text"]
        return text


REVISIONS = (MODERN, *INITIALIZED)
