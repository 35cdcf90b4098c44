"""Two hundred hostile documents, built by the function that a worker calls: each ends within its time and memory."""

import multiprocessing
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any, Final

import msgspec
import pytest
from tests.catalog.documents import outcome
from tests.catalog.hostile import documents

from mercato.domain.catalog.building.builder import SMALL
from mercato.domain.catalog.building.compress import compress
from mercato.domain.catalog.building.model import BuildFailed, Built
from mercato.domain.catalog.building.packed import unpack

SECONDS: Final = 4.0
"""Processor time that any of them may take."""

IN_PLACE_SECONDS: Final = 0.5
"""The limit of a document that is built in place. It is twenty times what most need, so that a busy machine
fails no test; a document whose cost grows faster than its size still exceeds it."""

MEMORY: Final = 1024 * 1024 * 1024
"""Bytes of address space of the process that builds them all: the interpreter takes a third."""


class Ended(msgspec.Struct, frozen=True):
    """The result of a document."""

    faults: int | None
    """None if it is served."""
    longest: int
    """Characters of its longest message or path."""
    seconds: float
    size: int


def build_all() -> dict[str, Ended]:
    """Build every document here; the first that raises is reported by its name."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    return {name: ended(name, document) for name, document in documents().items()}


def ended(name: str, document: bytes) -> Ended:
    started = time.process_time()
    try:
        result = outcome(document)
        seconds = time.process_time() - started
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
        seconds,
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
    late = {name: end.seconds for name, end in ends.items() if end.seconds > SECONDS}
    assert late == {}


def test_documents_built_in_place_do_not_delay_requests(ends: dict[str, Ended]):
    late = {n: e.seconds for n, e in ends.items() if e.size <= SMALL and e.seconds > IN_PLACE_SECONDS}
    assert late == {}


def test_messages_and_paths_are_shortened(ends: dict[str, Ended]):
    assert max(end.longest for end in ends.values()) < 2_000
