"""The states of stores in words: whether they take orders now, why not and until when, and what to do."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID
from zoneinfo import ZoneInfo

from msgspec import Struct

from mercato.features.doctor import FAILING_WINDOW
from mercato.features.stores.operators import StoreSummary
from mercato.features.stores.search import Opening, find_openings
from mercato.features.webhooks.endpoint_health import list_failing_stores
from mercato.platform.db.engine import Read
from mercato_contract.stores import StoreStatusValue

MAX_REASON: Final = 120
"""Characters of a merchant's reason for a pause that a list shows."""

MIN_CALLS: Final = 3
"""With fewer calls in the last minutes a store isn't called unreachable: one time-out isn't a dead store."""

_WEEK: Final = 7


class StoreState(Struct, frozen=True):
    """The state of a store: its words, their colour, why, and what to do about it if there is something to do."""

    words: str
    kind: str
    why: str
    advice: str | None = None

    @property
    def is_trouble(self) -> bool:
        return self.kind in {"bad", "waiting"}


def state_of(store: StoreSummary, opening: Opening | None, *, failing: bool, now: datetime) -> StoreState:
    """Return the state of a store. `failing` is whether the calls to it fail; without `opening` it is hidden."""
    if store.suspended:
        return StoreState("hidden", "bad", "Its partner is suspended.", "An operator resumes the partner.")
    if store.status is StoreStatusValue.PAUSED:
        zone = "UTC" if opening is None else opening.timezone
        until = "" if store.resume_at is None else f" until {_clock(store.resume_at, zone, now)}"
        reason = (store.pause_reason or "no reason was given")[:MAX_REASON]
        advice = f"It takes orders again once it is resumed{', which it is by itself then' if until else ''}."
        return StoreState(f"paused{until}", "waiting", reason, advice)
    if failing:
        why = "Its webhook address didn't answer most calls of the last 10 minutes."
        return StoreState(
            "unreachable",
            "bad",
            why,
            "Its failed webhooks say why: its merchant fixes the address or the server.",
        )
    if opening is None:
        return StoreState("closed", "bad", "Searches don't find it.", "Its merchant activates it.")
    at = opening.changes_at
    if opening.is_open:
        until = "all the time" if at is None else f"until {_clock(at, opening.timezone, now)}"
        return StoreState("open", "good", until)
    if at is None:
        return StoreState(
            "closed",
            "bad",
            "Its catalog has no hours.",
            "Its merchant publishes one that is available at some time.",
        )
    return StoreState(
        f"closed until {_clock(at, opening.timezone, now)}", "", "Outside the hours of its catalog."
    )


def _clock(at: datetime, timezone: str, now: datetime) -> str:
    """Return an instant as a time of the store's day: with its weekday, or date, if it isn't today."""
    zone = ZoneInfo(timezone)
    local, today = at.astimezone(zone), now.astimezone(zone)
    if local.date() == today.date():
        return f"{local:%H:%M}"
    near = (local.date() - today.date()).days < _WEEK
    return f"{local:%A %H:%M}" if near else f"{local:%Y-%m-%d %H:%M}"


async def find_states(
    tx: Read, rows: Sequence[StoreSummary], now: datetime, *, failing: Collection[UUID]
) -> dict[UUID, StoreState]:
    """Return the state of each store that still exists, by its id. The calls to `failing` stores fail."""
    openings = await find_openings(tx, [row.id for row in rows], now=now)
    return {row.id: state_of(row, openings.get(row.id), failing=row.id in failing, now=now) for row in rows}


async def find_failing(tx: Read, now: datetime) -> Collection[UUID]:
    """Return the stores to which most calls of the last minutes failed, those with the most failures first."""
    found = await list_failing_stores(tx, since=now - FAILING_WINDOW, min_calls=MIN_CALLS)
    return {state.store_id: None for state in found}
