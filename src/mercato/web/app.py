"""The whole API over one runtime."""

from functools import cache

from mercato.runtime import Runtime
from mercato.telemetry import tracing
from mercato.web import openapi
from mercato.web.carts import carts
from mercato.web.commerce import commerce
from mercato.web.discovery import discovery
from mercato.web.edge import Edge
from mercato.web.marketfront import marketfront
from mercato.web.oauth import oauth
from mercato.web.onboarding import onboarding
from mercato.web.operations import Access, Answer, Call, Operation, Operations, Routes
from mercato.web.orders import commerce_orders, marketfront_orders
from mercato.web.security_headers import naming_itself
from mercato.web.system import document_bytes, system, version
from mercato.web.traced import Traced
from mercato.web.webhooks import clinic, commerce_webhooks, marketfront_webhooks

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
    """Say what this service is and where to read on (llmstxt.org): Markdown, a line for each operation and code."""
    from mercato.web.llms import llms  # read when somebody asks for it

    text = llms(operations(), call.head.base_url)
    headers = naming_itself(call.app.settings)
    return Answer(raw=text.encode(), media_type=b"text/plain; charset=utf-8", headers=headers)


def operations() -> list[Operation]:
    """Return every operation of the service, in the order of its reference."""
    return [
        *onboarding,
        *commerce,
        *commerce_orders,
        *commerce_webhooks,
        *discovery,
        *marketfront,
        *carts,
        *marketfront_orders,
        *marketfront_webhooks,
        *clinic,
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
    edge = Edge(app, Routes(operations()))
    return Traced(edge) if tracing.is_on() else edge
