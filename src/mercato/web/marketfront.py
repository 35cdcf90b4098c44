"""The Marketfront surface: what storefronts call."""

import re
from typing import Any, Final

from mercato import errors
from mercato.catalog.compress import CODINGS
from mercato.stores.catalogs import IDENTITY, Body
from mercato.web.operations import Access, Answer, Call, Operations

marketfront = Operations(access=Access.MARKETFRONT, tag="Marketfront")

_FOREVER: Final = b"private, max-age=31536000, immutable"
_WEIGHT: Final = re.compile(r"\s*q\s*=\s*(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)\s*", re.IGNORECASE)


@marketfront.get(
    "/v1/marketfront/catalog-sets/{catalogSetId}",
    summary="Get CatalogSet",
    returns=dict[str, Any],
    also=(304,),
    reply_headers=("ETag",),
    request_headers=("If-None-Match",),
    missing={"catalogSetId": errors.CatalogSetNotFound},
    problems=(errors.CatalogSetNotFound,),
)
async def get_catalog_set(call: Call[None, None]) -> Answer:
    """Return a CatalogSet. It never changes under its id, so keep it; a superseded one is readable for 30 days."""
    coding = best_coding(call.headers.get(b"accept-encoding", b"").decode("latin-1"))
    body = await call.app.bodies.get(call.ids["catalogSetId"], coding)
    headers = [(b"etag", body.tag.encode()), (b"vary", b"Accept-Encoding"), (b"cache-control", _FOREVER)]
    if _known(call.headers.get(b"if-none-match", b"").decode("latin-1"), body):
        return Answer(status=304, headers=tuple(headers))
    if coding != IDENTITY:
        headers.append((b"content-encoding", coding.encode()))
    return Answer(raw=body.content, headers=tuple(headers))


def best_coding(accept_encoding: str) -> str:
    """Return the coding that the client likes best, ours in their order where it does not care."""
    weights: dict[str, float] = {}
    for part in accept_encoding.lower().split(","):
        name, _, parameter = part.strip().partition(";")
        weight = _WEIGHT.fullmatch(parameter) if parameter else None
        weights[name.strip()] = float(weight[1]) if weight else (0.0 if parameter else 1.0)
    anything = weights.get("*", 0.0)
    best = max(CODINGS, key=lambda coding: weights.get(coding, anything))
    return best if weights.get(best, anything) > 0 else IDENTITY


def _known(if_none_match: str, body: Body) -> bool:
    """Tell whether the client has these bytes, in whatever coding."""
    tags = {tag.strip().removeprefix("W/") for tag in if_none_match.split(",")}
    return "*" in tags or not tags.isdisjoint(body.tags)
