"""Hostile documents with random changes: every build ends, and none raises."""

import unicodedata
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.catalog.documents import outcome
from tests.catalog.hostile import documents
from tests.generated import examples

from mercato_catalog.model import BuildFailed, Built

MAX_BYTES = 20_000
"""Bytes of a document that is worked on: random changes are more effective in small ones."""


@cache
def small() -> dict[str, bytes]:
    return {name: document for name, document in documents().items() if len(document) <= MAX_BYTES}


@st.composite
def mutants(draw: st.DrawFn) -> bytes:
    """Return a document with pieces left out, doubled, changed, or taken from another."""
    documents = small()
    names = st.sampled_from(sorted(documents))
    made = documents[draw(names)]
    for _ in range(draw(st.integers(1, 6))):
        begin, end = sorted((draw(st.integers(0, len(made))), draw(st.integers(0, len(made)))))
        other = documents[draw(names)]
        at = draw(st.integers(0, len(other)))
        piece = draw(
            st.sampled_from(
                [b"", made[begin:end] * 2, other[at : at + 200], b'"', b"{", b"[", b",", b":", b"\\"]
            )
            | st.binary(max_size=8)
        )
        made = made[:begin] + piece + made[end:]
    return made[: 4 * MAX_BYTES]


def can_be_shown(character: str) -> bool:
    """Spaces of other scripts and what joins emoji stay: nothing else that Python calls unprintable."""
    hidden = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    return character in "\u200c\u200d" or unicodedata.category(character) not in hidden


def check(document: bytes) -> None:
    result = outcome(document)
    assert isinstance(result, Built | BuildFailed)
    if isinstance(result, BuildFailed):
        assert 1 <= len(result.faults) <= 100
        assert all(len(fault.message) < 2_000 for fault in result.faults)
        assert {one for fault in result.faults for one in fault.message if not can_be_shown(one)} == set()
        assert all(fault.path == "" or fault.path.startswith("/") for fault in result.faults)


_SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example)


@settings(max_examples=examples(150), suppress_health_check=_SLOW)
@given(mutants())
def test_random_changes_of_hostile_documents_end(document: bytes):
    check(document)


@pytest.mark.long
@settings(max_examples=20_000, suppress_health_check=_SLOW)
@given(mutants())
def test_many_random_changes_of_hostile_documents_end(document: bytes):
    check(document)
