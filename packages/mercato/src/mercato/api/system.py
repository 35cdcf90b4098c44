"""Health, metrics, the API reference, and the page of each error code."""

import hmac
from functools import cache
from importlib import metadata, resources
from typing import Any, Final

import msgspec

from mercato.http.browsers import (
    CACHED,
    NOSNIFF,
    own_address_headers,
    prefix_links,
    reference_page_policy,
    static_page_policy,
)
from mercato.http.error_pages import STYLE, as_html, as_markdown
from mercato.http.operations import Access, Answer, Call, Operations
from mercato.platform import errors
from mercato.platform.problem_details import prefers_markdown
from mercato.platform.telemetry import METRICS_TYPE
from mercato.settings import Settings
from mercato_contract.catalog_documents import SCHEMA_PATH, catalog_set_schema
from mercato_contract.problems import PROBLEMS
from mercato_contract.wire import Wire, as_json
from mercato_outbound.guard import is_loopback

system = Operations(access=Access.PUBLIC, tag="System")

HTML: Final = b"text/html; charset=utf-8"
MARKDOWN: Final = b"text/markdown; charset=utf-8"
SCHEMA_JSON: Final = b"application/schema+json"
ASSETS: Final = {"swagger-ui.css": b"text/css", "swagger-ui-bundle.js": b"text/javascript"}
START: Final = (
    b"""window.onload = () => SwaggerUIBundle({url: "openapi.json", dom_id: "#docs", deepLinking: true})\n"""
)


class Health(Wire):
    """`ok`, or a refusal."""

    status: str


@system.get("/healthz", summary="Liveness")
async def healthz(_call: Call[None, None]) -> Health:
    """Answer 200 while the process runs, even if its database doesn't answer."""
    return Health(status="ok")


@system.get("/readyz", summary="Readiness")
async def readyz(call: Call[None, None]) -> Health:
    """Answer 200 if requests can be served: the database answers and can be written."""
    await call.app.write_probe.check_ready()
    return Health(status="ok")


@system.get(
    "/metrics",
    summary="Prometheus metrics",
    media_type="text/plain",
    problems=(errors.Unauthenticated, errors.Forbidden),
)
async def metrics(call: Call[None, None]) -> Answer[str]:
    """Return metrics for Prometheus: with `MERCATO_METRICS_TOKEN` as bearer, without one on loopback only."""
    _may_read_metrics(call.app.settings, call.headers.get(b"authorization", b""))
    return Answer(raw=await call.app.metrics.read(), media_type=METRICS_TYPE.encode())


@system.get(
    "/docs",
    summary="API reference",
    media_type="text/html",
    answer_headers=("X-Content-Type-Options", "Content-Security-Policy", "Referrer-Policy"),
)
async def docs(call: Call[None, None]) -> Answer[str]:
    """Return the API reference as a page. It loads nothing from other servers."""
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Mercato API</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="stylesheet" href="/docs/assets/swagger-ui.css"></head><body><div id="docs"></div>'
        '<script src="/docs/assets/swagger-ui-bundle.js"></script><script src="/docs/assets/start.js"></script>'
        "</body></html>"
    )
    return Answer(
        raw=prefix_links(page.encode(), call.head.path_prefix),
        media_type=HTML,
        headers=(*NOSNIFF, *reference_page_policy(call.app.settings)),
    )


@system.get(
    "/docs/assets/{name}",
    summary="Asset of the API reference",
    media_type="text/*",
    answer_headers=("Cache-Control", "X-Content-Type-Options"),
    problems=(errors.NotFound,),
)
async def docs_asset(call: Call[None, None]) -> Answer[str]:
    """Return a script or a style sheet of the API reference."""
    name = call.texts["name"]
    if name == "start.js":
        return Answer(raw=START, media_type=b"text/javascript", headers=CACHED)
    if name not in ASSETS:
        raise errors.NotFound("No asset has this name.")
    return Answer(raw=_asset(name), media_type=ASSETS[name], headers=CACHED)


@system.get(
    "/errors/{errorCode}",
    summary="About an error code",
    media_type="text/html",
    other_media_types=("text/markdown",),
    answer_headers=(
        "Cache-Control",
        "Vary",
        "X-Content-Type-Options",
        "Content-Security-Policy",
        "Referrer-Policy",
    ),
    problems=(errors.NotFound,),
)
async def error_page(call: Call[None, None]) -> Answer[str]:
    """Explain an error code. A problem's `type` links here; Markdown for clients that prefer `text/markdown`."""
    kind = PROBLEMS.get(call.texts["errorCode"].upper())
    if kind is None:
        raise errors.NotFound("No error has this code. /openapi.json lists the codes of each operation.")
    markdown = prefers_markdown(call.headers.get(b"accept", b""))
    text = (as_markdown if markdown else as_html)(kind, call.head.base_url)
    headers = (*own_address_headers(call.app.settings), *static_page_policy(STYLE), (b"vary", b"Accept"))
    return Answer(raw=text.encode(), media_type=MARKDOWN if markdown else HTML, headers=headers)


@system.get(
    SCHEMA_PATH,
    summary="JSON Schema of a catalog document",
    media_type="application/schema+json",
    answer_headers=("Cache-Control", "X-Content-Type-Options"),
)
async def get_catalog_set_schema(call: Call[None, None]) -> Answer[dict[str, Any]]:
    """Return the JSON Schema of the document that merchants write, for editors: name it in the member `$schema`."""
    schema = catalog_set_schema(call.head.base_url)
    return Answer(
        raw=msgspec.json.format(as_json(schema), indent=2),
        media_type=SCHEMA_JSON,
        headers=own_address_headers(call.app.settings),
    )


def document_bytes(document: dict[str, Any]) -> bytes:
    """Return the OpenAPI document as it is served: without white space."""
    return as_json(document)


def version() -> str:
    """Return the version of this distribution."""
    return metadata.version("mercato")


@cache
def _asset(name: str) -> bytes:
    return resources.files("swagger_ui").joinpath("static", name).read_bytes()


def _may_read_metrics(settings: Settings, authorization: bytes) -> None:
    if settings.metrics_token is not None:
        scheme, _, token = authorization.partition(b" ")
        wanted = settings.metrics_token.reveal().encode()
        if not hmac.compare_digest(token.strip(), wanted) or scheme.lower() != b"bearer":
            raise errors.Unauthenticated("Send MERCATO_METRICS_TOKEN as bearer.", sent=bool(authorization))
    elif not is_loopback(settings.host):
        raise errors.Forbidden(
            "Set MERCATO_METRICS_TOKEN to read metrics on an address that is not loopback."
        )
