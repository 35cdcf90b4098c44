"""Orders by the hour beside the day before: the bars of a chart."""

from collections.abc import Sequence

from msgspec import Struct


class Slot(Struct, frozen=True):
    """An hour: how many orders there were, and how many a day before."""

    label: str
    count: int
    before: int


class Bar(Slot, frozen=True):
    """An hour in the chart: its heights in hundredths of the highest."""

    height: int
    height_before: int


def bars_of(slots: Sequence[Slot]) -> list[Bar]:
    """Return the bars; none if there were no orders at all."""
    highest = max((max(slot.count, slot.before) for slot in slots), default=0)
    if highest == 0:
        return []
    return [
        Bar(
            slot.label,
            slot.count,
            slot.before,
            height=-(-100 * slot.count // highest),
            height_before=-(-100 * slot.before // highest),
        )
        for slot in slots
    ]
