"""The whole API over one runtime."""

from functools import cache

from mercato.http.api.carts import carts
from mercato.http.api.catalogs import commerce_catalogs, marketfront_catalogs
from mercato.http.api.console import console
from mercato.http.api.oauth import oauth
from mercato.http.api.orders import commerce_orders, marketfront_orders
from mercato.http.api.requests import commerce_requests, marketfront_requests
from mercato.http.api.stores import commerce_stores, discovery, marketfront_stores, onboarding
from mercato.http.api.system import document_bytes, system, version
from mercato.http.api.webhooks import commerce_webhooks, debugger, marketfront_webhooks
from mercato.http.browsers import own_address_headers
from mercato.http.edge import Edge
from mercato.http.openapi import document as openapi
from mercato.http.operations import Access, Answer, Call, Operation, Operations
from mercato.http.pages import pages
from mercato.http.routing import Routes
from mercato.http.traced import Traced
from mercato.kernel.telemetry import tracing
from mercato.runtime import Runtime

about = Operations(access=Access.PUBLIC, tag="System")


@about.get("/openapi.json", summary="OpenAPI document", returns=dict, reply_headers=("Cache-Control",))
async def get_openapi(call: Call[None, None]) -> Answer:
    """Return this API's OpenAPI 3.1 document."""
    return Answer(raw=document(call.app.settings.public_url), headers=((b"cache-control", b"no-cache"),))


@about.get(
    "/llms.txt",
    summary="For language models",
    returns=str,
    media_type="text/plain",
    reply_headers=("Cache-Control", "X-Content-Type-Options"),
)
async def get_llms(call: Call[None, None]) -> Answer:
    """Describe this service and link its documents (llmstxt.org): Markdown, a line for each operation and code."""
    from mercato.http.openapi.llms import llms  # imported on first use

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
        *commerce_webhooks,
        *commerce_requests,
        *discovery,
        *marketfront_catalogs,
        *marketfront_stores,
        *carts,
        *marketfront_orders,
        *marketfront_webhooks,
        *marketfront_requests,
        *debugger,
        *console,
        *oauth,
        *about,
        *system,
    ]


@cache
def document(public_url: str | None = None) -> bytes:
    """Return the OpenAPI document as it is served below a public URL."""
    return document_bytes(openapi.document(operations(), version=version(), public_url=public_url))


def application(app: Runtime) -> Edge | Traced:
    """Return the ASGI application."""
    edge = Edge(app, Routes(operations(), mounted=list(pages)))
    return Traced(edge) if tracing.is_on() else edge
