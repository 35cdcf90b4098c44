"""Compressed answers, for clients that accept gzip."""

import gzip
import re
from typing import Final

from mercato.http.head import Head

_GZIP: Final = re.compile(rb"(?:^|,)\s*(?:gzip|\*)\s*(?:;\s*q\s*=\s*([\d.]+)\s*)?(?=,|$)", re.IGNORECASE)


def accepts_gzip(head: Head) -> bool:
    match = _GZIP.search(head.headers.get(b"accept-encoding", b""))
    return match is not None and (match[1] is None or match[1].strip(b"0.") != b"")


def compressed(body: bytes) -> bytes:
    return gzip.compress(body, compresslevel=6, mtime=0)
