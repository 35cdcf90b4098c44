"""Searches asked of the database: the page and how many there are, from one statement and so of one moment."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from mercato.db.engine import Read
from mercato.discovery import statements
from mercato.discovery.places import Circle
from mercato.discovery.statements import Shape
from mercato.discovery.text import Question, for_postgresql, for_sqlite


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
    shape, values = _asked(tx, search, opened=False)
    rows = await tx.execute(statements.hours(shape), values)
    return [Hours(*row) for row in rows]


async def list_hits(
    tx: Read, search: Search, *, offset: int, limit: int, keys: Sequence[int] | None = None
) -> tuple[int | None, list[Hit]]:
    """Return the total and a page of hits. With `keys`, only those open by these hours, and no total."""
    shape, values = _asked(tx, search, opened=keys is not None)
    if keys is not None:
        values["keys"] = list(keys) if tx.dialect == "postgresql" else json.dumps(keys)
    rows = await tx.execute(statements.page(shape), values | {"offset": offset, "limit": limit})
    total: int | None = None
    hits = []
    for count, *rest in rows:
        total = count
        if rest[2] is not None:
            hits.append(Hit(*rest))
    return total, hits


def _asked(tx: Read, search: Search, *, opened: bool) -> tuple[Shape, dict[str, Any]]:
    """Return the statement's shape and its parameters."""
    values: dict[str, Any] = {"now": search.now_ms}
    tiers: Sequence[str] = ()
    if search.circle is not None:
        values |= search.circle.centre._asdict() | {"most": search.circle.most}
    if search.question is not None:
        asked = for_sqlite if tx.dialect == "sqlite" else for_postgresql
        values["words"] = asked(search.question)
        tiers = () if search.circle is not None else search.question.name_parts
        values |= {f"part{number}": part for number, part in enumerate(tiers)}
    elif search.circle is not None:
        values |= _ranges(tx, search.circle)
    shape = Shape(
        dialect=tx.dialect,
        place=search.circle is not None,
        words=search.question is not None,
        tiers=len(tiers),
        mode=search.mode,
        opened=opened,
    )
    return shape, values


def _ranges(tx: Read, circle: Circle) -> dict[str, Any]:
    if tx.dialect == "sqlite":
        return {"ranges": json.dumps(circle.ranges)}
    return {"lows": [low for low, _ in circle.ranges], "highs": [high for _, high in circle.ranges]}
