"""Where stores are, as a search needs it: cells of a grid on the earth, and points on the unit sphere.

A cell is numbered row by row from the South Pole, so that what a circle covers is one or two ranges a row, also
across the antimeridian and around a pole. Between two points stands a chord: it grows as the distance does, and
takes three multiplications where the haversine takes five functions.
"""

import math
from collections.abc import Iterator
from functools import cache
from typing import Final, NamedTuple

EARTH_RADIUS: Final = 6_371_008.8
"""Mean radius of the earth in metres."""

CELL_DEGREES: Final = 0.02
"""Some two kilometres: small enough that most stores of a circle stand in cells that are all inside."""

ROWS: Final = 9_000
COLUMNS: Final = 18_000

RINGS: Final = (0.16, 0.4, 1.0)
"""Shares of a radius: when the smallest circles hold a page already, nobody sorts what is in the largest."""

_MARGIN: Final = 1e-9
"""Degrees by which a circle is widened, so that rounding leaves no store outside."""


class Point(NamedTuple):
    """A place on the unit sphere."""

    x: float
    y: float
    z: float


Zone = tuple[int, int, int]
"""A range of cells, and the number of the smallest of RINGS' circles that holds all of them."""


class Circle(NamedTuple):
    """What is within so many metres of a place; `most` is the chord's largest square."""

    latitude: float
    longitude: float
    metres: float
    centre: Point
    most: float

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """Ranges of cells that cover it, worked out anew: not every search asks for them."""
        rows = _rows(self.latitude, self.longitude, _angle(self.metres))
        return [part for row, _, covered in rows for part in _wrapped(row, *covered)]

    def inner(self, ring: int) -> "Circle":
        """Return one of the circles inside; the last of RINGS is the circle itself."""
        return (
            self if RINGS[ring] == 1 else circle_of(self.latitude, self.longitude, self.metres * RINGS[ring])
        )


def cell_of(latitude: float, longitude: float) -> int:
    """Return the number of the cell that holds the place."""
    return _row(latitude) * COLUMNS + _column(longitude)


def point_of(latitude: float, longitude: float) -> Point:
    """Return the place on the unit sphere."""
    phi, lam = math.radians(latitude), math.radians(longitude)
    return Point(math.cos(phi) * math.cos(lam), math.cos(phi) * math.sin(lam), math.sin(phi))


def circle_of(latitude: float, longitude: float, metres: float) -> Circle:
    """Return the circle of a radius on the earth's surface around a place."""
    angle = _angle(metres)
    # A millimetre more, so that a store on the edge, as its distance is shown, is inside.
    chord = 2 * math.sin(min(angle + 0.001 / EARTH_RADIUS, math.pi) / 2)
    return Circle(latitude, longitude, metres, point_of(latitude, longitude), chord * chord)


def zones_of(circle: Circle) -> tuple[list[Zone], list[Zone]]:
    """Return a circle's cells: those that are all inside, by ring, and those that its edge goes through."""
    inside: list[Zone] = []
    edge: list[Zone] = []
    last = len(RINGS) - 1
    inner = [
        {
            row: held
            for row, held, _ in _rows(circle.latitude, circle.longitude, _angle(circle.metres * share))
        }
        for share in RINGS[:-1]
    ]
    for row, held, touched in _rows(circle.latitude, circle.longitude, _angle(circle.metres)):
        # From the innermost outwards, each ring on both sides of what lies inside it.
        known: Span | None = None
        for ring, span in enumerate((*[rows.get(row) for rows in inner], held)):
            if span is not None:
                _add(inside, row, span, known, ring)
                known = span
        _add(edge, row, touched, known, last)
    return inside, edge


def metres_of(chord_squared: float) -> float:
    """Return the distance on the earth's surface that a chord stands for."""
    half = math.sqrt(chord_squared) / 2
    return 2 * EARTH_RADIUS * math.asin(min(half, 1.0))


Span = tuple[int, int]
"""The first and the last of columns side by side, counted on beyond the antimeridian."""


def _angle(metres: float) -> float:
    return min(metres / EARTH_RADIUS, math.pi)


def _row(latitude: float) -> int:
    return min(max(math.floor((latitude + 90) / CELL_DEGREES), 0), ROWS - 1)


def _column(longitude: float) -> int:
    return math.floor((longitude + 180) / CELL_DEGREES) % COLUMNS


def _add(zones: list[Zone], row: int, span: Span, known: Span | None, ring: int) -> None:
    """Add the zones of a span but for the part that is known."""
    base = row * COLUMNS
    parts = (span,) if known is None else ((span[0], known[0] - 1), (known[1] + 1, span[1]))
    for first, last in parts:
        if first > last:
            continue
        if first >= 0 and last < COLUMNS:
            zones.append((base + first, base + last, ring))
        else:
            zones += [(low, high, ring) for low, high in _wrapped(row, first, last)]


def _wrapped(row: int, first: int, last: int) -> list[tuple[int, int]]:
    """Return the cells of a span: two ranges where it crosses the antimeridian."""
    base, count = row * COLUMNS, last - first + 1
    if count >= COLUMNS:
        return [(base, base + COLUMNS - 1)]
    start = first % COLUMNS
    over = start + count - COLUMNS
    if over <= 0:
        return [(base + start, base + start + count - 1)]
    return [(base + start, base + COLUMNS - 1), (base, base + over - 1)]


def _rows(latitude: float, longitude: float, angle: float) -> Iterator[tuple[int, Span | None, Span]]:
    """Return each row that a circle touches: its number, the columns that are all inside, and all it touches."""
    reach = math.degrees(angle) + _MARGIN
    first, last = _row(latitude - reach), _row(latitude + reach)
    cosine = math.cos(math.radians(reach))
    sine = math.sin(math.radians(latitude))
    # The widest place of a circle lies nearer to the pole than its centre; one that holds a pole is widest there.
    ratio = sine / cosine if cosine > 0 else math.copysign(2.0, sine)
    widest = math.degrees(math.asin(ratio)) if abs(ratio) <= 1 else math.copysign(90.0, ratio)
    about = math.sin(math.radians(latitude)), math.cos(math.radians(latitude)), cosine
    below = _width_at(*_parallel(first), *about)
    for row in range(first, last + 1):
        above = _width_at(*_parallel(row + 1), *about)
        least, most = (below, above) if below < above else (above, below)
        if row * CELL_DEGREES - 90 < widest < (row + 1) * CELL_DEGREES - 90:
            beta = math.radians(widest)
            most = _width_at(math.sin(beta), math.cos(beta), *about)
        yield (
            row,
            _columns_inside(longitude, least - 2 * _MARGIN),
            _columns_covered(longitude, most + _MARGIN),
        )
        below = above


@cache
def _parallel(row: int) -> tuple[float, float]:
    """Return the sine and the cosine of the latitude where a row begins."""
    beta = math.radians(row * CELL_DEGREES - 90)
    return math.sin(beta), math.cos(beta)


def _columns_covered(longitude: float, half: float) -> Span:
    first = math.floor((longitude - half + 180) / CELL_DEGREES)
    last = math.floor((longitude + half + 180) / CELL_DEGREES)
    return first, min(last, first + COLUMNS - 1)


def _columns_inside(longitude: float, half: float) -> Span | None:
    if half <= 0:
        return None
    first = math.ceil((longitude - half + 180) / CELL_DEGREES)
    last = math.floor((longitude + half + 180) / CELL_DEGREES) - 1
    return (first, last) if first <= last else None


def _width_at(sine: float, cosine: float, about_sine: float, about_cosine: float, reach: float) -> float:
    """Return how many degrees of longitude to each side a circle reaches at a latitude; nothing beyond it.

    Given are the sine and the cosine of that latitude and of the centre's, and the cosine of the circle's angle.
    """
    below = about_cosine * cosine
    above = reach - about_sine * sine
    if below < 1e-12:  # noqa: PLR2004  # at a pole all longitudes meet
        return 180.0 if above <= 0 else 0.0
    share = above / below
    return math.degrees(math.acos(share)) if -1 < share < 1 else 180.0 if share < 0 else 0.0
