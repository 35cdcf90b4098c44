"""Operations without a partner's key, and comparisons of secrets."""

import ast
import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.databases import only_sqlite
from tests.distributions import PACKAGES
from tests.service import service

from mercato.asgi import operations
from mercato.http.operations import Access
from mercato.platform.telemetry.exposition import serve_metrics
from mercato.platform.telemetry.metrics import Metrics
from mercato_contract.texts import Secret

OPEN = {
    "getAccessToken", "getOpenapi", "getLlms", "getCatalogSetSchema", "healthz", "readyz", "metrics", "docs",
    "docsAsset", "errorPage", "getAgentsPage", "getProtectedResource", "getAuthorizationServer",
}  # fmt: skip


def test_every_operation_without_a_key_is_listed_by_name():
    """Another public operation must be listed here and in the threat model."""
    assert {one.id for one in operations() if one.access is Access.PUBLIC} == OPEN


@only_sqlite
@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        ("Bearer the-token", 200),
        ("bearer the-token", 200),
        ("Bearer  the-token ", 200),
        (None, 401),
        ("", 401),
        ("Bearer", 401),
        ("Bearer ", 401),
        ("Bearer the-toke", 401),
        ("Bearer the-tokenn", 401),
        ("Bearer THE-TOKEN", 401),
        ("Basic the-token", 401),
        ("the-token", 401),
        ("Bearer the-t\u00f6ken", 401),
    ],
)
async def test_metrics_require_the_whole_token(
    database_url: str, tmp_path: Path, authorization: str | None, status: int
):
    async with service(
        database_url, tmp_path / "d", works=False, metrics_token=Secret("the-token")
    ) as mercato:
        headers = {} if authorization is None else {"Authorization": authorization}
        assert (await mercato.anonymous().get("/metrics", headers=headers)).status == status


async def test_a_public_metrics_port_is_closed_without_a_token():
    everywhere = "0.0.0.0"  # noqa: S104  # that is what must not be open
    for host, token, status in (
        (everywhere, None, b"403"),
        (everywhere, "t", b"401"),
        ("127.0.0.1", None, b"200"),
    ):
        async with serve_metrics(Metrics(), host=host, port=20_000, token=token) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await reader.readline()).split()[1] == status
            writer.close()
            await writer.wait_closed()


COMPARED = {
    "api_keys.c.hash == digest": "by the database, of a hash, which reveals no key",
    "console_links.c.hash == digest(token)": "by the database, of a hash",
    "console_people.c.invitation_hash == digest(token)": "by the database, of a hash",
    "columns.invitation_hash == digest(token)": "by the database, of a hash",
    "digest == request.previous_hash": "of a catalog",
    "encoded == secret": "whether a prefix was removed",
    "claims.digest.caller != digest.caller": "of what was signed, after the signature was verified",
    "claims.digest.store != digest.store": "the same",
    "claims.digest.cart != digest.cart": "the same",
    "claims.digest.fulfillment != digest.fulfillment": "the same",
    "sent == claims.digest": "the same",
    "request == hmac_sha256(secret, sent)": "of the caller's own requests: it opens nothing",
    "meaning == _bound_meaning(secret, request, self.meaning)": "the same",
    "signing_secrets.c.secret == row.secret": "by the database, of what is sealed",
    "token.type == 'heading_open'": "of Markdown",
    "token.type == 'link_open'": "of Markdown",
    "token.type == 'image'": "of Markdown",
    "token.type == 'inline'": "of Markdown",
    "token == b','": "of JSON",
    "token == b':'": "of JSON",
    "token == b'['": "of JSON",
    "webhook_tokens.c.token == row.token": "by the database, of what is sealed",
}
"""Comparisons that needn't take constant time, and why."""

PROOFS = {"signature", "digest", "mac", "token", "secret", "reveal"}


def comparisons() -> Iterator[str]:
    """Yield each `==` and `!=` of the packages beside a name of a credential."""
    for path in (file for package in PACKAGES for file in Path(package.__path__[0]).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], ast.Eq | ast.NotEq):
                continue
            names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
            names |= {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}
            if names & PROOFS and "len" not in names:
                yield ast.unparse(node)


def test_no_signature_and_no_token_is_compared_but_in_constant_time():
    assert set(comparisons()) == COMPARED.keys()
