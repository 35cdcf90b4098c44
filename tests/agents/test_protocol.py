"""Messages of the Model Context Protocol: revisions 2026-07-28, 2025-11-25 and 2025-06-18."""

import base64
import json
from typing import Any

import pytest
from tests.agents.agent import META, REVISIONS, Agent
from tests.databases import only_sqlite
from tests.service import Client, Service
from tests.sharing import shared

from mercato.agents.protocol import (
    HEADER_MISMATCH,
    INITIALIZED,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MODERN,
    PARSE_ERROR,
    SUPPORTED,
    UNSUPPORTED_REVISION,
)
from mercato_client.testing.caller import Answer

pytestmark = [only_sqlite, shared]  # nothing here depends on the database

LEGACY = INITIALIZED[0]
VERSION = "io.modelcontextprotocol/protocolVersion"


def assert_error(answer: Answer, status: int, code: int, request_id: Any = ...) -> Any:
    body = answer.json()
    assert (answer.status, body["error"]["code"]) == (status, code), body
    assert answer.headers["Content-Type"] == "application/json"
    assert body["jsonrpc"] == "2.0"
    if request_id is not ...:
        assert body.get("id", ...) == request_id
    return body["error"]


# --- the older revisions --------------------------------------------------------------------------


@pytest.mark.parametrize("revision", INITIALIZED)
async def test_initialize_answers_with_the_clients_revision_and_without_a_session(
    agent: Agent, revision: str
):
    agent.revision = revision
    params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    answer = await agent.post(agent.message("initialize", params))
    result = answer.json()["result"]
    assert result["protocolVersion"] == revision
    assert result["capabilities"] == {"tools": {}}
    assert result["serverInfo"]["name"] == "mercato"
    assert "data" in result["instructions"]
    assert "Mcp-Session-Id" not in answer.headers
    done = await agent.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert (done.status, done.body) == (202, b"")
    assert await agent.ask("ping") == {}
    assert [tool["name"] for tool in (await agent.ask("tools/list"))["tools"]][:1] == ["find_stores"]


async def test_initialize_with_another_revision_answers_with_the_newest_that_begins_so(agent: Agent):
    for wanted in ("2024-11-05", "2030-01-01", MODERN):
        agent.revision = LEGACY
        answer = await agent.post(agent.message("initialize", {"protocolVersion": wanted}))
        assert answer.json()["result"]["protocolVersion"] == LEGACY


async def test_errors_of_the_older_revisions_have_status_200_once_the_request_is_known(agent: Agent):
    agent.revision = LEGACY
    assert_error(await agent.send("resources/list"), 200, METHOD_NOT_FOUND, 1)
    assert_error(await agent.send("server/discover"), 200, METHOD_NOT_FOUND, 2)
    assert_error(await agent.send("tools/call", {"name": "cook"}), 200, INVALID_PARAMS, 3)
    assert_error(await agent.send("initialize", {}), 200, INVALID_PARAMS, 4)
    wrong: list[dict[str, Any]] = [{"name": 5}, {"name": None}, {"name": "find_stores", "_meta": []}]
    for request_id, params in enumerate(wrong, 5):
        assert_error(await agent.send("tools/call", params), 200, INVALID_PARAMS, request_id)
    unread = agent.message("tools/call") | {"params": []}
    assert_error(await agent.post(unread, **agent.headers("tools/call")), 200, INVALID_PARAMS, 8)


async def test_null_parameters_are_none(agent: Agent):
    agent.revision = LEGACY
    message = agent.message("tools/list") | {"params": None}
    answer = await agent.post(message, **agent.headers("tools/list"))
    assert answer.json()["result"] == await agent.ask("tools/list")


@pytest.mark.parametrize("sent", [{}, {"MCP-Protocol-Version": "2025-03-26"}])
async def test_a_request_of_an_unsupported_revision_is_400_with_those_that_are_supported(
    agent: Agent, sent: dict[str, str]
):
    agent.revision = LEGACY
    answer = await agent.post(agent.message("tools/list"), **sent)
    error = assert_error(answer, 400, UNSUPPORTED_REVISION, 1)
    assert error["data"]["supported"] == list(SUPPORTED)


# --- revision 2026-07-28 --------------------------------------------------------------------------


async def test_discover_names_revisions_capabilities_and_the_server(agent: Agent):
    result = await agent.ask("server/discover")
    assert result["supportedVersions"] == list(SUPPORTED)
    assert result["capabilities"] == {"tools": {}}
    assert result["resultType"] == "complete"
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "mercato"
    assert (result["ttlMs"], result["cacheScope"]) == (3_600_000, "private")


@pytest.mark.parametrize("method", ["initialize", "ping", "logging/setLevel", "resources/list", "x"])
async def test_a_method_that_the_revision_lacks_is_404(agent: Agent, method: str):
    assert_error(await agent.send(method), 404, METHOD_NOT_FOUND, 1)


@pytest.mark.parametrize("missing", ["protocolVersion", "clientCapabilities"])
async def test_a_request_without_its_meta_is_400(agent: Agent, missing: str):
    meta = {name: value for name, value in META.items() if not name.endswith(missing)}
    answer = await agent.post(agent.message("tools/list", {"_meta": meta}), **agent.headers("tools/list"))
    assert missing in assert_error(answer, 400, INVALID_PARAMS, 1)["message"]
    client_info = {name: value for name, value in META.items() if not name.endswith("clientInfo")}
    assert (await agent.ask("tools/list", {"_meta": client_info}))["tools"]


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("MCP-Protocol-Version", LEGACY),
        ("MCP-Protocol-Version", None),
        ("Mcp-Method", "tools/list"),
        ("Mcp-Method", "TOOLS/CALL"),
        ("Mcp-Method", None),
        ("Mcp-Name", "place_order"),
        ("Mcp-Name", None),
        ("Mcp-Name", "=?base64?ZmluZF9z!?="),
        ("Mcp-Name", "=?base64?/w==?="),
    ],
)
async def test_headers_that_differ_from_the_body_are_400(agent: Agent, header: str, value: str | None):
    headers = agent.headers("tools/call", "find_stores") | {header: value}
    sent = {name: text for name, text in headers.items() if text is not None}
    answer = await agent.post(agent.message("tools/call", {"name": "find_stores"}), **sent)
    assert_error(answer, 400, HEADER_MISMATCH, 1)


@pytest.mark.parametrize(
    "name", ["  find_stores ", f"=?base64?{base64.b64encode(b'find_stores').decode()}?="]
)
async def test_a_name_in_a_header_may_have_white_space_or_be_base64(agent: Agent, name: str):
    headers = agent.headers("tools/call", "find_stores") | {"Mcp-Name": name}
    answer = await agent.post(agent.message("tools/call", {"name": "find_stores"}), **headers)
    assert answer.status == 200, answer.body


async def test_an_unknown_revision_is_400_with_what_was_asked_for(agent: Agent):
    agent.revision = "v999.0.0"
    headers = agent.headers("server/discover") | {"Mcp-Method": "server/discover"}
    meta = META | {VERSION: "v999.0.0"}
    answer = await agent.post(agent.message("server/discover", {"_meta": meta}), **headers)
    error = assert_error(answer, 400, UNSUPPORTED_REVISION, 1)
    assert error["data"] == {"supported": list(SUPPORTED), "requested": "v999.0.0"}


# --- tools ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_surface_sees_its_own_tools_within_16_kilobytes(agent: Agent, clerk: Agent, revision: str):
    seen = []
    for each in (agent, clerk):
        each.revision = revision
        answer = await each.send("tools/list")
        # A kilobyte is left for what comes.
        assert len(answer.body) <= 15_000
        tools = answer.json()["result"]["tools"]
        for tool in tools:
            assert tool["title"]
            assert tool["description"]
            assert tool["inputSchema"]["type"] == tool["outputSchema"]["type"] == "object"
            assert tool["inputSchema"]["additionalProperties"] is False
            assert set(tool["annotations"]) == {
                "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint",
            }  # fmt: skip
        seen.append({tool["name"] for tool in tools})
    assert "find_stores" in seen[0]
    assert "find_stores" not in seen[1]


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_tool_of_the_other_surface_is_unknown(clerk: Agent, revision: str):
    clerk.revision = revision
    answer = await clerk.send("tools/call", {"name": "find_stores"})
    assert_error(answer, 400 if revision == MODERN else 200, INVALID_PARAMS)


@pytest.mark.parametrize("params", [{}, {"name": 5}, {"name": "find_stores", "arguments": [1]}])
async def test_a_malformed_call_is_an_error_of_json_rpc(agent: Agent, params: dict[str, Any]):
    message = agent.message("tools/call", params)
    answer = await agent.post(message, **agent.headers("tools/call", "find_stores"))
    assert_error(answer, 400, INVALID_PARAMS, 1)


async def test_null_arguments_are_none(agent: Agent):
    expected = await agent.result("find_stores")
    assert await agent.ask("tools/call", {"name": "find_stores", "arguments": None}) == expected


async def test_the_list_of_tools_has_one_page(agent: Agent):
    assert_error(await agent.send("tools/list", {"cursor": "x"}), 400, INVALID_PARAMS, 1)


# --- hostile messages -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "code", "request_id"),
    [
        (b"", PARSE_ERROR, ...),
        (b"{", PARSE_ERROR, ...),
        (b"\xff\xfe", PARSE_ERROR, ...),
        (b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}', PARSE_ERROR, ...),
        (b'{"jsonrpc":"1.0","id":"\xff","method":"ping"}', PARSE_ERROR, ...),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"caf\xe9"}}', PARSE_ERROR, ...),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":"\xe9"}}', PARSE_ERROR, ...),
        (b"null", INVALID_REQUEST, ...),
        (b"[]", INVALID_REQUEST, ...),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', INVALID_REQUEST, ...),
        (b"[" * 60_000, INVALID_REQUEST, ...),
        (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, INVALID_REQUEST, ...),
        (b'{"id":7}', INVALID_REQUEST, 7),
        (b'{"jsonrpc":"1.0","id":"a","method":"ping"}', INVALID_REQUEST, "a"),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', INVALID_REQUEST, ...),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', INVALID_REQUEST, ...),
        (b'{"jsonrpc":"2.0","id":[1],"method":"ping"}', INVALID_REQUEST, ...),
        (b'{"jsonrpc":"2.0","id":1,"method":5}', INVALID_REQUEST, 1),
        (b'{"jsonrpc":"2.0","id":"%b","method":"ping"}' % (b"x" * 255), INVALID_REQUEST, ...),
        (b'{"jsonrpc":"2.0","id":"%b","method":"ping"}' % (b"\\u0000" * 50), INVALID_REQUEST, ...),
        (b'{"jsonrpc":"2.0","id":%b,"method":"ping"}' % (b"1" * 257), INVALID_REQUEST, ...),
        (b'{"jsonrpc":"2.0","id":%b,"method":"ping"}' % (b"1" * 5_000), INVALID_REQUEST, ...),
        (b'{"id":"%b"}' % (b"x" * 50_000), INVALID_REQUEST, ...),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', INVALID_REQUEST, 1),
        (b'{"jsonrpc":"2.0","method":"tools/call","params":{"name":"find_stores"}}', INVALID_REQUEST, ...),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', INVALID_PARAMS, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":5}}', INVALID_PARAMS, 1),
    ],
)
async def test_what_is_no_request_is_400_and_an_error_of_json_rpc(
    agent: Agent, body: bytes, code: int, request_id: Any
):
    answer = await agent.post(body)
    error = answer.json()
    assert (answer.status, error["error"]["code"]) == (400, code), error
    assert error.get("id", ...) == request_id


async def test_a_message_has_at_most_64_kilobytes(agent: Agent):
    message = agent.message("tools/call", {"name": "find_stores", "arguments": {"query": "x" * 70_000}})
    answer = await agent.post(json.dumps(message).encode(), **agent.headers("tools/call", "find_stores"))
    assert (answer.status, answer.code) == (413, "PAYLOAD_TOO_LARGE")


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
async def test_there_are_no_streams_and_no_sessions(agent: Agent, method: str):
    answer = await agent.client.call(method, "/mcp")
    assert (answer.status, answer.headers["Allow"]) == (405, "POST")


async def test_another_content_type_is_415(agent: Agent):
    answer = await agent.post(b"{}", **{"Content-Type": "text/plain"})
    assert answer.status == 415


# --- who calls ------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [None, "mk_wrong"])
async def test_without_a_key_it_is_401_with_the_address_of_the_metadata(mercato: Service, key: str | None):
    answer = await Agent(Client(mercato.base, key, mercato.session)).send("tools/list")
    assert answer.status == 401
    challenge = answer.headers["WWW-Authenticate"]
    url = f"{mercato.base}/.well-known/oauth-protected-resource/mcp"
    assert challenge.startswith(f'Bearer resource_metadata="{url}"')
    assert ('error="invalid_token"' in challenge) is (key is not None)
    found = (await mercato.anonymous().get("/.well-known/oauth-protected-resource/mcp")).json()
    assert found["resource"] == f"{mercato.base}/mcp"
    assert found["authorization_servers"] == [mercato.base]
    about = (await mercato.anonymous().get("/.well-known/oauth-authorization-server")).json()
    assert about["issuer"] == mercato.base
    assert about["token_endpoint"] == f"{mercato.base}/v1/oauth/token"
    assert about["grant_types_supported"] == ["client_credentials"]


async def test_an_origin_of_another_site_is_403(agent: Agent):
    message, headers = agent.message("tools/list"), agent.headers("tools/list")
    for origin in ("https://evil.example", "null", "http://localhost:1", ""):
        assert (await agent.post(message, **headers, Origin=origin)).status == 403
    assert (await agent.post(message, **headers, Origin=agent.client.base)).status == 200
    # The name of a page that its owner has pointed at this machine.
    rebound = {"Host": "evil.example", "Origin": "http://evil.example"}
    assert (await agent.post(message, **headers, **rebound)).status == 403
