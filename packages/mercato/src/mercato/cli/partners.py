"""`mercato partner`: accounts of organisations on the network."""

from typing import Any, Final
from uuid import UUID

from msgspec import UNSET, UnsetType

from mercato.cli.options import MAX_LISTED, After, PartnerName, WebhookOrigin, WebhookToken
from mercato.cli.output import Column, OutFile, members_of, print_facts, print_from_first, secret_file
from mercato.cli.session import opened
from mercato.features import offboarding
from mercato.features.partners import accounts, queries
from mercato.features.partners.accounts import NewPartner
from mercato.features.partners.model import Limits, Partner, PartnerKind
from mercato.features.partners.webhook_tokens import list_token_origins, set_webhook_token
from mercato.features.stores.queries import list_webhook_urls
from mercato.features.webhooks.outbox import change_event_url
from mercato.services import Core
from mercato_contract import clock
from mercato_contract.wire import Wire, redacted
from mercato_outbound.guard import AddressPolicy, call_fault
from mercato_tools.cli import UnusableError
from mercato_tools.cli.options import DataDir, Json, group
from mercato_tools.cli.output import note, print_json

partner = group("partner", "Partners: organisations that use the network.")


@redacted("commerce_key", "marketfront_key", "signing_secret")
class Credentials(Wire, kw_only=True):
    """The credentials of a new partner."""

    partner_id: UUID
    commerce_key: str | UnsetType = UNSET
    commerce_key_id: UUID | UnsetType = UNSET
    marketfront_key: str | UnsetType = UNSET
    marketfront_key_id: UUID | UnsetType = UNSET
    signing_secret: str


def _own_limits(account: Partner) -> str:
    own = {name: getattr(account.limits, name) for name in Limits.__struct_fields__}
    return ", ".join(f"{name} {value}" for name, value in own.items() if value is not None)


COLUMNS: Final[dict[str, Column]] = {
    "Id": "id",
    "Name": "name",
    "Kind": "kind",
    "Own limits": _own_limits,
    "Event URL": "event_url",
    "Created": "created_at",
    "Suspended": "suspended_at",
}


@partner.command
async def create(
    name: str,
    /,
    *,
    kind: PartnerKind,
    webhook_token: WebhookToken = None,
    webhook_origin: WebhookOrigin = None,
    event_url: str | None = None,
    out: OutFile = None,
    json: Json = False,
    data_dir: DataDir = None,
) -> None:
    """Create a partner, with a key for each surface of its kind and a signing secret.

    Args:
        name: The partner's name.
        kind: Which surfaces it uses.
        event_url: Where order events go (marketfront partners).

    """
    _check_origin(webhook_origin, webhook_token)
    with secret_file(out) as secret:
        async with opened(data_dir, create=True) as core, core.db.write() as tx:
            made = await accounts.create_partner(
                tx,
                await core.bind_vault(tx),
                name=name,
                kind=kind,
                webhook_token=webhook_token,
                webhook_origin=webhook_origin,
                event_url=event_url,
            )
        _note_refused_url(core, event_url)
        secret.show(
            _credentials(made),
            ("Partner", made.id),
            ("Commerce key", made.commerce_key and made.commerce_key.text),
            ("Marketfront key", made.marketfront_key and made.marketfront_key.text),
            ("Signing secret", made.signing_secret),
            json=json,
            warning="Only hashes of keys are stored: keep the keys now, they cannot be shown again.",
        )


def _note_refused_url(core: Core, event_url: str | None) -> None:
    """Say so if only a server for development calls the URL. This command doesn't know how its server was started."""
    if not event_url or core.settings.allow_private_networks:
        return
    fault = call_fault(event_url, "the event URL", AddressPolicy())
    if fault is not None:
        note(
            "Only a server for development (mercato serve --dev, or MERCATO_ALLOW_PRIVATE_NETWORKS=true) sends events "
            f"there. For any other, {fault}"
        )


@partner.command(name="list")
async def list_(*, after: After = None, json: Json = False, data_dir: DataDir = None) -> None:
    """List partners in the order of their creation."""
    async with opened(data_dir) as core, core.db.read() as tx:
        found = await queries.list_partners(tx, after=after, limit=MAX_LISTED)
    print_from_first(
        "partners",
        found,
        COLUMNS,
        as_json=json,
        entry=lambda account: {"partnerId": account.id} | members_of(account, without=("id",)),
        empty="No partners. Create one with: mercato partner create",
    )


@partner.command
async def update(
    name: PartnerName,
    /,
    *,
    webhook_token: WebhookToken = None,
    webhook_origin: WebhookOrigin = None,
    event_url: str | None = None,
    reads: int | None = None,
    writes: int | None = None,
    discovery: int | None = None,
    data_dir: DataDir = None,
) -> None:
    """Change the given values; an empty token or URL removes it. It takes effect within a second, without a restart.

    Args:
        event_url: Where order events go (marketfront partners).
        reads: Reads a minute; 0 is the deployment's limit. Each live store adds 12.
        writes: Writes a minute; 0 is the deployment's limit. Each live store adds 6.
        discovery: Discoveries a minute; 0 is the deployment's limit.

    """
    limits = Limits(reads=reads, writes=writes, discovery=discovery)
    if webhook_token is None and event_url is None and limits == Limits():
        raise UnusableError(
            "Say what to change: --webhook-token, --event-url, --reads, --writes or --discovery."
        )
    _check_origin(webhook_origin, webhook_token)
    async with opened(data_dir) as core, core.db.write() as tx:
        old = await accounts.get_partner_named(tx, name)
        if webhook_token is not None:
            used = await list_webhook_urls(tx, old.id)
            vault = await core.open_vault(tx)
            await set_webhook_token(tx, vault, old.id, webhook_token or None, url=webhook_origin, used=used)
        if event_url is not None:
            await change_event_url(tx, old.id, event_url or None, now=clock.now(), new_id=clock.new_id)
        if limits != Limits():
            await accounts.set_limits(tx, old.id, _merge_limits(old.limits, limits))
        origins = await list_token_origins(tx, old.id)
    note(f"Changed {old.name}.")
    _note_refused_url(core, event_url)
    if webhook_token:
        where = ", ".join(filter(None, origins))
        note(
            f"Tokens go to {where}."
            if where
            else "The token goes to the first webhookUrl that is registered."
        )


@partner.command
async def rename(name: PartnerName, new_name: str, /, *, data_dir: DataDir = None) -> None:
    """Give a partner another name. Its keys, stores and orders stay as they are.

    Args:
        new_name: The new name.

    """
    async with opened(data_dir) as core, core.db.write() as tx:
        old = await accounts.get_partner_named(tx, name)
        await accounts.rename_partner(tx, old.id, new_name)
    note(f"{old.name} is now called {new_name.strip()}.")


@partner.command
async def suspend(name: PartnerName, /, *, data_dir: DataDir = None) -> None:
    """Refuse a partner's keys and hide its stores, within 2 seconds on every server, until it is resumed.

    Its open orders and its deliveries continue.
    """
    async with opened(data_dir) as core:
        async with core.db.read() as tx:
            found = await accounts.get_partner_named(tx, name)
        await offboarding.suspend(core.db, found.id, now=clock.now)
    note(f"{found.name} is suspended. Undo it with: mercato partner resume {found.id}")


@partner.command
async def resume(name: PartnerName, /, *, data_dir: DataDir = None) -> None:
    """Let a suspended partner's keys work again, and show its stores."""
    async with opened(data_dir) as core:
        async with core.db.read() as tx:
            found = await accounts.get_partner_named(tx, name)
        await offboarding.resume(core.db, found.id, now=core.clock)
    note(f"{found.name} is no longer suspended.")


@partner.command
async def delete(
    name: PartnerName, /, *, yes: bool = False, json: Json = False, data_dir: DataDir = None
) -> None:
    """Delete a partner with its keys, secrets, stores, catalogs and deliveries, permanently. Orders stay.

    Refused while it has open orders. It is suspended first; an interrupted deletion is resumed by the same command.

    Args:
        yes: Delete it. Without this, what would be deleted is counted.

    """
    async with opened(data_dir) as core:
        async with core.db.read() as tx:
            found = await accounts.get_partner_named(tx, name)
            holdings = await offboarding.count_holdings(tx, found.id)
        if not json:
            print_facts(
                ("Partner", found.name),
                ("Keys", f"{holdings.keys:,}"),
                ("Stores", f"{holdings.stores:,}"),
                ("Onboardings", f"{holdings.onboardings:,}"),
                ("Deliveries", f"{holdings.deliveries:,}, of which {holdings.pending_deliveries:,} pending"),
                ("Orders that stay", f"{holdings.orders:,}, of which {holdings.open_orders:,} open"),
            )
        if yes:
            await offboarding.delete(core.db, found.id, now=clock.now)
    if json:
        facts = {"done": yes, "partnerId": found.id, "name": found.name}
        print_json(facts | members_of(holdings, without=("orders",), orders_kept=holdings.orders))
    else:
        note(f"{found.name} is deleted." if yes else "Nothing was deleted. Do it with --yes")


def _check_origin(webhook_origin: str | None, token: str | None) -> None:
    if webhook_origin is not None and token is None:
        raise UnusableError(
            "--webhook-origin needs --webhook-token: it names the host that the token is sent to."
        )


def _merge_limits(old: Limits, given: Limits) -> Limits:
    """Return the old limits, changed as given; 0 restores the deployment's limit."""
    return Limits(
        **{
            name: getattr(old, name) if (value := getattr(given, name)) is None else value or None
            for name in Limits.__struct_fields__
        }
    )


def _credentials(made: NewPartner) -> Credentials:
    keys = {"commerce": made.commerce_key, "marketfront": made.marketfront_key}
    texts: dict[str, Any] = {f"{side}_key": key.text for side, key in keys.items() if key}
    ids: dict[str, Any] = {f"{side}_key_id": key.id for side, key in keys.items() if key}
    return Credentials(partner_id=made.id, signing_secret=made.signing_secret, **texts, **ids)
