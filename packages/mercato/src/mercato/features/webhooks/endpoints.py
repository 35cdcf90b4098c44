"""The webhook endpoints that partners register: made, changed, tested and deleted by themselves.

A partner's event URL and its stores' webhook URLs are listed with them, and are changed elsewhere.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import Struct
from sqlalchemy import ColumnElement, delete, func, select, update
from sqlalchemy.exc import IntegrityError

from mercato.features.compression import compress
from mercato.features.partners.model import Caller, Surface, new_signing_secret
from mercato.features.partners.queries import lock_active_partner
from mercato.features.partners.tables import partners, webhook_endpoints, webhook_endpoints_one_for_each_url
from mercato.features.partners.vault import Vault
from mercato.features.webhooks import endpoint_health
from mercato.features.webhooks.attempts import NewDelivery, enqueue_attempt, insert_delivery
from mercato.features.webhooks.credentials import EndpointCredentials, open_credentials, seal_credentials
from mercato.features.webhooks.model import (
    OPERATORS,
    DeliverJob,
    EndpointNotFound,
    UnknownStore,
    check_endpoint,
    partition_of,
    types_of,
)
from mercato.features.webhooks.tables import failing_endpoints, stores
from mercato.platform.db.audit import audit
from mercato.platform.db.engine import AnyRow, Read, Write
from mercato.platform.db.errors import is_unique_violation
from mercato.platform.errors import Conflict
from mercato_contract.clock import MakeId
from mercato_contract.decoding.decode import page_of, read_cursor
from mercato_contract.events import STORE_CALLS, SUFFIXES, EventType, PingData, envelope
from mercato_contract.pages import Page
from mercato_contract.signing import target
from mercato_contract.texts import shown
from mercato_contract.webhooks import (
    HIDDEN_VALUE,
    MAX_ENDPOINTS,
    DeliveryStatus,
    WebhookEndpoint,
    WebhookEndpointKind,
    WebhookEndpointPage,
    WebhookEndpointRequest,
    WebhookEndpointWithSecret,
)
from mercato_contract.wire import as_json, rfc3339
from mercato_outbound.guard import ANY_ADDRESS, AddressPolicy, origin_of

_NOT_HERE: Final[Mapping[WebhookEndpointKind, str]] = {
    WebhookEndpointKind.EVENT_URL: (
        "This is the account's event URL. The network's operator changes it; its secret is the account's."
    ),
    WebhookEndpointKind.WEBHOOK_URL: (
        "This is a store's webhook URL. Change it with Update Store; its secret is the account's."
    ),
}


# --- reading ------------------------------------------------------------------------------------------

_e = webhook_endpoints.c
_ENDPOINTS: Final = select(webhook_endpoints, failing_endpoints.c.disabled_reason).join(
    failing_endpoints, endpoint_health.OF_ENDPOINT, isouter=True
)


def _own(caller: Caller) -> tuple[ColumnElement[bool], ...]:
    return _e.partner_id == caller.partner_id, _e.surface == caller.surface


async def list_endpoints(tx: Read, vault: Vault, caller: Caller, query: Page) -> WebhookEndpointPage:
    """Return the addresses of the caller's events on this surface, the oldest first."""
    after, limit = read_cursor(query.cursor), query.limit + 1
    rows = await tx.all(_ENDPOINTS.where(*_own(caller), *_after(_e.id, after)).order_by(_e.id).limit(limit))
    found = [_answer(vault, row) for row in rows]
    found += await _list_others(tx, caller, _after(_id_of(caller), after), limit=limit)
    found.sort(key=lambda endpoint: endpoint.endpoint_id)
    page, next_cursor = page_of(found, query.limit, lambda endpoint: endpoint.endpoint_id)
    return WebhookEndpointPage(endpoints=list(page), next_cursor=next_cursor)


def _after(column: ColumnElement[UUID], after: UUID | None) -> tuple[ColumnElement[bool], ...]:
    return () if after is None else (column > after,)


def _id_of(caller: Caller) -> ColumnElement[UUID]:
    return partners.c.id if caller.surface is Surface.MARKETFRONT else stores.c.id


async def _list_others(
    tx: Read, caller: Caller, which: Sequence[ColumnElement[bool]], *, limit: int
) -> list[WebhookEndpoint]:
    """Return the account's event URL, or the webhook URLs of its stores."""
    if caller.surface is Surface.MARKETFRONT:
        c = partners.c
        rows = await tx.all(
            select(c.id, c.event_url.label("url"), c.created_at, c.created_at.label("updated_at")).where(
                c.id == caller.partner_id, c.event_url.is_not(None), *which
            )
        )
        kind, suffixes = WebhookEndpointKind.EVENT_URL, frozenset[str]()
    else:
        s = stores.c
        rows = await tx.all(
            select(s.id, s.webhook_url.label("url"), s.created_at, s.updated_at)
            .where(s.partner_id == caller.partner_id, s.webhook_url.is_not(None), *which)
            .order_by(s.id)
            .limit(limit)
        )
        kind = WebhookEndpointKind.WEBHOOK_URL
        suffixes = frozenset(suffix for type_, suffix in SUFFIXES.items() if type_ not in STORE_CALLS)
    addresses = {
        row.id: [target(row.url, suffix) for suffix in sorted(suffixes)] or [row.url] for row in rows
    }
    called = sorted({url for urls in addresses.values() for url in urls})
    disabled = {
        row.url: row.disabled_reason
        for row in await tx.all(
            select(failing_endpoints.c.url, failing_endpoints.c.disabled_reason).where(
                failing_endpoints.c.partner_id == caller.partner_id,
                failing_endpoints.c.url.in_(called),
                failing_endpoints.c.disabled_at.is_not(None),
            )
        )
    }
    return [
        _other(row, kind, next((disabled[url] for url in addresses[row.id] if url in disabled), None))
        for row in rows
    ]


def _other(row: AnyRow, kind: WebhookEndpointKind, disabled_reason: str | None) -> WebhookEndpoint:
    return WebhookEndpoint(
        endpoint_id=row.id,
        kind=kind,
        url=row.url,
        types=None,
        store_ids=[row.id] if kind is WebhookEndpointKind.WEBHOOK_URL else None,
        description=None,
        headers={},
        enabled=disabled_reason is None,
        disabled_reason=disabled_reason,
        created_at=rfc3339(row.created_at),
        updated_at=rfc3339(row.updated_at),
    )


async def get_endpoint(tx: Read, vault: Vault, caller: Caller, endpoint_id: UUID) -> WebhookEndpoint:
    """Return an address of the caller's events on this surface. Raises EndpointNotFound."""
    row = await tx.first(_ENDPOINTS.where(*_own(caller), _e.id == endpoint_id))
    if row is not None:
        return _answer(vault, row)
    others = await _list_others(tx, caller, (_id_of(caller) == endpoint_id,), limit=1)
    if not others:
        raise EndpointNotFound(endpoint_id)
    return others[0]


def _answer(vault: Vault, row: AnyRow) -> WebhookEndpoint:
    return WebhookEndpoint(
        endpoint_id=row.id,
        kind=WebhookEndpointKind.ENDPOINT,
        url=row.url,
        types=_list(row.types),
        store_ids=None
        if row.store_ids is None
        else [UUID(store_id) for store_id in _list(row.store_ids) or ()],
        description=row.description,
        headers=dict.fromkeys(open_credentials(vault, row.id, row.credentials).headers, HIDDEN_VALUE),
        enabled=row.enabled and row.disabled_reason is None,
        disabled_reason=row.disabled_reason if row.enabled else None,
        created_at=rfc3339(row.created_at),
        updated_at=rfc3339(row.updated_at),
    )


def _list(text: str | None) -> list[str] | None:
    return None if text is None else msgspec.json.decode(text, type=list[str])


# --- changing -----------------------------------------------------------------------------------------


class WebhookEndpoints(Struct, frozen=True):
    """Registers and changes endpoints, each function in the caller's transaction.

    `policy` says which addresses may be called. An endpoint's URL is checked when it is new, by its text alone.
    """

    vault: Vault
    now: Callable[[], datetime]
    new_id: MakeId
    policy: AddressPolicy

    async def create(
        self, tx: Write, caller: Caller, request: WebhookEndpointRequest
    ) -> WebhookEndpointWithSecret:
        """Register an endpoint.

        Raises ValidationFailed, UnknownStore, Conflict for an eleventh endpoint or a URL that one has, and Forbidden
        for a partner that is suspended or gone.
        """
        check_endpoint(types_of(caller), request, kept={}, policy=self.policy)
        if caller.partner_id != OPERATORS:
            # Two at once would otherwise both find that there is room. The operators are no partner.
            await lock_active_partner(tx, caller.partner_id)
        count = await tx.scalar(select(func.count()).select_from(webhook_endpoints).where(*_own(caller)))
        if count >= MAX_ENDPOINTS:
            raise Conflict(
                f"This account has {MAX_ENDPOINTS} webhook endpoints on this surface, which is the maximum. "
                "Delete one first."
            )
        await _refuse_event_url(tx, caller, request.url)
        await check_stores(tx, caller, request.store_ids)
        endpoint_id, now, secret = self.new_id(), self.now(), new_signing_secret()
        made = EndpointCredentials(((secret, None),), dict(request.headers or {}))
        with _refuse_taken_url(request.url):
            await tx.execute(
                webhook_endpoints.insert().values(
                    id=endpoint_id,
                    partner_id=caller.partner_id,
                    surface=caller.surface,
                    credentials=seal_credentials(self.vault, endpoint_id, made),
                    created_at=now,
                    updated_at=now,
                    **_columns(request),
                )
            )
        await endpoint_health.enable(tx, caller.partner_id, request.url)
        await _audit(tx, caller, endpoint_id, {"origin": origin_of(request.url)})
        return await self._with_secret(tx, caller, endpoint_id, secret)

    async def replace(
        self, tx: Write, caller: Caller, endpoint_id: UUID, request: WebhookEndpointRequest
    ) -> WebhookEndpoint:
        """Replace what an endpoint says. What waits is sent to its new URL.

        Without `headers` they stay, unless the URL has another origin: they may be credentials of the old one. Raises
        EndpointNotFound, ValidationFailed, and Conflict.
        """
        row = await self._lock(tx, caller, endpoint_id)
        before = open_credentials(self.vault, endpoint_id, row.credentials)
        kept = before.headers if origin_of(row.url) == origin_of(request.url) else {}
        # An endpoint that keeps its URL can be disabled even if the settings no longer allow the URL.
        policy = ANY_ADDRESS if request.url == row.url else self.policy
        check_endpoint(types_of(caller), request, kept=kept, policy=policy)
        if request.url != row.url:
            await _refuse_event_url(tx, caller, request.url)
        await check_stores(tx, caller, request.store_ids)
        after = EndpointCredentials(before.secrets, _headers(request, kept))
        with _refuse_taken_url(request.url):
            await tx.execute(
                update(webhook_endpoints)
                .where(_e.id == endpoint_id)
                .values(
                    credentials=seal_credentials(self.vault, endpoint_id, after),
                    updated_at=self.now(),
                    **_columns(request),
                )
            )
        if request.url != row.url or _is_enabled(request):
            await endpoint_health.enable(tx, caller.partner_id, row.url)
            await endpoint_health.enable(tx, caller.partner_id, request.url)
        detail = {"origin": origin_of(request.url), "enabled": _is_enabled(request)}
        await _audit(tx, caller, endpoint_id, detail)
        return await get_endpoint(tx, self.vault, caller, endpoint_id)

    async def set_enabled(self, tx: Write, caller: Caller, endpoint_id: UUID, *, enabled: bool) -> None:
        """Enable an endpoint, also after failures, or disable it. Raises EndpointNotFound and Conflict."""
        row = await self._lock(tx, caller, endpoint_id)
        await tx.execute(
            update(webhook_endpoints)
            .where(_e.id == endpoint_id)
            .values(enabled=enabled, updated_at=self.now())
        )
        if enabled:
            await endpoint_health.enable(tx, caller.partner_id, row.url)
        await _audit(tx, caller, endpoint_id, {"enabled": enabled})

    async def delete(self, tx: Write, caller: Caller, endpoint_id: UUID) -> None:
        """Delete an endpoint: what waits for it isn't sent. Raises EndpointNotFound and Conflict."""
        row = await self._lock(tx, caller, endpoint_id)
        await tx.execute(delete(webhook_endpoints).where(_e.id == endpoint_id))
        await endpoint_health.enable(tx, caller.partner_id, row.url)
        await _audit(tx, caller, endpoint_id, {"deleted": True})

    async def rotate_secret(
        self, tx: Write, caller: Caller, endpoint_id: UUID, *, overlap: timedelta
    ) -> WebhookEndpointWithSecret:
        """Return the endpoint with a new secret; the newest one before it signs, too, during the overlap.

        Raises EndpointNotFound and Conflict.
        """
        row = await self._lock(tx, caller, endpoint_id)
        before = open_credentials(self.vault, endpoint_id, row.credentials)
        now, secret = self.now(), new_signing_secret()
        previous, _ = before.secrets[0]
        end = int((now + overlap).timestamp())
        secrets = ((secret, None), (previous, end)) if overlap else ((secret, None),)
        await tx.execute(
            update(webhook_endpoints)
            .where(_e.id == endpoint_id)
            .values(
                credentials=seal_credentials(
                    self.vault, endpoint_id, EndpointCredentials(secrets, before.headers)
                ),
                updated_at=now,
            )
        )
        await _audit(tx, caller, endpoint_id, {"changed": ["secret"]})
        return await self._with_secret(tx, caller, endpoint_id, secret)

    async def send_test(self, tx: Write, caller: Caller, endpoint_id: UUID, *, traceparent: str) -> UUID:
        """Push a `ping` to the endpoint alone; return the delivery's id. Raises EndpointNotFound and Conflict."""
        row = await self._lock(tx, caller, endpoint_id)
        reason = await endpoint_health.find_disabled_reason(tx, caller.partner_id, row.url)
        if reason is not None or not row.enabled:
            explanation = "" if reason is None else f" ({reason})"
            raise Conflict(
                f"The endpoint is disabled{explanation}. Enable it first: change it with enabled: true."
            )
        delivery_id, webhook_id, now = self.new_id(), self.new_id(), self.now()
        partition = partition_of(webhook_id)
        job = DeliverJob(partner_id=caller.partner_id, url=row.url, partition=partition)
        due = await enqueue_attempt(tx, job, delivery_id)
        assert due is not None, "the id is new"
        body = envelope(EventType.PING, occurred_at=now, data=PingData(endpoint_id=endpoint_id))
        insert_delivery(
            tx,
            NewDelivery(
                id=delivery_id,
                partner_id=caller.partner_id,
                surface=caller.surface,
                type=EventType.PING,
                webhook_id=webhook_id,
                url=row.url,
                body=compress(body),
                traceparent=traceparent,
                partition=partition,
                status=DeliveryStatus.PENDING,
                created_at=now,
                updated_at=now,
                next_attempt_at=now,
                due_at=due.at,
                job_id=due.job_id,
                endpoint_id=endpoint_id,
            ),
        )
        await _audit(tx, caller, endpoint_id, {"tested": True})
        return delivery_id

    async def _lock(self, tx: Write, caller: Caller, endpoint_id: UUID) -> AnyRow:
        row = await tx.first(
            select(webhook_endpoints).where(*_own(caller), _e.id == endpoint_id).with_for_update()
        )
        if row is None:
            other = await get_endpoint(tx, self.vault, caller, endpoint_id)
            raise Conflict(_NOT_HERE[other.kind])
        return row

    async def _with_secret(
        self, tx: Write, caller: Caller, endpoint_id: UUID, secret: str
    ) -> WebhookEndpointWithSecret:
        found = await get_endpoint(tx, self.vault, caller, endpoint_id)
        return WebhookEndpointWithSecret(**msgspec.structs.asdict(found), secret=secret)


async def _audit(tx: Write, caller: Caller, endpoint_id: UUID, detail: Mapping[str, Any]) -> None:
    await audit(tx, "endpoint", endpoint_id, partner_id=caller.partner_id, detail=detail)


def _is_enabled(request: WebhookEndpointRequest) -> bool:
    return request.enabled is not False


def _columns(request: WebhookEndpointRequest) -> dict[str, Any]:
    return {
        "url": request.url,
        "types": None if request.types is None else as_json(sorted(set(request.types))).decode(),
        "store_ids": None if request.store_ids is None else as_json(sorted(set(request.store_ids))).decode(),
        "description": request.description,
        "enabled": _is_enabled(request),
    }


def _headers(request: WebhookEndpointRequest, kept: Mapping[str, str]) -> dict[str, str]:
    if request.headers is None:
        return dict(kept)
    return {name: kept[name] if value == HIDDEN_VALUE else value for name, value in request.headers.items()}


async def check_stores(tx: Read, caller: Caller, store_ids: Sequence[UUID] | None) -> None:
    """Refuse stores that don't exist; on the Commerce surface also those of others. Raises UnknownStore."""
    if store_ids is None:
        return
    conditions: list[ColumnElement[bool]] = [stores.c.id.in_(sorted(set(store_ids)))]
    if caller.surface is Surface.COMMERCE:
        conditions.append(stores.c.partner_id == caller.partner_id)
    known = {row.id for row in await tx.all(select(stores.c.id).where(*conditions))}
    for store_id in store_ids:
        if store_id not in known:
            raise UnknownStore(store_id)


async def _refuse_event_url(tx: Read, caller: Caller, url: str) -> None:
    """Refuse the account's own event URL: it would get each event twice, signed with two secrets. Raises Conflict."""
    if caller.surface is Surface.MARKETFRONT and url == await tx.scalar(
        select(partners.c.event_url).where(partners.c.id == caller.partner_id)
    ):
        raise Conflict("This is the account's event URL already. Have the operator remove it there first.")


@contextmanager
def _refuse_taken_url(url: str) -> Iterator[None]:
    """Raise Conflict for a URL that another endpoint of the account has: each has its own retries and breaker."""
    try:
        yield
    except IntegrityError as error:
        if not is_unique_violation(error, webhook_endpoints_one_for_each_url):
            raise
        raise Conflict(
            f"Another webhook endpoint of this account has the URL {shown(url)}. Change that one, or add a query."
        ) from None


async def find_address(tx: Read, endpoint_id: UUID) -> str:
    """Return the URL at which an endpoint is called now.

    Raises Conflict if it was deleted, or disabled by its partner.
    """
    row = await tx.first(select(_e.url, _e.enabled).where(_e.id == endpoint_id))
    if row is None:
        raise Conflict("The webhook endpoint of this delivery was deleted, so it can't be sent again.")
    if not row.enabled:
        raise Conflict("The webhook endpoint of this delivery is disabled. Enable it first.")
    url: str = row.url
    return url


async def list_ending_secrets(
    tx: Read, vault: Vault, partner_id: UUID, *, now: datetime
) -> list[tuple[str, datetime | None]]:
    """Return the secrets of all endpoints of a partner that sign now, each with its expiry."""
    rows = await tx.all(
        select(_e.id, _e.credentials).where(_e.partner_id == partner_id).order_by(_e.surface, _e.id)
    )
    return [
        (text, None if end is None else datetime.fromtimestamp(end, UTC))
        for row in rows
        for text, end in open_credentials(vault, row.id, row.credentials).secrets
        if end is None or end > now.timestamp()
    ]
