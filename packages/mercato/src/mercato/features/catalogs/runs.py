"""An ingest run: its states, its bounds, and the warnings that are stored with it.

Queued, pulling, processing, and then succeeded or failed. One transition is beyond the specification: a run that can't
be performed, or whose switch is cancelled, fails from `queued`. A run that switches back to a kept set begins as
`succeeded`.
"""

import math
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from msgspec import Struct

from mercato_catalog.model import Finding
from mercato_catalog.validation.findings import Rule
from mercato_contract.catalogs import CatalogFault, PartnerWarning, RunStatus
from mercato_contract.wire import instant_fault, parse_instant

OPEN: Final = (RunStatus.QUEUED, RunStatus.PULLING, RunStatus.PROCESSING)
"""The states that aren't terminal."""


class Owner(Struct, frozen=True):
    """Whose catalog it is. `id` is the onboarding's, `store_id` the store that it is or will be."""

    id: UUID
    store_id: UUID
    partner_id: UUID


class Run(Struct, frozen=True, kw_only=True):
    """A run as it is stored."""

    id: UUID
    owner: Owner
    notified: bool
    callback_url: str
    status: RunStatus
    errors: tuple[CatalogFault, ...] = ()
    warnings: tuple[PartnerWarning, ...] = ()
    set_id: UUID | None = None
    traceparent: str
    created_at: datetime
    updated_at: datetime
    activate_at: datetime | None = None

    @property
    def is_scheduled(self) -> bool:
        """Whether its set is stored and waits for the instant at which the owner switches to it."""
        return self.set_id is not None and self.status in OPEN


class CurrentSet(Struct, frozen=True):
    """The facts of the set that an owner serves now."""

    id: UUID
    content_hash: str
    currency: str
    source_url: str
    source_etag: str | None


class NewSet(Struct, frozen=True):
    """A set as it is stored; `summary` is JSON."""

    id: UUID
    owner_id: UUID
    store_id: UUID
    partner_id: UUID
    content_hash: str
    currency: str
    summary: str
    source_url: str
    source_etag: str | None
    created_at: datetime
    run_id: UUID | None


class Period(Struct, frozen=True):
    """When an owner served a set: until now if `superseded_at` is None."""

    id: UUID
    set_id: UUID
    run_id: UUID | None
    rolled_back_from: UUID | None
    activated_at: datetime
    superseded_at: datetime | None
    is_kept: bool


MAX_DAYS_AHEAD: Final = 90
"""Days by which a switch can be scheduled ahead."""

RETRY_AFTER: Final = 2
"""Seconds between two polls of a run's status, for Retry-After."""

MAX_RETRY_AFTER: Final = 3600
"""Seconds between two polls of a run that waits for its instant."""


def retry_after(run: Run, now: datetime) -> int:
    """Return the seconds until the next poll of the run's status: with `activateAt`, the time left, at most an hour."""
    if run.activate_at is None:
        return RETRY_AFTER
    left = math.ceil((run.activate_at - now).total_seconds())
    return min(max(left, RETRY_AFTER), MAX_RETRY_AFTER)


def activation_fault(text: str, now: datetime) -> str | None:
    """Return what is wrong with the text of `activateAt`, or None."""
    at = parse_instant(text)
    if at is None:
        return instant_fault("activateAt", text)
    if at <= now:
        return "activateAt must be in the future. Leave it out to switch at once."
    if at > now + timedelta(days=MAX_DAYS_AHEAD):
        return f"activateAt may be at most {MAX_DAYS_AHEAD} days ahead. Send the catalog later."
    return None


MAX_WARNINGS: Final = 100
"""Warnings stored with a run; the last one has the count of the others."""


def partner_warnings(found: Sequence[Finding]) -> tuple[PartnerWarning, ...]:
    """Return warnings with their rules as codes. If there are too many, every rule keeps an equal share."""
    kept = list(found)
    if len(found) > MAX_WARNINGS:
        share = max((MAX_WARNINGS - 1) // len({fault.rule for fault in found}), 1)
        counted: Counter[str] = Counter()
        kept = []
        for finding in found:
            counted[finding.rule] += 1
            if counted[finding.rule] <= share and len(kept) < MAX_WARNINGS - 1:
                kept.append(finding)
        more = f"{len(found) - len(kept)} more warnings are not listed."
        more += " Lint the document to see more of them."
        kept.append(Finding(Rule.NOT_LISTED.id, more, ""))
    return warnings_of(kept)


def faults_of(found: Sequence[Finding]) -> tuple[CatalogFault, ...]:
    """Return faults with their rules as codes."""
    return tuple(CatalogFault(code=fault.rule, message=fault.message, path=fault.path) for fault in found)


def warnings_of(found: Sequence[Finding]) -> tuple[PartnerWarning, ...]:
    """Return warnings with their rules as codes."""
    return tuple(PartnerWarning(code=fault.rule, message=fault.message, path=fault.path) for fault in found)
