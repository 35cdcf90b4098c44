"""Run searches: the page and the total come from one statement, so they are consistent."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from mercato.features.discovery import statements
from mercato.features.discovery.places import RINGS, Circle, zones_of
from mercato.features.discovery.statements import Shape
from mercato.features.discovery.text import TextQuery, exclude, render_query
from mercato.platform.db.engine import Read
from mercato_contract.wire import as_json


class Search(NamedTuple):
    """A search with its computed circle and text query. `mode` is `pickup`, `delivery` or None for either."""

    circle: Circle | None
    text_query: TextQuery | None
    mode: str | None
    now_ms: int


Parameters = dict[str, object]
"""Values of a statement's parameters by name."""

Hit = tuple[int | None, float | None, int, bytes, str, bytes, str | None]
"""A store of the page: total, squared chord to it, end of its pause, card, time zone, spans, comma-separated ids of its
sold-out items."""

Hours = tuple[int, str, bytes, int, int]
"""Opening hours among the hits of a ring: key, time zone, spans, ring, number of hits with them that aren't paused."""


async def count_rings(tx: Read, search: Search) -> list[int]:
    """Return the number of hits in each ring's zones."""
    shape, values = _shape(tx, search), _values(search) | _zones(tx, search)
    found: dict[int, int] = {row[0]: row[1] for row in await tx.all(statements.rings(shape), values)}
    return [found.get(ring, 0) for ring in range(len(RINGS))]


async def list_hours(tx: Read, search: Search) -> Sequence[Hours]:
    """Return the distinct opening hours of all hits that aren't paused."""
    shape = _shape(tx, search)
    values = _values(search) | _words(tx, search.text_query)
    if shape.by_cells:
        values |= _zones(tx, search)
    rows: Sequence[Any] = await tx.all(statements.hours(shape), values)
    return rows


async def list_hits(
    tx: Read, search: Search, *, offset: int, limit: int, keys: Sequence[int] | None = None
) -> tuple[int | None, list[Hit]]:
    """Return the total and a page of hits. With `keys`, only those open by these hours.

    The total is None with `keys`, and by location without words: those searches are counted first.
    """
    shape = _shape(tx, search, open_now=keys is not None)
    values = _values(search) | _words(tx, search.text_query) | {"offset": offset, "limit": limit}
    if keys is not None:
        values["keys"] = list(keys) if tx.dialect == "postgresql" else as_json(keys).decode()
    if shape.by_cells and search.circle is not None:
        values |= _ranges(tx, search.circle.ranges)
    if shape.words and not shape.place:
        values |= _tiers(tx, search.text_query) | {"top": offset + limit}
    rows: Sequence[Any] = await tx.all(statements.page(shape), values)
    return (rows[0][0] if rows else None), [row for row in rows if row[3] is not None]


def _shape(tx: Read, search: Search, *, open_now: bool = False) -> Shape:
    return Shape(
        dialect=tx.dialect,
        place=search.circle is not None,
        words=search.text_query is not None and bool(search.text_query.terms),
        marks=search.text_query is not None and not search.text_query.terms,
        mode=search.mode,
        open_now=open_now,
    )


def _values(search: Search) -> Parameters:
    values: Parameters = {"now": search.now_ms}
    if search.circle is not None:
        values |= search.circle.centre._asdict() | {"most": search.circle.most}
    return values


def _zones(tx: Read, search: Search) -> Parameters:
    assert search.circle is not None
    inside, edge = zones_of(search.circle)
    return _ranges(tx, inside, "inside") | _ranges(tx, edge, "edge")


def _ranges(tx: Read, ranges: Sequence[tuple[int, ...]], name: str = "") -> Parameters:
    if tx.dialect == "sqlite":
        return {name or "ranges": as_json(ranges).decode()}
    columns = zip(*ranges, strict=True) if ranges else ((), (), ())
    prefix = f"{name}_" if name else ""
    return {
        f"{prefix}{edge}": list(column)
        for edge, column in zip(("lows", "highs", "rings"), columns, strict=False)
    }


def _words(tx: Read, text_query: TextQuery | None) -> Parameters:
    return {} if text_query is None else {"words": render_query(tx.dialect, text_query)}


def _tiers(tx: Read, text_query: TextQuery | None) -> Parameters:
    assert text_query is not None
    best = render_query(tx.dialect, text_query.best)
    return {"best": best, "rest": exclude(tx.dialect, render_query(tx.dialect, text_query), best)}
