"""Where stores are, as a search needs it: cells of a grid on the earth, and points on the unit sphere.

A cell is numbered row by row from the South Pole, so that what a circle covers is one or two ranges a row, also
across the antimeridian and around a pole. Between two points stands a chord: it grows as the distance does, and
takes three multiplications where the haversine takes five functions.
"""

import math
from typing import Final, NamedTuple

EARTH_RADIUS: Final = 6_371_008.8
"""Mean radius of the earth in metres."""

CELL_DEGREES: Final = 0.05
ROWS: Final = 3_600
COLUMNS: Final = 7_200

_MARGIN: Final = 1e-9
"""Degrees by which a circle is widened, so that rounding leaves no store outside."""


class Point(NamedTuple):
    """A place on the unit sphere."""

    x: float
    y: float
    z: float


class Circle(NamedTuple):
    """What is within so many metres of a place: ranges of cells that cover it, and the chord's largest square."""

    centre: Point
    ranges: tuple[tuple[int, int], ...]
    most: float


def cell_of(latitude: float, longitude: float) -> int:
    """Return the number of the cell that holds the place."""
    return _row(latitude) * COLUMNS + _column(longitude)


def point_of(latitude: float, longitude: float) -> Point:
    """Return the place on the unit sphere."""
    phi, lam = math.radians(latitude), math.radians(longitude)
    return Point(math.cos(phi) * math.cos(lam), math.cos(phi) * math.sin(lam), math.sin(phi))


def circle_of(latitude: float, longitude: float, metres: float) -> Circle:
    """Return the circle of a radius on the earth's surface around a place."""
    angle = min(metres / EARTH_RADIUS, math.pi)
    # A millimetre more, so that a store on the edge, as its distance is shown, is inside.
    chord = 2 * math.sin(min(angle + 0.001 / EARTH_RADIUS, math.pi) / 2)
    return Circle(point_of(latitude, longitude), _ranges(latitude, longitude, angle), chord * chord)


def metres_of(chord_squared: float) -> float:
    """Return the distance on the earth's surface that a chord stands for."""
    return 2 * EARTH_RADIUS * math.asin(min(math.sqrt(max(chord_squared, 0.0)) / 2, 1.0))


def _row(latitude: float) -> int:
    return min(max(math.floor((latitude + 90) / CELL_DEGREES), 0), ROWS - 1)


def _column(longitude: float) -> int:
    return math.floor((longitude + 180) / CELL_DEGREES) % COLUMNS


def _ranges(latitude: float, longitude: float, angle: float) -> tuple[tuple[int, int], ...]:
    reach = math.degrees(angle) + _MARGIN
    found: list[tuple[int, int]] = []
    for row in range(_row(latitude - reach), _row(latitude + reach) + 1):
        base = row * COLUMNS
        for first, last in _columns(longitude, _half_width(row, latitude, reach)):
            found.append((base + first, base + last))
    return tuple(found)


def _columns(longitude: float, half: float) -> list[tuple[int, int]]:
    """Return the ranges of columns that cover so many degrees on both sides of a longitude."""
    if half >= 180 - CELL_DEGREES:
        return [(0, COLUMNS - 1)]
    first, last = _column(longitude - half), _column(longitude + half)
    return [(first, last)] if first <= last else [(first, COLUMNS - 1), (0, last)]


def _half_width(row: int, latitude: float, reach: float) -> float:
    """Return how many degrees of longitude to each side the circle has where it is widest in the row."""
    low, high = row * CELL_DEGREES - 90, (row + 1) * CELL_DEGREES - 90
    bottom, top = max(low, latitude - reach), min(high, latitude + reach)
    candidates = [bottom, top]
    cosine = math.cos(math.radians(reach))
    # The widest place of a circle lies nearer to the pole than its centre.
    widest = math.sin(math.radians(latitude)) / cosine if cosine > 0 else 2.0
    if abs(widest) <= 1:
        candidates.append(min(max(math.degrees(math.asin(widest)), bottom), top))
    return max(_width_at(at, latitude, cosine) for at in candidates) + _MARGIN


def _width_at(at: float, latitude: float, cosine: float) -> float:
    phi, beta = math.radians(latitude), math.radians(at)
    below = math.cos(phi) * math.cos(beta)
    if below < 1e-12:  # noqa: PLR2004  # at a pole all longitudes meet
        return 180.0
    ratio = (cosine - math.sin(phi) * math.sin(beta)) / below
    return math.degrees(math.acos(min(max(ratio, -1.0), 1.0)))
