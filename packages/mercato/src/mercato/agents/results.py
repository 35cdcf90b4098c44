"""The results of tools as bytes: what was asked for, a problem, or a URL that a person must open."""

from collections.abc import Mapping
from functools import cache
from importlib import metadata
from typing import Any, Final

import msgspec
from msgspec import Raw

from mercato.agents.protocol import URL_REQUEST
from mercato.agents.texts import MAX_DESCRIPTION, plain
from mercato.agents.tools import ENVELOPE, SMALL, Elicitation
from mercato_contract.texts import count_of
from mercato_contract.wire import Wire, as_json

_SERVER: Final = "io.modelcontextprotocol/serverInfo"


@cache
def server() -> Mapping[str, str]:
    """Return what the server says of itself."""
    return {"name": "mercato", "title": "Mercato", "version": metadata.version("mercato")}


@cache
def _modern(kind: str) -> bytes:
    """Return the members that a result has since 2026-07-28, and a comma."""
    return as_json({"resultType": kind, "_meta": {_SERVER: server()}})[1:-1] + b","


def described(members: Mapping[str, Any], *, is_modern: bool) -> bytes:
    """Return the result of a method that describes the server."""
    modern = {"resultType": "complete", "_meta": {_SERVER: server()}} if is_modern else {}
    return as_json({**modern, **members})


def succeeded(value: Wire, text: str, *, is_modern: bool) -> bytes:
    """Return the result of a tool."""
    return _result(as_json(value), text, is_error=False, is_modern=is_modern)


def refused(problem: Mapping[str, Any], *, is_modern: bool) -> bytes:
    """Return the result of a tool that refused: the problem as the API answers it, its faults within the bound."""
    members = dict(problem)
    found = [_one_line(fault) for fault in members.pop("errors", None) or ()]
    members["detail"] = plain(str(members.get("detail", "")), 4 * MAX_DESCRIPTION)
    faults, size = [], ENVELOPE + 2 * len(as_json(members))
    for fault in found:
        size += 2 * len(as_json(fault))
        if size > SMALL:
            break
        faults.append(fault)
    members["errors"] = faults
    lines = [f"{members.get('errorCode')}: {members['detail']}"]
    lines += [_line_of(fault) for fault in faults]
    if len(faults) < len(found):
        lines.append(f"Not listed: {count_of(len(found) - len(faults), 'more fault')}.")
    if members.get("retryAfter") is not None:
        lines.append(f"Try again in {members['retryAfter']} s.")
    return _result(as_json(members), "\n".join(lines), is_error=True, is_modern=is_modern)


def explained(problem: Mapping[str, Any], members: Mapping[str, Any], text: str, *, is_modern: bool) -> bytes:
    """Return the result of a tool that refused and says so itself, with members beside those of the problem."""
    return _result(as_json({**problem, **members}), text, is_error=True, is_modern=is_modern)


def url_needed(wanted: Elicitation) -> bytes:
    """Return the result that has the client show a URL to a person, after which it repeats the call."""
    asked = {"mode": "url", "message": wanted.message, "url": wanted.url}
    requests = {URL_REQUEST: {"method": "elicitation/create", "params": asked}}
    return b"{%b%b" % (_modern("input_required"), as_json({"inputRequests": requests})[1:])


def _result(value: bytes, text: str, *, is_error: bool, is_modern: bool) -> bytes:
    content = as_json([{"type": "text", "text": text}])
    return b'{%b"content":%b,"structuredContent":%b,"isError":%b}' % (
        _modern("complete") if is_modern else b"",
        content,
        value,
        b"true" if is_error else b"false",
    )


def read_problem(body: bytes) -> Mapping[str, Any]:
    """Return the members of a problem that was stored."""
    members: Mapping[str, Any] = msgspec.json.decode(Raw(body))
    return members


def _one_line(fault: Mapping[str, Any]) -> dict[str, Any]:
    """Return a fault whose message, which may repeat a merchant's words, is one line."""
    return dict(fault) | {"message": plain(str(fault.get("message", "")), 2 * MAX_DESCRIPTION)}


def _line_of(fault: Mapping[str, Any]) -> str:
    where = "" if not fault.get("pointer") else f" at {fault['pointer']}"
    return f"- {fault.get('code')}{where}: {fault['message']}"
