"""Every operation of the service, the document that describes them, and the ASGI application."""

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Final

from mercato.agents.door import access, door
from mercato.agents.guide import guide
from mercato.api.agents import marketfront_agents
from mercato.api.carts import carts
from mercato.api.catalogs import commerce_catalogs, marketfront_catalogs
from mercato.api.oauth import console, oauth
from mercato.api.orders import commerce_orders, marketfront_orders
from mercato.api.reports import commerce_reports, marketfront_reports
from mercato.api.stores import commerce_stores, discovery, marketfront_stores, onboarding
from mercato.api.system import document_bytes, system, version
from mercato.api.webhooks import (
    commerce_feeds,
    commerce_requests,
    commerce_webhooks,
    debugger,
    marketfront_feeds,
    marketfront_requests,
    marketfront_webhooks,
    store_feed,
)
from mercato.console.pages import pages
from mercato.features.stores.catalogs import IDENTITY
from mercato.http.body import GZIP, best_coding, gzipped
from mercato.http.browsers import own_address_headers
from mercato.http.edge import Edge, Traced
from mercato.http.openapi import document as openapi
from mercato.http.operations import Access, Answer, Call, Operation, Operations
from mercato.platform.telemetry import tracing
from mercato.services import Services
from mercato_contract.problems import PROBLEMS

about = Operations(access=Access.PUBLIC, tag="System")

LLMS_INTRODUCTION: Final = """\
# Mercato

> The commerce network you can run yourself: merchants publish catalogs and take orders, storefronts find stores, price
> carts and place orders, over one HTTP API with signed webhooks.

- There are two surfaces with separate keys: Commerce for merchants' systems, Marketfront for storefronts.
- A merchant hosts a CatalogSet (JSON) at a URL; the service pulls and checks it. Catalogs aren't uploaded.
- Money is a decimal string in the currency's own scale. Instants are RFC 3339 in UTC.
- Refusals are `application/problem+json`: check `errorCode`; `retryable` says whether the same request can succeed.
- Place order needs an `Idempotency-Key`: one for each order, stored before you send it, and the same for every repeat.
- Webhooks are signed as Standard Webhooks: verify the bytes as received.
- An AI agent that orders or sells needs none of this: `POST /mcp` (Model Context Protocol) has tools, and `/agents.md`
  says in one page how to use them."""


@about.get(
    "/openapi.json",
    summary="OpenAPI document",
    answer_headers=("Cache-Control", "Content-Encoding", "Vary"),
)
async def get_openapi(call: Call[None, None]) -> Answer[dict[str, Any]]:
    """Return this API's OpenAPI 3.1 document, without white space."""
    public_url = call.app.settings.public_url
    headers = ((b"cache-control", b"no-cache"), (b"vary", b"Accept-Encoding"))
    if best_coding(call.headers.get(b"accept-encoding", b""), (GZIP,)) == IDENTITY:
        return Answer(raw=document(public_url), headers=headers)
    return Answer(raw=_gzipped_document(public_url), headers=(*headers, (b"content-encoding", b"gzip")))


@about.get(
    "/llms.txt",
    summary="For language models",
    media_type="text/plain",
    answer_headers=("Cache-Control", "X-Content-Type-Options"),
)
async def get_llms(call: Call[None, None]) -> Answer[str]:
    """Describe this service and link its documents (llmstxt.org): Markdown, a line for each operation and code."""
    text = llms(operations(), call.head.base_url)
    headers = own_address_headers(call.app.settings)
    return Answer(raw=text.encode(), media_type=b"text/plain; charset=utf-8", headers=headers)


def operations() -> list[Operation]:
    """Return every operation of the service, in the order of its reference."""
    return [
        *onboarding,
        *commerce_catalogs,
        *commerce_stores,
        *commerce_orders,
        *commerce_reports,
        *commerce_feeds,
        *commerce_webhooks,
        *commerce_requests,
        *discovery,
        *marketfront_catalogs,
        *marketfront_stores,
        *carts,
        *marketfront_orders,
        *marketfront_reports,
        *marketfront_feeds,
        *store_feed,
        *marketfront_webhooks,
        *marketfront_requests,
        *marketfront_agents,
        *debugger,
        *console,
        *oauth,
        *door,
        *access,
        *guide,
        *about,
        *system,
    ]


@cache
def document(public_url: str | None = None) -> bytes:
    """Return the OpenAPI document as it is served below a public URL."""
    return document_bytes(openapi.document(operations(), version=version(), public_url=public_url))


@cache
def _gzipped_document(public_url: str | None) -> bytes:
    return gzipped(document(public_url))


def application(app: Services) -> Edge | Traced:
    """Return the ASGI application."""
    edge = Edge(app, [*operations(), *pages])
    return Traced(edge) if tracing.is_on() else edge


def llms(operations: Iterable[Operation], base_url: str) -> str:
    """Return the text of llms.txt of a service at this URL."""
    reference = (
        f"- [OpenAPI 3.1]({base_url}/openapi.json): every operation, type, webhook and refusal.\n"
        f"- [API reference]({base_url}/docs): the same for people, with requests to try in a browser."
    )
    parts = {
        "Reference": reference,
        "Operations": "\n".join(_operation(operation, base_url) for operation in operations),
        "Errors": "Each with its cause, what to do and an example; as Markdown with `Accept: text/markdown`.\n\n"
        + "\n".join(_errors(base_url)),
    }
    return (
        "\n\n".join([LLMS_INTRODUCTION, *(f"## {title}\n\n{text}" for title, text in parts.items())]) + "\n"
    )


def _operation(operation: Operation, base_url: str) -> str:
    sentence = " ".join(operation.description.partition("\n\n")[0].split())
    url = f"{base_url}/docs#/{operation.tag}/{operation.id}"
    return f"- [{operation.summary}]({url}): `{operation.method} {operation.path}`. {sentence}"


def _errors(base_url: str) -> Iterator[str]:
    for kind in PROBLEMS.values():
        yield f"- [{kind.code}]({base_url}/errors/{kind.code}): {kind.status}. {kind.title}."
