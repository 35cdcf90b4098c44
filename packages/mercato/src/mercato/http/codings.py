"""Content codings: the one that a client prefers (RFC 9110, 12.5.3), and gzip."""

import gzip
import re
from functools import lru_cache
from typing import Final

from mercato.features.stores.catalogs import IDENTITY

GZIP: Final = "gzip"

_WEIGHT: Final = re.compile(r"\s*q\s*=\s*(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)\s*", re.IGNORECASE)


@lru_cache(maxsize=256)
def best_coding(accept_encoding: bytes, codings: tuple[str, ...]) -> str:
    """Return the coding that the client prefers; among equals the first of `codings`.

    Identity is the last choice, unless the client prefers it.
    """
    weights: dict[str, float] = {}
    for part in accept_encoding.decode("latin-1").lower().split(","):
        name, _, parameter = part.strip().partition(";")
        weight = _WEIGHT.fullmatch(parameter) if parameter else None
        weights[name.strip()] = float(weight[1]) if weight else (0.0 if parameter else 1.0)
    others = weights.get("*", 0.0)
    best = max(codings, key=lambda coding: weights.get(coding, others))
    weight_of_best = weights.get(best, others)
    return best if weight_of_best > 0 and weight_of_best >= weights.get(IDENTITY, 0.0) else IDENTITY


def gzipped(body: bytes) -> bytes:
    return gzip.compress(body, compresslevel=6, mtime=0)
