"""Geometry of searches by location: cells of a grid on the earth, and points on the unit sphere.

Cells are numbered row by row from the South Pole, so that a circle covers one or two ranges of each row, also across
the antimeridian and around a pole. Distances are compared by the squared chord between two points: it grows with the
distance and takes three multiplications, where the haversine takes five function calls.
"""

import math
from collections.abc import Iterator
from functools import cache
from typing import Final, NamedTuple

EARTH_RADIUS: Final = 6_371_008.8
"""Mean radius of the earth in metres."""

CELL_DEGREES: Final = 0.02
"""About two kilometres: small enough that most stores of a circle are in cells that it covers completely."""

ROWS: Final = 9_000
COLUMNS: Final = 18_000

RINGS: Final = (0.16, 0.4, 1.0)
"""Fractions of a radius: if a smaller circle fills the page, the rest needn't be sorted."""

_MARGIN: Final = 1e-9
"""Degrees by which a circle is widened, so that rounding excludes no store."""


class Point(NamedTuple):
    """A place on the unit sphere."""

    x: float
    y: float
    z: float


Zone = tuple[int, int, int]
"""A range of cells, and the index in RINGS of the smallest circle that contains them."""


class Circle(NamedTuple):
    """The area within a radius of a location; `most` is the largest squared chord."""

    latitude: float
    longitude: float
    metres: float
    centre: Point
    most: float

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """Ranges of cells that cover it, computed at each access: not every search needs them."""
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
    # A millimetre more, so that a store whose rounded distance equals the radius is inside.
    chord = 2 * math.sin(min(angle + 0.001 / EARTH_RADIUS, math.pi) / 2)
    return Circle(latitude, longitude, metres, point_of(latitude, longitude), chord * chord)


def zones_of(circle: Circle) -> tuple[list[Zone], list[Zone]]:
    """Return a circle's cells: those completely inside, by ring, and those that its edge crosses."""
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
    """Return the distance on the earth's surface of a squared chord."""
    half = math.sqrt(chord_squared) / 2
    return 2 * EARTH_RADIUS * math.asin(min(half, 1.0))


Span = tuple[int, int]
"""The first and the last of adjacent columns, counted on beyond the antimeridian."""


def _angle(metres: float) -> float:
    return min(metres / EARTH_RADIUS, math.pi)


def _row(latitude: float) -> int:
    return min(max(math.floor((latitude + 90) / CELL_DEGREES), 0), ROWS - 1)


def _column(longitude: float) -> int:
    return math.floor((longitude + 180) / CELL_DEGREES) % COLUMNS


def _add(zones: list[Zone], row: int, span: Span, known: Span | None, ring: int) -> None:
    """Add the zones of a span without the part that is known."""
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
    """Return each row that a circle touches: its number, the columns completely inside, and all that it touches."""
    reach = math.degrees(angle) + _MARGIN
    first, last = _row(latitude - reach), _row(latitude + reach)
    cosine = math.cos(math.radians(reach))
    sine = math.sin(math.radians(latitude))
    # A circle is widest nearer to the pole than its centre; one that contains a pole is widest there.
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
    """Return how many degrees of longitude to each side a circle reaches at a latitude; 0 outside it.

    Given are the sine and the cosine of that latitude and of the centre's, and the cosine of the circle's angle.
    """
    below = about_cosine * cosine
    above = reach - about_sine * sine
    if below < 1e-12:  # noqa: PLR2004  # at a pole all longitudes meet
        return 180.0 if above <= 0 else 0.0
    share = above / below
    return math.degrees(math.acos(share)) if -1 < share < 1 else 180.0 if share < 0 else 0.0
