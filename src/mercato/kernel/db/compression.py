"""Bodies as columns keep them: compressed, and those about an order only by what its content doesn't say already.

The first byte tells how the rest is to be read.
"""

import sys
from functools import lru_cache
from typing import Final

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_RAW: Final = b"\x00"
_COMPRESSED: Final = b"\x01"
_AFTER_BASE: Final = b"\x02"

# What webhooks and replies have in common, the most frequent last. Half of what is left of a body about an order is
# names of members, which its content doesn't have. It never changes: what was compressed with it couldn't be read any
# more. A better one gets first bytes of its own.
_COMMON: Final = b"".join(
    (
        b'{"itemId":"","partnerItemId":"","modifierGroups":[{"modifierGroupId":"","partnerModifierGroupId":"","lineItems":',
        b'[{"itemId":"","modifierGroups":[],"quantity":1,"lineItemId":"","name":""}]}],"quantity":1,"lineItemId":"","name":',
        b'"","amounts":{"unitPrice":"10.00","total":"10.00"}}],"storeId":"","amounts":{"currency":"USD","subTotal":"10.00",',
        b'"adjustments":"0.00","adjustmentsDescription":[],"fees":"0.00","feesDescription":[{"amount":"","description":""}],',
        b'"promotions":"0.00","promotionsDescription":[],"taxes":"0.00","taxesDescription":[],"tip":"0.00","tipDescription"',
        b':[],"total":"10.00"}},"payment":{"type":"external"},"type":"catalog.sync.succeeded","catalogIngestId":"",',
        b'"cancelReason":"STORE_UNREACHABLE","errors":[{"code":"ITEM_UNAVAILABLE","message":"","pointer":"/cart/lineItems/0"}',
        b'],"address":{"street":"","city":"","region":"","postalCode":"","country":"US"},"instructions":"","mode":"DELIVERY"',
        b',"scheduleType":"SCHEDULED","scheduledTime":"2026-11-22T09:25:42.476Z"},"type":"order.validate",',
        b'"type":"order.cancelled","type":"order.created","type":"order.place","sequence":1,"state":"cancelled",',
        b'"status":"inTransit","status":"preparing","status":"ready","status":"pending","state":"completed",',
        b'"partnerOrderId":"","estimatedReadyAt":"2026-11-22T09:25:42.476Z","cancelReason":"",',
        b'{"type":"order.updated","timestamp":"2026-11-22T09:25:42.476Z","data":{"orderId":"01a20294-","storeId":"01a20294-',
        b'","partnerStoreId":"","sequence":2,"order":{"orderId":"","storeId":"","partnerStoreId":"","state":"open",',
        b'"status":"confirmed","partnerOrderId":null,"estimatedReadyAt":null,"cancelReason":null,"clientContext":{"ip":"",',
        b'"userAgent":""},"fulfillment":{"mode":"PICKUP","scheduleType":"ASAP","scheduledTime":null},"amounts":{"currency":',
        b'"USD"},"customer":{"email":"@gmail.com","firstName":"","lastName":"","phone":"+1","partnerUserId":null},"errors":',
        b'[],"createdAt":"2026-11-22T09:25:42.476Z","updatedAt":"2026-11-22T09:25:42.476Z","cart":{"catalogSetId":"',
    )
)

# Level 1: the levels up to 6 save at most a tenth more and take two to four times as long. The checksum costs four
# bytes, and finds a base that isn't the one.
_OPTIONS: Final = {
    int(zstd.CompressionParameter.compression_level): 1,
    int(zstd.CompressionParameter.checksum_flag): 1,
}

_FRAME: Final = zstd.ZstdCompressor.FLUSH_FRAME

_BASES: Final = 8
"""Bases whose compressors are kept: several bodies about one order are written close together."""


def compress(content: bytes, *, base: bytes = b"") -> bytes:
    """Return the content as it is stored. `base` is what it mostly repeats; `decompress` needs it again."""
    packed = _compressor(base).compress(content, mode=_FRAME)
    if base:
        return _AFTER_BASE + packed
    return _COMPRESSED + packed if len(packed) < len(content) else _RAW + content


def decompress(stored: bytes, *, base: bytes | None = None) -> bytes:
    """Return the content. `base` is the base as it is stored itself; what was compressed without one needs none."""
    kind, packed = stored[:1], stored[1:]
    if kind == _RAW:
        return packed
    if kind == _COMPRESSED:
        return zstd.decompress(packed, zstd_dict=_common)
    if base is None:
        raise ValueError("The base that these bytes were compressed with isn't there.")
    return zstd.decompress(packed, zstd_dict=_dictionary(decompress(base)).as_prefix)


# One that is kept compresses in a third of the time that a new one takes. It locks itself against other threads.
@lru_cache(maxsize=_BASES)
def _compressor(base: bytes) -> zstd.ZstdCompressor:
    return zstd.ZstdCompressor(options=_OPTIONS, zstd_dict=_dictionary(base).as_digested_dict)


def _dictionary(base: bytes) -> zstd.ZstdDict:
    return zstd.ZstdDict(_COMMON + base, is_raw=True)


_common: Final = _dictionary(b"")
