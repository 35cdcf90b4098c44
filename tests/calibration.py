"""How fast this process is now: bounds of time in tests are factors of it, so that they hold on any machine."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from time import thread_time
from typing import Final

SIZE: Final = 1024 * 1024
"""Bytes of the document: as many as a request body may have."""

DECODINGS: Final = 5

_ENTRY: Final = (
    b'{"itemId":"0190f5fe-7e3b-7ccc-8000-00000000000a","name":"Margherita","quantity":2,"basePrice":"12.50",'
    b'"available":true,"tags":["a","b"],"note":null}'
)
_DOCUMENT: Final = b"[%s]" % b",".join([_ENTRY] * (SIZE // (len(_ENTRY) + 1)))


def plain_decoding_seconds() -> float:
    """Return the CPU seconds in which this thread decodes an ordinary JSON document of 1 MiB: the median of five runs.

    Call it next to what is measured, in the same thread, so that both have the same share of the machine.
    """
    return median(_seconds() for _ in range(DECODINGS))


@contextmanager
def cpu_within(factor: float) -> Iterator[None]:
    """Fail if this thread needs more CPU for the block than for so many plain decodings, before or after it."""
    plain = plain_decoding_seconds()
    started = thread_time()
    yield
    seconds = thread_time() - started
    if seconds >= factor * plain:
        plain = max(plain, plain_decoding_seconds())
    assert seconds < factor * plain, f"{seconds / plain:.1f} times the CPU of decoding 1 MiB of plain JSON"


def _seconds() -> float:
    started = thread_time()
    json.loads(_DOCUMENT)
    return thread_time() - started
