"""A CatalogSet as it is answered to either side: the bytes of ingest in the client's coding, or 304."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from mercato.catalog.compress import CODINGS
from mercato.stores.catalogs import IDENTITY, Body
from mercato.web.operations import Answer

_FOREVER: Final = b"private, max-age=31536000, immutable"
_WEIGHT: Final = re.compile(r"\s*q\s*=\s*(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)\s*", re.IGNORECASE)


def coding_for(headers: Mapping[bytes, bytes]) -> str:
    """Return the coding in which to answer a request with these headers."""
    return best_coding(headers.get(b"accept-encoding", b""))


def answer(body: Body, headers: Mapping[bytes, bytes]) -> Answer:
    """Return the set, or 304 if the request names a tag of it."""
    tag, reply_headers, unchanged = _headers(body.tag, body.coding)
    known = headers.get(b"if-none-match")
    # Most clients send back the one tag that they got.
    if known is not None and (known == tag or _known(known.decode("latin-1"), body)):
        return unchanged
    return Answer(raw=body.content, headers=reply_headers)


@lru_cache(maxsize=4096)
def _headers(text: str, coding: str) -> tuple[bytes, tuple[tuple[bytes, bytes], ...], Answer]:
    """Return the tag of a body, its headers, and its 304."""
    tag = text.encode()
    of_unchanged = (b"etag", tag), (b"vary", b"Accept-Encoding"), (b"cache-control", _FOREVER)
    headers = of_unchanged if coding == IDENTITY else (*of_unchanged, (b"content-encoding", coding.encode()))
    return tag, headers, Answer(status=304, headers=of_unchanged)


@lru_cache(maxsize=256)
def best_coding(accept_encoding: bytes) -> str:
    """Return the coding that the client likes best, ours in their order where it does not care.

    The bytes as they are come last, unless the client says that it likes them better.
    """
    weights: dict[str, float] = {}
    for part in accept_encoding.decode("latin-1").lower().split(","):
        name, _, parameter = part.strip().partition(";")
        weight = _WEIGHT.fullmatch(parameter) if parameter else None
        weights[name.strip()] = float(weight[1]) if weight else (0.0 if parameter else 1.0)
    anything = weights.get("*", 0.0)
    best = max(CODINGS, key=lambda coding: weights.get(coding, anything))
    liked = weights.get(best, anything)
    return best if liked > 0 and liked >= weights.get(IDENTITY, 0.0) else IDENTITY


def _known(if_none_match: str, body: Body) -> bool:
    """Tell whether the client has these bytes, in whatever coding."""
    tags = {tag.strip().removeprefix("W/") for tag in if_none_match.split(",")}
    return "*" in tags or not tags.isdisjoint(body.tags)
