"""A store's words in the full-text index, and a request's query to it, for both databases.

Besides words the index has marks: a word of the store's name, a category, a fulfilment type that the store lacks, and
its cells in two coarse grids. They begin with a character that no word has, so that one index finds "ramen, delivered,
of this category, within these cells" without reading a row.
"""

import unicodedata
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, NamedTuple
from uuid import UUID

import msgspec
from msgspec import UNSET, Struct, UnsetType

from mercato.features.discovery.geometry import COLUMNS, Circle, cell_of
from mercato.platform.db.types import Dialect
from mercato_catalog.model import Windows
from mercato_catalog.words import MAX_VARIANTS, MIN_PREFIX, Term, terms_of, variants_of, words_of
from mercato_contract.wire import Wire


class Listing(Struct, frozen=True, kw_only=True):
    """A store as it is searched: its words, its place, its hours, and the card that a storefront gets.

    `words` are those of its catalog, `spans` of the local week. `paused_until` is in milliseconds since 1970: 0 if the
    store isn't paused, INDEFINITELY if it is paused until further notice. `card` is a DiscoveredStore in JSON without
    what depends on the present time or the search; `card_version` is that of its shape.
    """

    store_id: UUID
    name: str
    description: str | None
    categories: Sequence[str]
    place: tuple[float, float] | None
    timezone: str
    pickup: bool
    delivery: bool
    paused_until: int
    words: Sequence[str]
    spans: Windows
    card: bytes
    card_version: int


class EncodedDiscoverResponse(Wire):
    """A DiscoverResponse whose stores are already encoded."""

    stores: list[msgspec.Raw]
    total_count: int
    has_more: bool
    total_count_is_lower_bound: bool | UnsetType = UNSET


_NAME: Final = "\ue000n"
_CATEGORY: Final = "\ue000c"
_MODE_MISSING: Final = {"pickup": "\ue000x", "delivery": "\ue000y"}
"""Marks of what is missing, because nearly every store has both."""

_GRIDS: Final = (("\ue000f", 25), ("\ue000g", 250))
"""Each grid's mark and its cells' width in cells of `places`: half a degree, and five degrees."""

_PREFIX: Final = "\ue000p"
"""The mark of a word's first letters, for PostgreSQL's index."""

MAX_CELLS: Final = 64
"""Cells of a coarse grid that one question names; a circle that covers more uses the coarser grid, or none."""


MAX_WORDS_FORGIVEN: Final = 3
"""Words of one query in which a letter may be wrong: each is looked up in some hundred variants, of MAX_VARIANTS."""


class TextQuery(NamedTuple):
    """A full-text query: every term, at least one mark of each group, one of `cells`, and not the mark `excluded`.

    By place nothing is excluded: the row of a hit, which is read for the distance, has the fulfilment types.
    """

    terms: tuple[Term, ...]
    marks: tuple[tuple[str, ...], ...]
    excluded: str | None
    cells: tuple[str, ...] = ()

    def within(self, circle: Circle) -> "TextQuery":
        """Return the same query for stores in the cells that cover a circle."""
        return self._replace(cells=_cells(circle))

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """The groups of marks, with the cells."""
        return (*self.marks, self.cells) if self.cells else self.marks

    @property
    def best(self) -> "TextQuery":
        """The same query for stores that have every term in their name."""
        named = tuple(
            term._replace(
                text=_NAME + term.text,
                variants=tuple(_NAME + variant for variant in term.variants),
                completions=tuple(_NAME + completion for completion in term.completions),
            )
            for term in self.terms
        )
        return self._replace(terms=named)

    @property
    def whole(self) -> "TextQuery":
        """The same query for stores that have every term as a whole word."""
        return self._replace(terms=tuple(term._replace(prefix=False, completions=()) for term in self.terms))

    @property
    def beginning(self) -> str | None:
        """The last term, if it may be the beginning of a longer word."""
        return self.terms[-1].text if self.terms and self.terms[-1].prefix else None

    def complete(self, words: Sequence[str]) -> "TextQuery":
        """Return the same query with the words that the last term begins."""
        return self._replace(terms=(*self.terms[:-1], self.terms[-1]._replace(completions=tuple(words))))

    @property
    def forgiving(self) -> "TextQuery | None":
        """The same query with one letter wrong in each of its first long words; None if it has none."""
        terms = []
        forgiven, most = 0, MAX_VARIANTS
        for term in self.terms:
            variants = variants_of(term.text, most=most) if forgiven < MAX_WORDS_FORGIVEN else ()
            forgiven, most = forgiven + bool(variants), most - len(variants)
            terms.append(term._replace(variants=(*term.variants, *variants)))
        return self._replace(terms=tuple(terms)) if forgiven else None


def category_of(text: str) -> str:
    """Return the mark of a category, which ignores case, width and blanks."""
    plain = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    return _CATEGORY + blake2b(plain.encode(), digest_size=8).hexdigest()


def document_of(listing: Listing, dialect: Dialect) -> list[str]:
    """Return the distinct words and marks of a store."""
    named = words_of([listing.name])
    found = dict.fromkeys(
        (*named, *words_of([listing.description or "", *listing.categories]), *listing.words)
    )
    if dialect == "postgresql":
        starts = [word[:MIN_PREFIX] for word in found if len(word) > MIN_PREFIX]
        found.update(dict.fromkeys(_PREFIX + start for start in starts))
    found.update(dict.fromkeys(_NAME + word for word in named))
    found.update(dict.fromkeys(map(category_of, listing.categories)))
    found.update(
        dict.fromkeys(
            _MODE_MISSING[mode]
            for mode, there in (("pickup", listing.pickup), ("delivery", listing.delivery))
            if not there
        )
    )
    if listing.place is not None:
        cell = cell_of(*listing.place)
        found.update(dict.fromkeys(_mark(grid, cell) for grid in _GRIDS))
    return list(found)


def text_query_of(
    query: str | None, categories: Sequence[str], *, mode: str | None, circle: Circle | None
) -> TextQuery | None:
    """Return the query, or None without words and categories."""
    terms = terms_of(query or "")
    marks = [tuple(dict.fromkeys(map(category_of, categories)))] if categories else []
    if not terms and not marks:
        return None
    excluded = _MODE_MISSING[mode] if mode is not None and circle is None else None
    text_query = TextQuery(tuple(terms), tuple(marks), excluded)
    return text_query if circle is None else text_query.within(circle)


def render_query(dialect: Dialect, text_query: TextQuery) -> str:
    """Return the query in the syntax of FTS5 or PostgreSQL.

    A request can't inject syntax: its words are letters and digits.
    """
    return _fts5_query(text_query) if dialect == "sqlite" else _tsquery(text_query)


def _fts5_query(text_query: TextQuery) -> str:
    parts = [_phrase(term) for term in text_query.terms]
    parts += ["(" + " OR ".join(f'"{mark}"' for mark in group) + ")" for group in text_query.groups]
    found = " AND ".join(parts)
    return f'({found}) NOT "{text_query.excluded}"' if text_query.excluded else found


def _phrase(term: Term) -> str:
    # FTS5 merges the stores of each word, of one that is named twice too.
    others = dict.fromkeys(word for word in (*term.completions, *term.variants) if word != term.text)
    whole = f'"{term.text}"{" *" if term.prefix and not term.completions else ""}'
    return " OR ".join((f"({whole}", *(f'"{other}"' for other in others))) + ")" if others else whole


def _tsquery(text_query: TextQuery) -> str:
    parts = [_lexeme(term) for term in text_query.terms]
    parts += ["(" + " | ".join(f"'{mark}'" for mark in group) + ")" for group in text_query.groups]
    if text_query.excluded:
        parts.append(f"!'{text_query.excluded}'")
    return " & ".join(parts)


def _lexeme(term: Term) -> str:
    if term.variants:
        others = " | ".join(f"'{variant}'" for variant in term.variants)
        return f"({_lexeme(term._replace(variants=()))} | {others})"
    if term.prefix and len(term.text) == MIN_PREFIX:
        return f"('{term.text}' | '{_PREFIX}{term.text}')"
    return f"'{term.text}'{':*' if term.prefix else ''}"


def _cells(circle: Circle) -> tuple[str, ...]:
    for grid in _GRIDS:
        _, size = grid
        found: dict[str, None] = {}
        for first, last in circle.ranges:
            found.update(dict.fromkeys(_mark(grid, cell) for cell in range(first, last + 1, size)))
            found[_mark(grid, last)] = None
            if len(found) > MAX_CELLS:
                break
        else:
            return tuple(found)
    return ()


def _mark(grid: tuple[str, int], cell: int) -> str:
    name, size = grid
    row, column = divmod(cell, COLUMNS)
    return f"{name}{row // size}x{column // size}"
