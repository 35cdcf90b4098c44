"""The codings in which a CatalogSet is stored and served."""

import gzip
import sys
from typing import Final

import brotli

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

CODINGS: Final = ("zstd", "br", "gzip")

_LARGE: Final = 64 * 1024
"""Bytes above which brotli's best quality takes seconds and saves a few per cent."""

_ZSTD_LEVEL: Final = 6
_GZIP_LEVEL: Final = 6
_BROTLI_LARGE: Final = {"quality": 5}
_BROTLI_SMALL: Final = {"quality": 9, "lgwin": 16}
"""The window holds all of a small body. With a larger one brotli clears tables of a megabyte for each body."""


def compress(body: bytes) -> dict[str, bytes]:
    """Return coding → compressed bytes. It releases the interpreter's lock, so it can run in a thread."""
    return {coding: compress_as(body, coding) for coding in CODINGS}


def decompress(content: bytes, coding: str) -> bytes:
    """Return the body of its zstd form."""
    assert coding == "zstd"
    return zstd.decompress(content)


def compress_as(body: bytes, coding: str) -> bytes:
    """Return the bytes in one of CODINGS."""
    if coding == "zstd":
        return zstd.compress(body, level=_ZSTD_LEVEL)
    if coding == "br":
        options = _BROTLI_LARGE if len(body) > _LARGE else _BROTLI_SMALL
        compressed: bytes = brotli.compress(body, **options)
        return compressed
    if coding == "gzip":
        return gzip.compress(body, compresslevel=_GZIP_LEVEL, mtime=0)
    raise ValueError(coding)
