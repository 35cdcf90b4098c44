"""Two hundred hostile documents, built by the function that a worker calls: each ends within its time and memory."""

import multiprocessing
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any, Final

import msgspec
import pytest
from tests.calibration import plain_decoding_seconds
from tests.catalog.documents import outcome
from tests.catalog.hostile import documents

from mercato.features.catalogs.builder import TINY
from mercato.features.catalogs.codings import compress
from mercato_catalog.building.packed import unpack
from mercato_catalog.model import BuildFailed, Built

DECODINGS: Final = 400
"""CPU that any of them may take, in plain decodings of 1 MiB of JSON."""

IN_PLACE_DECODINGS: Final = 1
"""The limit of a document that is built in place: a document whose cost grows faster than its size exceeds it."""

MEMORY: Final = 1024 * 1024 * 1024
"""Bytes of address space of the process that builds them all: the interpreter takes a third."""


class Ended(msgspec.Struct, frozen=True):
    """The result of a document."""

    faults: int | None
    """None if it is served."""
    longest: int
    """Characters of its longest message or path."""
    decodings: float
    """The CPU it took, in plain decodings."""
    size: int


def build_all() -> dict[str, Ended]:
    """Build every document here; the first that raises is reported by its name."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    plain = plain_decoding_seconds()
    return {name: ended(name, document, plain) for name, document in documents().items()}


def ended(name: str, document: bytes, plain: float) -> Ended:
    started = time.thread_time()
    try:
        result = outcome(document)
        seconds = time.thread_time() - started
        if isinstance(result, Built):
            assert compress(result.body)
            unpack(result.compiled)
    except BaseException as error:
        raise AssertionError(f"{name}: {type(error).__name__}") from error
    assert isinstance(result, Built | BuildFailed)
    faults = result.faults if isinstance(result, BuildFailed) else ()
    answer: list[Any] = [*faults, *result.warnings]
    texts = [text for one in answer for text in (one.message, one.path)]
    return Ended(
        len(faults) if isinstance(result, BuildFailed) else None,
        max(map(len, texts), default=0),
        seconds / plain,
        len(document),
    )


@pytest.fixture(scope="module")
def ends() -> dict[str, Ended]:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(build_all).result(timeout=120)


def test_two_hundred_hostile_documents_are_the_same_in_every_process(ends: dict[str, Ended]):
    assert {name: len(document) for name, document in documents().items()} == {
        name: end.size for name, end in ends.items()
    }
    assert len(ends) >= 200


def test_each_ends_served_or_with_at_most_a_hundred_faults_and_none_raises(ends: dict[str, Ended]):
    for name, end in ends.items():
        assert end.faults is None or 1 <= end.faults <= 100, name
    served = [name for name, end in ends.items() if end.faults is None]
    assert 20 < len(served) < len(ends) - 100


def test_each_ends_within_its_time_limit(ends: dict[str, Ended]):
    late = {name: end.decodings for name, end in ends.items() if end.decodings > DECODINGS}
    assert late == {}


def test_documents_built_in_place_do_not_delay_requests(ends: dict[str, Ended]):
    small = {name: end.decodings for name, end in ends.items() if end.size <= TINY}
    late = {name: decodings for name, decodings in small.items() if decodings > IN_PLACE_DECODINGS}
    assert late == {}


def test_messages_and_paths_are_shortened(ends: dict[str, Ended]):
    assert max(end.longest for end in ends.values()) < 2_000
