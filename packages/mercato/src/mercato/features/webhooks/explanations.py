"""Loads what the debugger needs for a partner: the webhook, the account's secrets, and its deliveries."""

import asyncio
import base64
import binascii
from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Struct

from mercato.features.partners.accounts import get_ending_secrets
from mercato.features.partners.model import Caller
from mercato.features.partners.vault import Vault
from mercato.features.webhooks import queries
from mercato.features.webhooks.endpoints import list_ending_secrets
from mercato.features.webhooks.model import DeliveryNotFound
from mercato.platform.db.engine import Read
from mercato_contract.clock import Clock
from mercato_contract.debugger.explain import (
    Secret,
    SecretOrigin,
    SentDelivery,
    SignatureExplanation,
    Webhook,
    explain,
)
from mercato_contract.decoding.checks import refuse
from mercato_contract.webhooks import ExplainSignatureRequest
from mercato_contract.wire import instant_fault, parse_instant, parse_uuid

MAX_TIMES: Final = 20
"""The latest attempts of a delivery whose times are used."""


class Case(Struct, frozen=True):
    """All that the debugger needs from a request and the database."""

    webhook: Webhook
    secrets: tuple[Secret, ...]
    others: tuple[Secret, ...]
    sent: tuple[SentDelivery, ...]

    async def explain(self, now: datetime) -> SignatureExplanation:
        """Return the explanation, made in a thread because it can take a tenth of a second."""
        return await asyncio.to_thread(
            explain, self.webhook, secrets=self.secrets, others=self.others, sent=self.sent, now=now
        )


async def load_case(
    tx: Read, vault: Vault, caller: Caller, request: ExplainSignatureRequest, *, now: Clock
) -> Case:
    """Return the case of a request. Raises ValidationFailed, and DeliveryNotFound."""
    webhook = read_webhook(request)
    own = await list_own_secrets(tx, vault, caller.partner_id, now=now)
    given = [Secret(text, SecretOrigin.GIVEN, index) for index, text in enumerate(request.secrets or ())]
    copies = await list_copies(tx, caller, webhook, named=request.delivery_id)
    return Case(webhook, tuple(given or own), tuple(own if given else ()), tuple(copies))


def read_webhook(request: ExplainSignatureRequest) -> Webhook:
    """Return the webhook in a request. Raises ValidationFailed."""
    received_at = None if request.received_at is None else parse_instant(request.received_at)
    body = _body(request)
    refuse(
        [
            ("/bodyBase64", "bodyBase64 isn't base64." if body is None else None),
            (
                "/body",
                "Send the body once: as body, or as bodyBase64."
                if (request.body is None) is (request.body_base64 is None)
                else None,
            ),
            (
                "/receivedAt",
                instant_fault("receivedAt", request.received_at)
                if request.received_at is not None and received_at is None
                else None,
            ),
        ]
    )
    return Webhook(
        headers=request.headers,
        body=body or b"",
        received_at=received_at,
        computed=request.computed_signature,
    )


def _body(request: ExplainSignatureRequest) -> bytes | None:
    if request.body_base64 is None:
        return (request.body or "").encode("utf-8", "replace")
    try:
        return base64.b64decode(request.body_base64, validate=True)
    except (binascii.Error, ValueError):
        return None


async def list_own_secrets(tx: Read, vault: Vault, partner_id: UUID, *, now: Clock) -> list[Secret]:
    """Return the secrets that sign the partner's webhooks now: the account's, newest first, then its endpoints'."""
    found = [
        *await get_ending_secrets(tx, vault, partner_id, now=now),
        *await list_ending_secrets(tx, vault, partner_id, now=now()),
    ]
    return [
        Secret(text, SecretOrigin.CURRENT if end is None else SecretOrigin.PREVIOUS, index)
        for index, (text, end) in enumerate(found)
    ]


async def list_copies(
    tx: Read, caller: Caller, webhook: Webhook, *, named: UUID | None = None
) -> Sequence[SentDelivery]:
    """Return the caller's deliveries with the webhook's id, or with the delivery id that is `named`.

    Raises DeliveryNotFound if that isn't the caller's.
    """
    if named is not None:
        row = await queries.find_row(tx, caller.partner_id, caller.surface, named)
        rows = [row] if row is not None else await queries.list_sent(tx, caller, named)
        if not rows:
            raise DeliveryNotFound(named)
    else:
        written = next((text for name, text in webhook.headers.items() if name.lower() == "webhook-id"), "")
        webhook_id = parse_uuid(written.strip())
        rows = [] if webhook_id is None else await queries.list_sent(tx, caller, webhook_id)
    return [
        SentDelivery(
            delivery_id=row.id,
            webhook_id=str(row.webhook_id),
            body=queries.body_of(row),
            times=tuple(
                int(attempt.at.timestamp())
                for attempt in (await queries.list_attempts(tx, row.id))[-MAX_TIMES:]
            ),
        )
        for row in rows
    ]
