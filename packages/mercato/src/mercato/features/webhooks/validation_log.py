"""Records the answers of stores to validations in the delivery log, so that a merchant sees its refusals.

Of a partner's rejections a process records up to 100 a second, of its acceptances one, because there may be
hundreds. The answer to a storefront doesn't wait for it. A validation without a usable reply is recorded when it
fails.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from time import monotonic
from typing import Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Integer, bindparam, literal_column, select

from mercato.features.metrics import CommerceMetrics
from mercato.features.partners.tables import partners
from mercato.features.webhooks.deliveries import CallRecord, record_store_call
from mercato.features.webhooks.model import CallResult, StoreCall
from mercato.features.webhooks.queries import delete_validations
from mercato.features.webhooks.tables import answered_validations
from mercato.platform.db.engine import Database, Write
from mercato.platform.db.statements import prepared, prepared_insert
from mercato.platform.db.write_behind import BATCH, WriteBehind
from mercato_contract.clock import Clock, MakeId
from mercato_contract.events import EventType
from mercato_contract.webhooks import DeliveryStatus

KEPT: Final = 1_000
"""Acceptances, and rejections, of one partner that are kept."""

PER_SECOND: Final = {True: 1, False: 100}
"""Acceptances, and rejections, of one partner that a process records in a second. With rate limits, six storefronts
together make as many validations."""

MAX_BYTES: Final = 16 * 1024 * 1024
"""Bodies that may wait to be written, in bytes."""


class AnsweredValidation(Struct, frozen=True):
    """A validation that a store answered; `result` is without the reply's body."""

    id: UUID
    call: StoreCall
    result: CallResult
    accepted: bool
    at: datetime


class ValidationLog:
    """Records validations. Nothing here makes a request wait: what can't be queued is dropped and counted."""

    def __init__(self, db: Database, metrics: CommerceMetrics, *, clock: Clock, new_id: MakeId) -> None:
        self._clock = clock
        self._new_id = new_id
        self._waiting: WriteBehind[AnsweredValidation] = WriteBehind(
            db, _write, name="validations", max_size=MAX_BYTES, dropped=metrics.validation_not_logged
        )
        self._metrics = metrics
        self._second = 0
        self._recorded: Counter[tuple[UUID, bool]] = Counter()

    def record(self, call: StoreCall, result: CallResult, *, accepted: bool) -> None:
        """Queue a validation, unless the partner has enough of its kind in this second."""
        if (second := int(monotonic())) != self._second:
            self._second = second
            self._recorded.clear()
        recorded = self._recorded[call.partner_id, accepted]
        if recorded >= PER_SECOND[accepted]:
            if not accepted:
                self._metrics.validation_not_logged("partner_limit", 1)
            return
        self._recorded[call.partner_id, accepted] = recorded + 1
        # The log has an excerpt of the reply's body.
        logged = replace(result, body=b"")
        row = AnsweredValidation(self._new_id(), call, logged, accepted, self._clock())
        self._waiting.put(row, size=len(call.body))

    async def run(self) -> None:
        """Write validations until cancelled, and at the end those that still wait."""
        await self._waiting.run()

    async def flush(self) -> None:
        """Write the validations that wait."""
        await self._waiting.flush()


async def _write(tx: Write, waiting: Sequence[AnsweredValidation]) -> None:
    """Write validations, but not of a partner that has been suspended since: it may have been deleted."""
    ids = {row.call.partner_id for row in waiting}
    active = await tx.all(
        select(partners.c.id).where(partners.c.id.in_(ids), partners.c.suspended_at.is_(None))
    )
    kept = {row.id for row in active}
    rows = [row for row in waiting if row.call.partner_id in kept]
    for row in rows:
        await record_store_call(
            tx,
            CallRecord(
                call=row.call,
                id=row.id,
                type=EventType.ORDER_VALIDATE,
                body=row.call.body,
                results=(row.result,),
                status=DeliveryStatus.SUCCEEDED,
                at=row.at,
            ),
        )
        known = {
            "delivery_id": row.id,
            "partner_id": row.call.partner_id,
            "accepted": row.accepted,
        }
        tx.defer(_INSERT, known)
    for partner_id, accepted in sorted({(row.call.partner_id, row.accepted) for row in rows}):
        await _delete_oldest(tx, partner_id, accepted=accepted)


async def _delete_oldest(tx: Write, partner_id: UUID, *, accepted: bool) -> None:
    """Delete what exceeds `KEPT`. A batch adds fewer than are deleted at once."""
    oldest = await tx.all(_OLDEST, {"where_partner": partner_id, "where_accepted": accepted, "kept": KEPT})
    if oldest:
        await delete_validations(tx, [row.delivery_id for row in oldest])


_INSERT: Final = prepared_insert(answered_validations)
_OLDEST: Final = prepared(
    select(answered_validations.c.delivery_id)
    .where(
        answered_validations.c.partner_id == bindparam("where_partner"),
        answered_validations.c.accepted == bindparam("where_accepted"),
    )
    .order_by(answered_validations.c.delivery_id.desc())
    .offset(bindparam("kept", type_=Integer))
    .limit(literal_column(str(2 * BATCH)))
)
