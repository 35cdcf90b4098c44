"""`mercato partner`: organisations that use the network."""

import asyncio
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

from cyclopts import App, Parameter
from msgspec import UNSET, UnsetType

from mercato import clock
from mercato.cli.console import note, print_facts, print_json, print_table
from mercato.cli.failures import UnusableError
from mercato.cli.options import After, DataDir, Json, PartnerName, WebhookOrigin, WebhookToken, typed
from mercato.cli.private import OutFile, private_file
from mercato.cli.session import opened
from mercato.db.engine import Write
from mercato.outbound.urls import origin_of
from mercato.partners import accounts, queries
from mercato.partners.accounts import NewPartner
from mercato.partners.model import Limits, Partner, PartnerKind
from mercato.partners.webhook_tokens import list_token_origins, set_webhook_token
from mercato.stores.queries import list_webhook_urls
from mercato.telemetry import tracing
from mercato.webhooks.endpoints import announce_change, origin_changed
from mercato.webhooks.wire import Endpoint, EndpointChangedData
from mercato.wire import Instant, Wire, instant, redacted

partner = App(name="partner", help="Partners: organisations that use the network.")
partner.command("mercato.cli.offboarding:rename", name="rename")
partner.command("mercato.cli.offboarding:suspend", name="suspend")
partner.command("mercato.cli.offboarding:resume", name="resume")
partner.command("mercato.cli.offboarding:delete", name="delete")

PAGE = 1000

EventUrl = Annotated[str | None, Parameter(help="Where order events go (marketfront partners).")]


@redacted("commerce_key", "marketfront_key", "signing_secret")
class Credentials(Wire, kw_only=True):
    """All that a new partner needs to begin."""

    partner_id: UUID
    commerce_key: str | UnsetType = UNSET
    commerce_key_id: UUID | UnsetType = UNSET
    marketfront_key: str | UnsetType = UNSET
    marketfront_key_id: UUID | UnsetType = UNSET
    signing_secret: str


class Entry(Wire):
    """A partner in a list."""

    partner_id: UUID
    name: str
    kind: PartnerKind
    limits: Limits
    has_webhook_token: bool
    event_url: str | None
    created_at: Instant | None
    suspended_at: Instant | None


class Entries(Wire):
    """A page of partners."""

    partners: list[Entry]


@partner.command
def create(
    name: Annotated[str, Parameter(help="What to call it.")],
    /,
    *,
    kind: Annotated[PartnerKind, Parameter(help="What it does here.")],
    webhook_token: WebhookToken = None,
    webhook_origin: WebhookOrigin = None,
    event_url: EventUrl = None,
    out: OutFile = None,
    json: Json = False,
    data_dir: DataDir = None,
) -> None:
    """Make a partner, with a key for each surface of its kind and a signing secret."""
    # Read outside the event loop, which would keep Ctrl-C from ending the wait.
    token = typed(webhook_token)
    _check_origin(webhook_origin, token)
    facts = {"name": name, "kind": kind, "webhook_token": token, "webhook_origin": webhook_origin}
    with private_file(out) as write:
        made = asyncio.run(_create(data_dir, **facts, event_url=event_url))
        if write is not None:
            write(_credentials(made))
            return
    if json:
        print_json(_credentials(made))
        return
    print_facts(
        ("Partner", made.id),
        ("Commerce key", made.commerce_key and made.commerce_key.text),
        ("Marketfront key", made.marketfront_key and made.marketfront_key.text),
        ("Signing secret", made.signing_secret),
    )
    note("Keys are kept as hashes only: store them now, they cannot be shown again.")


async def _create(data_dir: Path | None, **facts: Any) -> NewPartner:
    async with opened(data_dir, create=True) as session, session.db.write() as tx:
        return await accounts.create_partner(tx, await session.vault(tx), **facts)


@partner.command(name="list")
async def list_(*, after: After = None, json: Json = False, data_dir: DataDir = None) -> None:
    """List partners in the order of their creation."""
    async with opened(data_dir) as session, session.db.read() as tx:
        found = await queries.list_partners(tx, after=after, limit=PAGE)
    if json:
        print_json(Entries(partners=[_entry(one) for one in found]))
    else:
        rows = [
            (
                one.id,
                one.name,
                one.kind,
                _shown(one.limits),
                one.event_url,
                one.created_at,
                one.suspended_at,
            )
            for one in found
        ]
        columns = ("Id", "Name", "Kind", "Own limits", "Event URL", "Created", "Suspended")
        print_table(columns, rows, empty="There are no partners. Make one with: mercato partner create")
    if len(found) == PAGE:
        note(f"There may be more: mercato partner list --after {found[-1].id}")


@partner.command
def update(
    name: PartnerName,
    /,
    *,
    webhook_token: WebhookToken = None,
    webhook_origin: WebhookOrigin = None,
    event_url: EventUrl = None,
    reads: Annotated[int | None, Parameter(help="Reads a minute; 0 takes the deployment's.")] = None,
    writes: Annotated[int | None, Parameter(help="Writes a minute; 0 takes the deployment's.")] = None,
    discovery: Annotated[
        int | None, Parameter(help="Discoveries a minute; 0 takes the deployment's.")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Change what is given; an empty token or URL takes it away. It holds within a second, without a restart."""
    limits = Limits(reads=reads, writes=writes, discovery=discovery)
    if webhook_token is None and event_url is None and limits == Limits():
        raise UnusableError(
            "Say what to change: --webhook-token, --event-url, --reads, --writes or --discovery."
        )
    token = typed(webhook_token)
    _check_origin(webhook_origin, token)
    changed, origins = asyncio.run(
        _update(data_dir, name, token, event_url, limits, webhook_origin=webhook_origin)
    )
    note(f"Changed {changed}.")
    if token:
        where = ", ".join(origin for origin in origins if origin)
        note(
            f"Tokens go to {where}."
            if where
            else "The token goes to the first webhookUrl that is registered."
        )


def _check_origin(webhook_origin: str | None, token: str | None) -> None:
    if webhook_origin is not None and token is None:
        raise UnusableError("--webhook-origin says where a token goes: give it with --webhook-token.")


async def _update(
    data_dir: Path | None,
    name: str,
    token: str | None,
    event_url: str | None,
    limits: Limits,
    *,
    webhook_origin: str | None,
) -> tuple[str, list[str]]:
    """Return the partner's name, and the origins that have a token now."""
    async with opened(data_dir) as session, session.db.write() as tx:
        old = await accounts.get_partner_named(tx, name)
        if token is not None:
            used = await list_webhook_urls(tx, old.id)
            await set_webhook_token(
                tx, await session.vault(tx), old.id, token or None, url=webhook_origin, used=used
            )
        if event_url is not None:
            await _set_event_url(tx, old, event_url or None)
        if limits != Limits():
            await accounts.set_limits(tx, old.id, _merged(old.limits, limits))
        return old.name, await list_token_origins(tx, old.id)


async def _set_event_url(tx: Write, old: Partner, url: str | None) -> None:
    """Set where order events go, and say so where they went until now."""
    await accounts.set_event_url(tx, old.id, url)
    if old.event_url is None or not origin_changed(old.event_url, url):
        return
    data = EndpointChangedData(
        endpoint=Endpoint.EVENT_URL,
        previous_origin=origin_of(old.event_url),
        origin=None if url is None else origin_of(url),
        token_sent=False,
    )
    await announce_change(
        tx,
        data,
        partner_id=old.id,
        event_url=old.event_url,
        webhook_url=None,
        now=clock.now(),
        new_id=clock.new_id,
        trace=tracing.new_trace(),
    )


def _merged(old: Limits, given: Limits) -> Limits:
    """Return the old limits with those given in their place; 0 goes back to the deployment's."""

    def one(value: int | None, before: int | None) -> int | None:
        return before if value is None else value or None

    return Limits(
        reads=one(given.reads, old.reads),
        writes=one(given.writes, old.writes),
        discovery=one(given.discovery, old.discovery),
    )


def _credentials(made: NewPartner) -> Credentials:
    commerce, marketfront = made.commerce_key, made.marketfront_key
    return Credentials(
        partner_id=made.id,
        commerce_key=commerce.text if commerce else UNSET,
        commerce_key_id=commerce.id if commerce else UNSET,
        marketfront_key=marketfront.text if marketfront else UNSET,
        marketfront_key_id=marketfront.id if marketfront else UNSET,
        signing_secret=made.signing_secret,
    )


def _entry(one: Partner) -> Entry:
    return Entry(
        partner_id=one.id,
        name=one.name,
        kind=one.kind,
        limits=one.limits,
        has_webhook_token=one.has_webhook_token,
        event_url=one.event_url,
        created_at=instant(one.created_at),
        suspended_at=instant(one.suspended_at),
    )


def _shown(limits: Limits) -> str:
    own = {"reads": limits.reads, "writes": limits.writes, "discovery": limits.discovery}
    return ", ".join(f"{name} {value}" for name, value in own.items() if value is not None)
