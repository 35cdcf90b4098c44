"""Searches asked of the database: the page and how many there are, from one statement and so of one moment."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from mercato.db.engine import Read
from mercato.discovery import statements
from mercato.discovery.places import Circle
from mercato.discovery.statements import Shape
from mercato.discovery.text import Question, asked, without


class Search(NamedTuple):
    """What is looked for, worked out. `mode` is `pickup`, `delivery` or None for either."""

    circle: Circle | None
    question: Question | None
    mode: str | None
    now_ms: int


class Hit(NamedTuple):
    """A store of the page. `away` is the square of the chord to it; `sold_out` lists item ids with commas."""

    away: float | None
    paused_until: int
    card: bytes
    timezone: str
    spans: bytes
    sold_out: str | None


class Hours(NamedTuple):
    """Opening hours among the hits, and how many hits that are not paused have them."""

    key: int
    timezone: str
    spans: bytes
    stores: int


async def list_hours(tx: Read, search: Search) -> list[Hours]:
    """Return the opening hours of all hits that are not paused: as many rows as they differ."""
    shape = _shape(tx, search, opened=False)
    rows = await tx.execute(statements.hours(shape), _values(tx, search) | _words(tx, search.question))
    return [Hours(*row) for row in rows]


async def list_hits(
    tx: Read, search: Search, *, offset: int, limit: int, keys: Sequence[int] | None = None
) -> tuple[int | None, list[Hit]]:
    """Return the total and a page of hits. With `keys`, only those open by these hours, and no total."""
    shape = _shape(tx, search, opened=keys is not None)
    values = _values(tx, search) | {"offset": offset, "limit": limit}
    if keys is not None:
        values["keys"] = list(keys) if tx.dialect == "postgresql" else json.dumps(keys)
    values |= _words(tx, search.question)
    if shape.words and not shape.place:
        values |= _tiers(tx, search.question) | {"top": offset + limit}
    rows = await tx.execute(statements.page(shape), values)
    total: int | None = None
    hits = []
    for count, *rest in rows:
        total = count
        if rest[2] is not None:
            hits.append(Hit(*rest))
    return total, hits


def _shape(tx: Read, search: Search, *, opened: bool) -> Shape:
    return Shape(
        dialect=tx.dialect,
        place=search.circle is not None,
        words=search.question is not None and bool(search.question.terms),
        marks=search.question is not None and not search.question.terms,
        mode=search.mode,
        opened=opened,
    )


def _values(tx: Read, search: Search) -> dict[str, Any]:
    values: dict[str, Any] = {"now": search.now_ms}
    if search.circle is None:
        return values
    values |= search.circle.centre._asdict() | {"most": search.circle.most}
    if search.question is not None:
        return values
    if tx.dialect == "sqlite":
        return values | {"ranges": json.dumps(search.circle.ranges)}
    lows, highs = zip(*search.circle.ranges, strict=True)
    return values | {"lows": list(lows), "highs": list(highs)}


def _words(tx: Read, question: Question | None) -> dict[str, Any]:
    return {} if question is None else {"words": asked(tx.dialect, question)}


def _tiers(tx: Read, question: Question | None) -> dict[str, Any]:
    assert question is not None
    best = asked(tx.dialect, question.best)
    return {"best": best, "rest": without(tx.dialect, asked(tx.dialect, question), best)}
