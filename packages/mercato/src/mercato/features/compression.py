"""Stored bodies: compressed, those about an order with the order's content as their dictionary.

The first byte says how the rest is encoded.
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

# Text that webhooks and replies have in common, the most frequent last: half of what a body about an order adds to its
# content is names of members. It must never change, or stored bodies can't be read; a better one gets a new first byte.
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
# bytes, and detects a wrong base.
_OPTIONS: Final = {
    int(zstd.CompressionParameter.compression_level): 1,
    int(zstd.CompressionParameter.checksum_flag): 1,
}

_MIN_TABLE: Final = 12
"""The entries of the smallest table, as a power of two."""

_FRAME: Final = zstd.ZstdCompressor.FLUSH_FRAME

_BASES: Final = 32
"""Bases whose compressors are cached, at 90 KiB each. An order's first body is written before its store is called, and
two after that: meanwhile others are placed."""


def compress(content: bytes, *, base: bytes = b"") -> bytes:
    """Return the stored form. `base` is text that the content mostly repeats; `decompress` needs it again."""
    packed = _compressor(base).compress(content, mode=_FRAME)
    if base:
        return _AFTER_BASE + packed
    return _COMPRESSED + packed if len(packed) < len(content) else _RAW + content


def decompress(stored: bytes, *, base: bytes | None = None) -> bytes:
    """Return the content. `base` is the stored form of the base that it was compressed with, if it was."""
    kind, packed = stored[:1], stored[1:]
    if kind == _RAW:
        return packed
    if kind == _COMPRESSED:
        return zstd.decompress(packed, zstd_dict=_common)
    if base is None:
        raise ValueError("These bytes were compressed with a base, which is missing.")
    return zstd.decompress(packed, zstd_dict=_dictionary(decompress(base)).as_prefix)


# A cached one takes a third of the time of a new one. It is thread-safe.
@lru_cache(maxsize=_BASES)
def _compressor(base: bytes) -> zstd.ZstdCompressor:
    """Return a compressor whose table has one entry for four bytes of an order, as many as it can use.

    The library would choose one for far more text: memory that is mapped, cleared and returned with each order takes
    several times as long as compressing its bodies. Only a dictionary that isn't digested takes the size.
    """
    table = max(_MIN_TABLE, len(_COMMON + base).bit_length() - 2)
    options = _OPTIONS | {int(zstd.CompressionParameter.hash_log): table}
    return zstd.ZstdCompressor(options=options, zstd_dict=_dictionary(base).as_undigested_dict)


def _dictionary(base: bytes) -> zstd.ZstdDict:
    return zstd.ZstdDict(_COMMON + base, is_raw=True)


_common: Final = _dictionary(b"")
