"""What crosses the wire: the base of every struct, decoding with every fault named, and JSON out."""

from mercato.wire.base import (
    MAX_ENTRIES,
    Instant,
    Wire,
    as_json,
    instant,
    parse_instant,
    parse_uuid,
    redacted,
)
from mercato.wire.decode import Decoder, QueryDecoder

__all__ = [
    "MAX_ENTRIES",
    "Decoder",
    "Instant",
    "QueryDecoder",
    "Wire",
    "as_json",
    "instant",
    "parse_instant",
    "parse_uuid",
    "redacted",
]
