"""The states of stores in words: whether they take orders now, why not and until when, and what to do."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from mercato.console.screen import Visit
from mercato.features.partners.model import Surface
from mercato.features.stores.operators import StoreSummary
from mercato.features.stores.search import Opening, find_openings
from mercato.features.stores.views import ORDERS_UNSEEN_MESSAGE
from mercato.platform.db.engine import Read
from mercato_contract.clock import local_time
from mercato_contract.stores import StoreStatusValue

MAX_REASON: Final = 120
"""Characters of a merchant's reason for a pause that a list shows."""

_WEEK: Final = 7


class StoreState(Struct, frozen=True):
    """The state of a store: its words, their colour, why, and what to do about it if there is something to do.

    `warning` is what its merchant should know even if nothing is wrong.
    """

    words: str
    kind: str
    why: str
    advice: str | None = None
    warning: str | None = None

    @property
    def is_trouble(self) -> bool:
        return self.kind in {"bad", "waiting"}


def state_of(
    store: StoreSummary, opening: Opening | None, *, shows_calls: bool = True, now: datetime
) -> StoreState:
    """Return the state of a store; without `opening` it is hidden.

    How its calls go, and whether there are any, is its merchant's and the operators': `shows_calls`.
    """
    state = _state_of(store, opening, shows_calls=shows_calls, now=now)
    unseen = shows_calls and store.is_unseen
    return replace(state, warning=ORDERS_UNSEEN_MESSAGE) if unseen else state


def _state_of(
    store: StoreSummary, opening: Opening | None, *, shows_calls: bool, now: datetime
) -> StoreState:
    if store.suspended:
        return StoreState("hidden", "bad", "Its partner is suspended.", "An operator resumes the partner.")
    if store.status is StoreStatusValue.PAUSED:
        zone = "UTC" if opening is None else opening.timezone
        until = "" if store.resume_at is None else f" until {_clock(store.resume_at, zone, now)}"
        reason = (store.pause_reason or "no reason was given")[:MAX_REASON]
        advice = f"It takes orders again once it is resumed{', which it is by itself then' if until else ''}."
        return StoreState(f"paused{until}", "waiting", reason, advice)
    if shows_calls and store.failing is not None:
        zone = "UTC" if opening is None else opening.timezone
        return StoreState(
            "unreachable",
            "bad",
            f"Its last {store.failing.calls} calls failed, since {_clock(store.failing.since, zone, now)}.",
            "Its failed webhooks say why: its merchant fixes the address or the server. "
            "The first call that succeeds ends this.",
        )
    if opening is None:
        return StoreState("closed", "bad", "Searches don't find it.", "Its merchant activates it.")
    at = opening.changes_at
    if opening.is_open:
        until = "24 hours a day" if at is None else f"until {_clock(at, opening.timezone, now)}"
        return StoreState("open", "good", until)
    if at is None:
        return StoreState(
            "closed",
            "bad",
            "Its catalog has no hours.",
            "Its merchant publishes one that is available at some time.",
        )
    return StoreState(f"closed until {_clock(at, opening.timezone, now)}", "", "Outside its opening hours.")


def _clock(at: datetime, timezone: str, now: datetime) -> str:
    """Return an instant as a time of the store's day: with its weekday, or date, if it isn't today."""
    local, today = local_time(at, timezone), local_time(now, timezone)
    if local.date() == today.date():
        return f"{local:%H:%M}"
    near = abs((local.date() - today.date()).days) < _WEEK
    return f"{local:%A %H:%M}" if near else f"{local:%Y-%m-%d %H:%M}"


async def find_states(
    tx: Read, rows: Sequence[StoreSummary], now: datetime, *, shows_calls_of: Collection[UUID] | None = None
) -> dict[UUID, StoreState]:
    """Return the state of each store that still exists, by its id.

    How calls go is shown of the stores of these partners, by default of all.
    """
    openings = await find_openings(tx, [row.id for row in rows], now=now)
    return {
        row.id: state_of(
            row,
            openings.get(row.id),
            shows_calls=shows_calls_of is None or row.partner_id in shows_calls_of,
            now=now,
        )
        for row in rows
    }


def calls_shown(visit: Visit) -> Collection[UUID] | None:
    """Return whose stores' calls a visitor may know about: a merchant its own, operators those of all (None)."""
    if visit.is_operator:
        return None
    partner = visit.session.partner
    return () if partner is None or Surface.COMMERCE not in visit.surfaces else (partner.id,)
