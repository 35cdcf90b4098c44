"""What crosses the wire: the base of every struct, decoding with every fault named, and JSON out."""

from mercato.wire.base import MOST_ENTRIES, Instant, Wire, as_json, instant, parse_instant, parse_uuid
from mercato.wire.decode import Decoder, QueryDecoder

__all__ = [
    "MOST_ENTRIES",
    "Decoder",
    "Instant",
    "QueryDecoder",
    "Wire",
    "as_json",
    "instant",
    "parse_instant",
    "parse_uuid",
]
