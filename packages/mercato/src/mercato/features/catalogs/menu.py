"""A served menu's structure, and its hours and rules in words."""

from uuid import UUID

from mercato.features.catalogs.model import CompiledGroup, Windows
from mercato.features.catalogs.validation.hours import DAY_SECONDS, DAYS
from mercato_contract.wire import Wire


class Node(Wire):
    """The children of a catalog or a section of the served document."""

    section_ids: list[str] | None = None
    item_ids: list[UUID] | None = None


class Menu(Wire):
    """The part of the served document that forms the tree."""

    catalogs: dict[str, Node]
    sections: dict[str, Node] | None = None


def rule(group: CompiledGroup) -> str:
    """Return how many choices a group takes, in words."""
    most = "any" if group.maximum is None else str(group.maximum)
    if group.maximum is not None and group.minimum == group.maximum:
        words = f"choose {most}"
    else:
        words = f"choose {group.minimum} to {most}"
    if group.maximum_per_item is not None:
        words += f", at most {group.maximum_per_item} of each"
    return words + (f", {group.free} free" if group.free else "")


def hours(windows: Windows | None) -> str:
    """Return when a catalog is available, with equal consecutive days as one range."""
    if windows is None:
        return "always"
    days = [
        ", ".join(
            f"{_clock(start - day * DAY_SECONDS)}-{_clock(end - day * DAY_SECONDS)}"
            for start, end in windows
            if start // DAY_SECONDS == day
        )
        for day in range(len(DAYS))
    ]
    if len(set(days)) == 1:
        return {"": "never", "00:00-24:00": "always"}.get(days[0], f"daily {days[0]}")
    parts: list[str] = []
    first = 0
    for day in range(1, len(DAYS) + 1):
        if day == len(DAYS) or days[day] != days[first]:
            if days[first]:
                span = DAYS[first][:3] + (f"-{DAYS[day - 1][:3]}" if day - first > 1 else "")
                parts.append(f"{span} {days[first]}")
            first = day
    return "; ".join(parts)


def _clock(seconds: int) -> str:
    return f"{seconds // 3600:02}:{seconds % 3600 // 60:02}"
