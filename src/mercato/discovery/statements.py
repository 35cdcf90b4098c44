"""The SQL of searches, put together from parts: one statement for each shape of a search, made once.

Three ways lead to the hits. By place: an index of cells that holds everything a search looks at. By words: the
full-text index, joined with the rows only for what it doesn't know. By name: over another index that holds
everything, with a count that is added up from the opening hours.
"""

from functools import cache
from typing import Any, Final, NamedTuple

from sqlalchemy import ARRAY, BigInteger, Double, Text, TextClause, bindparam, text
from sqlalchemy.types import TypeEngine

from mercato.db.clock import Dialect


class Shape(NamedTuple):
    """What kinds of conditions a search has; `mode` is the column of the fulfilment type.

    `marks` are in the full-text index as words are, but alone they order nothing: then it is by name.
    """

    dialect: Dialect
    place: bool
    words: bool
    marks: bool
    mode: str | None
    opened: bool

    @property
    def indexed(self) -> bool:
        """Tell whether the full-text index is asked."""
        return self.words or self.marks

    @property
    def by_name(self) -> bool:
        """Tell whether all stores are gone through, in order of their names."""
        return not (self.place or self.indexed)


_AWAY: Final = "((s.x - :x) * (s.x - :x) + (s.y - :y) * (s.y - :y) + (s.z - :z) * (s.z - :z))"

# A CROSS JOIN is SQLite's word for "in this order".
_BY_PLACE: Final = {
    "sqlite": "json_each(:ranges) r CROSS JOIN store_search s "
    "ON s.cell BETWEEN json_extract(r.value, '$[0]') AND json_extract(r.value, '$[1]')",
    "postgresql": "unnest(:lows, :highs) AS r (low, high) "
    "JOIN store_search s ON s.cell BETWEEN r.low AND r.high",
}
_BY_WORDS: Final = {
    "sqlite": "store_words w CROSS JOIN store_search s ON s.number = w.rowid",
    "postgresql": "store_search s",
}
_WORDS_ALONE: Final = {"sqlite": "store_words w", "postgresql": "store_search s"}
_NUMBER: Final = {"sqlite": "w.rowid", "postgresql": "s.number"}
_MATCHES: Final = {
    "sqlite": "w.store_words MATCH {}",
    "postgresql": "s.words @@ CAST({} AS tsquery)",
}
_OPEN: Final = {
    # The sign keeps SQLite from walking by this column.
    "sqlite": "s.paused_until <= :now AND +s.hours_key IN (SELECT value FROM json_each(:keys))",
    "postgresql": "s.paused_until <= :now AND s.hours_key = ANY(:keys)",
}
_SOLD_OUT: Final = {
    "sqlite": "group_concat(i.item_id)",
    "postgresql": "string_agg(CAST(i.item_id AS text), ',')",
}

_TYPES: Final[dict[str, TypeEngine[Any]]] = {
    "x": Double(),
    "y": Double(),
    "z": Double(),
    "most": Double(),
    "lows": ARRAY(BigInteger()),
    "highs": ARRAY(BigInteger()),
    "now": BigInteger(),
    "top": BigInteger(),
    "limit": BigInteger(),
    "offset": BigInteger(),
}


@cache
def page(shape: Shape) -> TextClause:
    """Return rows of (total, away, paused_until, card, timezone, spans, sold_out) in order.

    `total` is null where it is known already. Where it is not there is always a row, of nulls but for it.
    """
    total = "SELECT CAST(NULL AS BIGINT) AS total" if shape.opened else _total(shape)
    order = _order(shape)
    hits = f"hits AS ({_hits(shape)})," if not _streams(shape) else ""
    return _statement(
        shape,
        f"""
        WITH {hits} page AS ({_page(shape)} ORDER BY {order} LIMIT :limit OFFSET :offset)
        SELECT t.total, p.away, s.paused_until, c.card, h.timezone, h.spans,
          (SELECT {_SOLD_OUT[shape.dialect]} FROM sold_out_items i
           WHERE i.store_id = c.store_id AND (i.until IS NULL OR i.until > :now)) AS sold_out
        FROM ({total}) t
        LEFT JOIN page p ON 1 = 1
        LEFT JOIN store_search s ON s.number = p.number
        LEFT JOIN store_cards c ON c.number = p.number
        LEFT JOIN opening_hours h ON h.key = s.hours_key
        ORDER BY {order}
        """,  # noqa: S608  # parts of this module
    )


@cache
def hours(shape: Shape) -> TextClause:
    """Return rows of (key, timezone, spans, stores): the opening hours of all hits that are not paused."""
    if shape.by_name:
        mode = f" AND {shape.mode}" if shape.mode else ""
        return _statement(
            shape,
            f"""
            SELECT h.key, h.timezone, h.spans, h.{shape.mode or "stores"} - coalesce(g.paused, 0)
            FROM opening_hours h LEFT JOIN (
              SELECT hours_key, count(*) AS paused FROM store_search
              WHERE paused_until > 0 AND paused_until > :now{mode} GROUP BY hours_key
            ) g ON g.hours_key = h.key
            """,  # noqa: S608  # parts of this module
        )
    return _statement(
        shape,
        f"""
        SELECT h.key, h.timezone, h.spans, g.stores
        FROM (SELECT s.hours_key, count(*) AS stores {_from(shape, "s.paused_until <= :now")}
              GROUP BY s.hours_key) g
        JOIN opening_hours h ON h.key = g.hours_key
        """,  # noqa: S608  # parts of this module
    )


def _streams(shape: Shape) -> bool:
    """Tell whether the page comes in order from an index, so that nothing but itself need be looked at."""
    return not shape.place and (shape.words or shape.by_name)


def _total(shape: Shape) -> str:
    if shape.by_name:
        return f"SELECT coalesce(sum({shape.mode or 'stores'}), 0) AS total FROM opening_hours"  # noqa: S608  # a column
    if not _streams(shape):
        return "SELECT count(*) AS total FROM hits"
    return f"SELECT count(*) AS total FROM {_WORDS_ALONE[shape.dialect]} WHERE {_matches(shape)}"  # noqa: S608  # parts of this module


def _order(shape: Shape) -> str:
    if shape.place:
        return "p.away, p.number"
    return "p.tier, p.number" if shape.words else "p.name_key, p.number"


def _page(shape: Shape) -> str:
    if not _streams(shape):
        return "SELECT * FROM hits p"
    if shape.by_name:
        return f"SELECT * FROM (SELECT s.number, s.name_key, NULL AS away {_from(shape)}) p"  # noqa: S608  # parts of this module
    # First the stores that are called so, then those that have it elsewhere; of either as many as can be needed.
    best, rest = (
        f"SELECT * FROM (SELECT {_NUMBER[shape.dialect]} AS number, {tier} AS tier, NULL AS away "  # noqa: S608  # parts of this module
        f"{_from(shape, words=words)} ORDER BY {_NUMBER[shape.dialect]} LIMIT :top) {name}"
        for tier, name, words in ((0, "best", ":best"), (1, "rest", ":rest"))
    )
    return f"SELECT * FROM ({best} UNION ALL {rest}) p"  # noqa: S608  # parts of this module


def _hits(shape: Shape) -> str:
    by = f"{_AWAY} AS away" if shape.place else "NULL AS away, s.name_key"
    return f"SELECT s.number, {by} {_from(shape)}"


def _from(shape: Shape, *more: str, words: str = ":words") -> str:
    """Return where hits come from, and all conditions of the search."""
    source = _BY_WORDS if shape.indexed else _BY_PLACE if shape.place else {shape.dialect: "store_search s"}
    if _streams(shape) and shape.words and not shape.opened and not more:
        source = _WORDS_ALONE
    conditions = [
        *([_matches(shape, words)] if shape.indexed else []),
        *([f"{_AWAY} <= :most"] if shape.place else []),
        *([f"s.{shape.mode}"] if shape.mode and not shape.indexed else []),
        *([_OPEN[shape.dialect]] if shape.opened else []),
        *more,
    ]
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"FROM {source[shape.dialect]} {where}"


def _matches(shape: Shape, words: str = ":words") -> str:
    return _MATCHES[shape.dialect].format(words)


def _statement(shape: Shape, sql: str) -> TextClause:
    made = text(sql)
    keys: TypeEngine[Any] = ARRAY(BigInteger()) if shape.dialect == "postgresql" else Text()
    types = _TYPES | {"keys": keys}
    named = list(made._bindparams)  # noqa: SLF001  # which of the parts' parameters it has
    return made.bindparams(*(bindparam(name, type_=types.get(name, Text())) for name in named))
