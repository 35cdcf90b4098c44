"""The index's words for one store, and a request's question to the index, the same on both databases.

Beside words there are marks: a category, and the place in two coarse grids. They begin with a character that no word
has, so that one index answers "ramen, within these cells, of this category" without looking at a single row.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from mercato.catalog.words import LEAST_PREFIX, Term, terms_of, words_of
from mercato.db.clock import Dialect
from mercato.discovery.places import COLUMNS, Circle, cell_of

_CATEGORY: Final = "\ue000c"
_GRIDS: Final = (("\ue000f", 10), ("\ue000g", 100))
"""Cells of a grid's cell along each side: half a degree, and five."""

_BEGINNING: Final = "\ue000p"
"""The first letters of a word, where an index can't look them up by itself."""

MOST_CELLS: Final = 64
"""Cells of a coarse grid that one question names; a circle that covers more takes the next one, or none."""


class Question(NamedTuple):
    """What the index is asked: every term, one mark of each group."""

    terms: tuple[Term, ...]
    marks: tuple[tuple[str, ...], ...]
    name_parts: tuple[str, ...]
    """What the key of a store's name must hold for its name to be what was asked for."""


def category_of(text: str) -> str:
    """Return the mark of a category: case, width and blanks make no difference."""
    plain = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    return _CATEGORY + blake2b(plain.encode(), digest_size=8).hexdigest()


def document_of(
    texts: Iterable[str],
    catalog: Iterable[str],
    *,
    categories: Iterable[str],
    place: tuple[float, float] | None,
    dialect: Dialect,
) -> list[str]:
    """Return all words and marks of a store, each once."""
    found = dict.fromkeys((*words_of(texts), *catalog))
    if dialect == "postgresql":
        starts = [word[:LEAST_PREFIX] for word in found if len(word) > LEAST_PREFIX]
        found.update(dict.fromkeys(_BEGINNING + start for start in starts))
    found.update(dict.fromkeys(map(category_of, categories)))
    if place is not None:
        cell = cell_of(*place)
        found.update(dict.fromkeys(_mark(grid, cell) for grid in _GRIDS))
    return list(found)


def question_of(query: str | None, categories: Sequence[str], circle: Circle | None) -> Question | None:
    """Return what to ask; None when neither words nor categories are asked for."""
    terms = terms_of(query or "")
    marks = [tuple(dict.fromkeys(map(category_of, categories)))] if categories else []
    if not terms and not marks:
        return None
    cells = _cells(circle) if circle is not None else ()
    if cells:
        marks.append(cells)
    return Question(tuple(terms), tuple(marks), tuple(map(_in_name, terms)))


def for_sqlite(question: Question) -> str:
    """Return the question in FTS5's words. Nothing of a request can be syntax: its words are letters and digits."""
    parts = [f'"{term.text}"{" *" if term.prefix else ""}' for term in question.terms]
    parts += ["(" + " OR ".join(f'"{mark}"' for mark in group) + ")" for group in question.marks]
    return " AND ".join(parts)


def for_postgresql(question: Question) -> str:
    """Return the question as a tsquery."""
    parts = [_lexeme(term) for term in question.terms]
    parts += ["(" + " | ".join(f"'{mark}'" for mark in group) + ")" for group in question.marks]
    return " & ".join(parts)


def _lexeme(term: Term) -> str:
    if term.prefix and len(term.text) == LEAST_PREFIX:
        return f"('{term.text}' | '{_BEGINNING}{term.text}')"
    return f"'{term.text}'{':*' if term.prefix else ''}"


def _in_name(term: Term) -> str:
    """Return the term with the blanks that stand around it in a name's key."""
    return term.text if term.running else f" {term.text}" + ("" if term.prefix else " ")


def _cells(circle: Circle) -> tuple[str, ...]:
    for grid in _GRIDS:
        _, size = grid
        found: dict[str, None] = {}
        for first, last in circle.ranges:
            found.update(dict.fromkeys(_mark(grid, cell) for cell in range(first, last + 1, size)))
            found[_mark(grid, last)] = None
            if len(found) > MOST_CELLS:
                break
        else:
            return tuple(found)
    return ()


def _mark(grid: tuple[str, int], cell: int) -> str:
    name, size = grid
    row, column = divmod(cell, COLUMNS)
    return f"{name}{row // size}x{column // size}"
