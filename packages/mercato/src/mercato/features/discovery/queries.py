"""The SQL of searches, composed from parts: one statement for each shape of a search, built once.

The page and the total come from one statement, so they are consistent.

Hits are found in three ways. By location: a covering index of cells; hits in cells completely inside the circle are
counted without a distance, and the page is searched in the smallest circle that fills it. By words: the full-text
index, joined with the rows only for other conditions, and counted up to a bound. By name: another covering index, with
a total that is summed from the opening hours.

A search by words doesn't read more of the index than it needs. SQLite merges the stores of all words that begin alike
before it returns the first one, but not those of words that are named, so the beginning of a word is replaced by the
words. PostgreSQL collects all hits before it returns the first one, so it has a second index, of the FIRST stores; and
all stores of all words that begin alike, so that these are read only if the whole words are not enough.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from sqlalchemy import ARRAY, BigInteger, Double, Text, TextClause, bindparam, text
from sqlalchemy.types import TypeEngine

from mercato.features.discovery.geometry import RINGS, Circle, zones_of
from mercato.features.discovery.tables import FIRST
from mercato.features.discovery.text import TextQuery, render_query
from mercato.platform.db.engine import Read
from mercato.platform.db.statements import prepared
from mercato.platform.db.types import Dialect
from mercato_contract.wire import as_json

MAX_BEGINNING: Final = 128
"""Words that replace their beginning in a query to SQLite. If there are more, it merges their stores."""

ALL: Final = 2**31 - 1
"""A bound that no count reaches."""

CHUNK: Final = 1_000
"""Hits by words that PostgreSQL sorts at a time: pages go through one chunk after the other."""


class Shape(NamedTuple):
    """The kinds of conditions of a search; `mode` is the column of the fulfilment type.

    `marks` are in the full-text index like words, but alone they give no order: hits are then ordered by name.
    """

    dialect: Dialect
    place: bool
    words: bool
    marks: bool
    mode: str | None
    open_now: bool

    @property
    def indexed(self) -> bool:
        """Whether the search uses the full-text index."""
        return self.words or self.marks

    @property
    def by_cells(self) -> bool:
        """Whether the search uses the index of cells."""
        return self.place and not self.indexed

    @property
    def by_words(self) -> bool:
        """Whether hits are ordered by how well the words match."""
        return self.words and not self.place

    @property
    def counted(self) -> bool:
        """Whether the hits are counted before the page is read."""
        return self.by_cells or (self.open_now and not self.by_words)

    @property
    def by_name(self) -> bool:
        """Whether the search reads all stores in the order of their names."""
        return not (self.place or self.indexed)


_DISTANCE: Final = "((s.x - :x) * (s.x - :x) + (s.y - :y) * (s.y - :y) + (s.z - :z) * (s.z - :z))"

# The stores of each range, looked up range by range: CROSS JOIN fixes the order on SQLite, OFFSET 0 on
# PostgreSQL, which otherwise overestimates the ranges and scans the whole index in parallel.
_IN_RANGE: Final = {
    "sqlite": "CROSS JOIN store_search s ON s.cell BETWEEN r.low AND r.high",
    "postgresql": "CROSS JOIN LATERAL (SELECT number, x, y, z, pickup, delivery, hours_key, paused_until "
    "FROM store_search WHERE cell BETWEEN r.low AND r.high OFFSET 0) s",
}
_BY_PLACE: Final = {
    "sqlite": "(SELECT json_extract(value, '$[0]') AS low, json_extract(value, '$[1]') AS high "  # noqa: S608  # parts of this module
    f"FROM json_each(:ranges)) r {_IN_RANGE['sqlite']}",  # parts of this module
    "postgresql": f"unnest(:lows, :highs) AS r (low, high) {_IN_RANGE['postgresql']}",
}
_ZONES: Final = {
    "sqlite": "(SELECT json_extract(value, '$[0]') AS low, json_extract(value, '$[1]') AS high, "
    "json_extract(value, '$[2]') AS ring FROM json_each(:{0})) r",
    "postgresql": "unnest(:{0}_lows, :{0}_highs, :{0}_rings) AS r (low, high, ring)",
}
_BY_WORDS: Final = {
    "sqlite": "store_words w CROSS JOIN store_search s ON s.number = w.rowid",
    "postgresql": "store_search s",
}
_WORDS_ONLY: Final = {"sqlite": "store_words w", "postgresql": "store_search s"}
_NUMBER: Final = {"sqlite": "w.rowid", "postgresql": "s.number"}
# FTS5 returns this order. PostgreSQL must not scan by it, which would test every store's words.
_IN_ORDER: Final = {"sqlite": "w.rowid", "postgresql": "s.number + 0"}
_MATCHES: Final = {
    "sqlite": "w.store_words MATCH {}",
    "postgresql": "s.words @@ CAST({} AS tsquery)",
}
# Parts of the index that are read one after the other until the page is full.
_PARTS: Final = {
    "sqlite": ((),),
    "postgresql": ((f"s.number + 0 <= {FIRST}",), (f"s.number + 0 > {FIRST}",)),
}
_NOT_PAUSED: Final = "s.paused_until <= :now"
_OPEN: Final = {
    # The sign prevents SQLite from using this column's index.
    "sqlite": f"{_NOT_PAUSED} AND +s.hours_key IN (SELECT value FROM json_each(:keys))",  # noqa: S608  # no input
    "postgresql": f"{_NOT_PAUSED} AND s.hours_key = ANY(:keys)",
}
_SOLD_OUT: Final = {
    "sqlite": "group_concat(i.item_id)",
    "postgresql": "string_agg(CAST(i.item_id AS text), ',')",
}

_TYPES: Final[dict[str, TypeEngine[Any]]] = {
    "x": Double(),
    "y": Double(),
    "z": Double(),
    "within": Double(),
    **{
        f"{zones}{edge}": ARRAY(BigInteger())
        for zones in ("", "inside_", "edge_")
        for edge in ("lows", "highs", "rings")
    },
    "now": BigInteger(),
    "top": BigInteger(),
    "most": BigInteger(),
    "need": BigInteger(),
    "chunk": BigInteger(),
    "counted": BigInteger(),
    "limit": BigInteger(),
    "offset": BigInteger(),
}


@cache
def page_statement(shape: Shape) -> TextClause:
    """Return rows of (total, chord, paused_until, card, timezone, spans, sold_out) in order.

    `total` is null if the search was counted before. Otherwise there is always a row, with nulls besides the total.
    """
    total = "SELECT CAST(NULL AS BIGINT) AS total" if shape.counted else _total(shape)
    order = _order(shape)
    return _statement(
        shape,
        f"""
        WITH {_before(shape)} page AS ({_page(shape)} ORDER BY {order} LIMIT :limit OFFSET :offset)
        SELECT t.total, p.chord, s.paused_until, c.card, h.timezone, h.spans,
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
def rings_statement(shape: Shape) -> TextClause:
    """Return rows of (ring, stores): the number of hits in the zones of that ring."""
    mode = f" AND s.{shape.mode}" if shape.mode else ""
    counts = (
        f"SELECT r.ring, (SELECT count(*) FROM store_search s WHERE s.cell BETWEEN r.low AND r.high{more}{mode}) AS n "  # noqa: S608  # parts of this module
        f"FROM {_ZONES[shape.dialect].format(zones)}"
        for zones, more in (("inside", ""), ("edge", f" AND {_DISTANCE} <= :within"))
    )
    return _statement(
        shape,
        f"SELECT ring, CAST(sum(n) AS BIGINT) FROM ({' UNION ALL '.join(counts)}) a GROUP BY ring",  # noqa: S608  # parts of this module
    )


@cache
def hours_statement(shape: Shape) -> TextClause:
    """Return rows of (key, timezone, spans, ring, stores): the opening hours of all hits that are not paused.

    By words without a place they are those of all stores: hits of common words have them all.
    """
    if not (shape.place or shape.marks):
        mode = f" AND {shape.mode}" if shape.mode else ""
        return _statement(
            shape,
            f"""
            SELECT h.key, h.timezone, h.spans, 0, h.{shape.mode or "stores"} - coalesce(g.paused, 0)
            FROM opening_hours h LEFT JOIN (
              SELECT hours_key, count(*) AS paused FROM store_search
              WHERE paused_until > 0 AND paused_until > :now{mode} GROUP BY hours_key
            ) g ON g.hours_key = h.key
            """,  # noqa: S608  # parts of this module
        )
    group = (
        f"SELECT 0 AS ring, s.hours_key, count(*) AS stores {_from(shape, _NOT_PAUSED)} GROUP BY s.hours_key"
    )
    if shape.by_cells:
        mode = f" AND s.{shape.mode}" if shape.mode else ""
        group = " UNION ALL ".join(
            f"SELECT r.ring, s.hours_key, count(*) AS stores FROM {_ZONES[shape.dialect].format(zones)} "  # noqa: S608  # parts of this module
            f"{_IN_RANGE[shape.dialect]} "
            f"WHERE {_NOT_PAUSED}{more}{mode} GROUP BY r.ring, s.hours_key"
            for zones, more in (("inside", ""), ("edge", f" AND {_DISTANCE} <= :within"))
        )
    return _statement(
        shape,
        f"""
        SELECT h.key, h.timezone, h.spans, g.ring, g.stores FROM ({group}) g
        JOIN opening_hours h ON h.key = g.hours_key
        """,  # noqa: S608  # parts of this module
    )


def _streams(shape: Shape) -> bool:
    """Return whether a page doesn't need all hits: they are ordered, or already counted."""
    return shape.by_cells or shape.by_words or shape.by_name


def _total(shape: Shape) -> str:
    if shape.by_name:
        return f"SELECT coalesce(sum({shape.mode or 'stores'}), 0) AS total FROM opening_hours"  # noqa: S608  # a column
    if not shape.by_words:
        return "SELECT count(*) AS total FROM hits"
    return "SELECT CASE WHEN count(*) < :counted THEN count(*) ELSE :counted END AS total FROM found"


def _order(shape: Shape) -> str:
    if shape.place:
        return "p.chord, p.number"
    return "p.rank, p.number" if shape.words else "p.name_key, p.number"


def _before(shape: Shape) -> str:
    """Return the common table expressions that a page is read from."""
    if not _streams(shape):
        return f"hits AS ({_hits(shape)}),"
    if not shape.by_words:
        return ""
    # First the stores with the words in their name, then those with the whole words, then those with a longer last
    # word. Each is read as far as those before it don't suffice, for the page or for the count, and a store counts
    # where it is found first: the last words find all stores that those before do.
    tables: dict[str, str] = {}
    for words, need, most in (
        ("best", ":need", ":top"),
        ("whole", ":most", ":most"),
        ("words", ":most", ":most"),
    ):
        for condition in _PARTS[shape.dialect]:
            limit = (
                f"CASE WHEN (SELECT count(DISTINCT number) FROM ({_union(tables)}) k) < {need} THEN {most} ELSE 0 END"  # noqa: S608  # parts of this module
                if tables
                else most
            )
            rank = f"CAST({len(tables) * _RANK} AS BIGINT){f' + {_CHUNK}' if _chunks(shape) else ''}"
            hits = _tier(shape, f":{words}", condition)
            tables[f"hits{len(tables)}"] = f"SELECT number, {rank} AS rank FROM ({hits} LIMIT {limit}) h"  # noqa: S608  # parts of this module
    made = "".join(f"{name} AS MATERIALIZED ({sql}), " for name, sql in tables.items())
    found = f"SELECT number, min(rank) AS rank FROM ({_union(tables)}) k GROUP BY number"  # noqa: S608  # parts of this module
    return f"{made}found AS MATERIALIZED ({found}),"


def _union(tables: Iterable[str]) -> str:
    return " UNION ALL ".join(f"SELECT number, rank FROM {name}" for name in tables)  # noqa: S608  # parts of this module


def _page(shape: Shape) -> str:
    if not _streams(shape):
        return "SELECT * FROM hits p"
    if shape.by_words:
        return "SELECT * FROM (SELECT number, rank, NULL AS chord FROM found) p"
    by = f"{_DISTANCE} AS chord" if shape.place else "NULL AS chord, s.name_key"
    return f"SELECT * FROM (SELECT s.number, {by} {_from(shape)}) p"  # noqa: S608  # parts of this module


def _tier(shape: Shape, words: str, part: Sequence[str]) -> str:
    hits = f"SELECT {_NUMBER[shape.dialect]} AS number {_from(shape, *part, words=words)}"
    if _chunks(shape):
        # Read as far as the limit, but planned for all: another plan would be another order.
        return f"WITH found AS MATERIALIZED ({hits}) SELECT number FROM found"  # noqa: S608  # parts of this module
    return f"{hits} ORDER BY {_IN_ORDER[shape.dialect]}"


def _chunks(shape: Shape) -> bool:
    """Return whether hits come in the order in which they are stored, and each CHUNK of them is sorted.

    PostgreSQL can't sort hits by words without reading all of them.
    """
    return shape.dialect == "postgresql" and not shape.open_now


_CHUNK: Final = "(row_number() OVER () - 1) / :chunk"

_RANK: Final = 1_000_000_000
"""More than chunks."""


def _hits(shape: Shape) -> str:
    by = f"{_DISTANCE} AS chord" if shape.place else "NULL AS chord, s.name_key"
    most = " LIMIT :counted" if shape.place and not shape.open_now else ""
    return f"SELECT s.number, {by} {_from(shape)}{most}"


def _from(shape: Shape, *more: str, words: str = ":words") -> str:
    """Return the FROM and WHERE clauses of the hits."""
    source = _BY_WORDS if shape.indexed else _BY_PLACE if shape.place else {shape.dialect: "store_search s"}
    if shape.by_words and not shape.open_now:
        source = _WORDS_ONLY
    conditions = [
        *([_matches(shape, words)] if shape.indexed else []),
        *([f"{_DISTANCE} <= :within"] if shape.place else []),
        *([f"s.{shape.mode}"] if shape.mode and (shape.place or not shape.indexed) else []),
        *([_OPEN[shape.dialect]] if shape.open_now else []),
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
    named = made.compile().params  # the parameters in these parts
    return prepared(made.bindparams(*(bindparam(name, type_=types.get(name, Text())) for name in named)))


class Search(NamedTuple):
    """A search with its computed circle and text query. `mode` is `pickup`, `delivery` or None for either."""

    circle: Circle | None
    text_query: TextQuery | None
    mode: str | None
    now_ms: int

    def inner(self, ring: int) -> "Search":
        """Return the search within one of the circles inside its own."""
        assert self.circle is not None
        circle = self.circle.inner(ring)
        text_query = self.text_query.within(circle) if self.text_query is not None else None
        return self._replace(circle=circle, text_query=text_query)


Parameters = dict[str, object]
"""Values of a statement's parameters by name."""

Hit = tuple[int | None, float | None, int, bytes, str, bytes, str | None]
"""A store of the page: total, squared chord to it, end of its pause, card, time zone, spans, comma-separated ids of its
sold-out items."""

Hours = tuple[int, str, bytes, int, int]
"""Opening hours among the hits of a ring: key, time zone, spans, ring, number of hits with them that aren't paused."""


# A term is followed by those that it begins; no letter or digit is less than 0.
_BEGINNING: Final = prepared(
    text(
        """
        WITH RECURSIVE words (word) AS (
          SELECT (SELECT term FROM store_words_vocabulary WHERE term >= :word LIMIT 1)
          UNION ALL
          SELECT (SELECT term FROM store_words_vocabulary WHERE term >= words.word || '0' LIMIT 1) FROM words
          WHERE words.word < :word || char(1114111)
        )
        SELECT word FROM words WHERE word < :word || char(1114111) LIMIT :most
        """
    )
)


async def name_words(tx: Read, search: Search) -> Search:
    """Return the search with the words that its last term begins, for SQLite, if they aren't too many."""
    text_query = search.text_query
    if tx.dialect != "sqlite" or text_query is None or text_query.beginning is None:
        return search
    rows = await tx.all(_BEGINNING, {"word": text_query.beginning, "most": MAX_BEGINNING + 1})
    if len(rows) > MAX_BEGINNING:
        return search
    return search._replace(text_query=text_query.complete([row[0] for row in rows]))


async def count_rings(tx: Read, search: Search) -> list[int]:
    """Return the number of hits in each ring's zones."""
    shape, values = _shape(tx, search), _values(search) | _zones(tx, search)
    found: dict[int, int] = {row[0]: row[1] for row in await tx.all(rings_statement(shape), values)}
    return [found.get(ring, 0) for ring in range(len(RINGS))]


async def list_hours(tx: Read, search: Search) -> Sequence[Hours]:
    """Return the distinct opening hours of all hits that aren't paused."""
    shape = _shape(tx, search)
    values = _values(search) | _words(tx, search.text_query)
    if shape.by_cells:
        values |= _zones(tx, search)
    rows: Sequence[Any] = await tx.all(hours_statement(shape), values)
    return rows


async def list_hits(
    tx: Read,
    search: Search,
    *,
    offset: int,
    limit: int,
    counted: int = ALL,
    keys: Sequence[int] | None = None,
) -> tuple[int | None, list[Hit]]:
    """Return the total and a page of hits. With `keys`, only those open by these hours.

    The total is None with `keys`, unless the search is by words alone, and by location without words: those searches
    are counted first. By words alone it is at most `counted`.
    """
    shape = _shape(tx, search, open_now=keys is not None)
    values = _values(search) | _words(tx, search.text_query) | {"offset": offset, "limit": limit}
    if keys is not None:
        values["keys"] = list(keys) if tx.dialect == "postgresql" else as_json(keys).decode()
    if shape.by_cells and search.circle is not None:
        values |= _ranges(tx, search.circle.ranges)
    if shape.by_words and search.text_query is not None:
        need = offset + limit
        top = -(-need // CHUNK) * CHUNK if _chunks(shape) else need
        values |= _tiers(tx, search.text_query)
        values |= {"need": need, "top": top, "most": max(counted, top), "chunk": CHUNK, "counted": counted}
    elif shape.place:
        values["counted"] = counted
    rows = await tx.all(page_statement(shape), values)
    return (rows[0][0] if rows else None), _hits_of(rows)


def _hits_of(rows: Sequence[Any]) -> list[Hit]:
    return [row for row in rows if row[3] is not None]


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
        values |= search.circle.centre._asdict() | {"within": search.circle.most}
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


def _tiers(tx: Read, text_query: TextQuery) -> Parameters:
    return {
        name: render_query(tx.dialect, variant)
        for name, variant in (("best", text_query.best), ("whole", text_query.whole))
    }
