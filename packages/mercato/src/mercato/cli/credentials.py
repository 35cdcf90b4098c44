"""`mercato key` and `secret`: API keys, and secrets that sign webhooks."""

from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from mercato.cli.options import MAX_LISTED, After, Duration, KeyName, OnlyPartner, PartnerName
from mercato.cli.output import (
    Column,
    OutFile,
    SecretFile,
    members_of,
    print_from_first,
    print_objects,
    print_table,
    secret_file,
)
from mercato.cli.session import find_partner_id, opened
from mercato.features.orders.search import enqueue_reindex
from mercato.features.partners import accounts, agents, credentials, queries
from mercato.features.partners.credentials import OVERLAP, NewKey
from mercato.features.partners.encryption import reseal as reseal_batch
from mercato.features.partners.model import ApiKey, KeyState, Partner, Surface
from mercato.features.sign_in import people
from mercato_contract import clock
from mercato_contract.agents import NEVER, NewAgentRequest
from mercato_contract.wire import Instant, Wire, instant, redacted
from mercato_tools.cli import UnusableError
from mercato_tools.cli.options import DataDir, Json, group
from mercato_tools.cli.output import note, print_json, view

key = group("key", "API keys: create, list, roll, revoke.")

MAX_DAYS: Final = 36_500


@redacted("key")
class CreatedKey(Wire):
    """A new key, which is shown only once."""

    partner_id: UUID
    key_id: UUID
    surface: Surface
    key: str
    expires_at: Instant | None
    agent_id: UUID | None


def _state(api_key: ApiKey) -> KeyState:
    return api_key.state(clock.now())


COLUMNS: Final[dict[str, Column]] = {
    "Id": "id",
    "Prefix": "prefix",
    "Partner": "partner_id",
    "State": _state,
    "Description": "description",
    "Created": "created_at",
    "Expires": "expires_at",
    "Last used": "last_used_at",
}


@key.command
async def create(
    partner: PartnerName,
    *,
    surface: Surface | None = None,
    description: str | None = None,
    expires_in: Duration | None = None,
    agent: str | None = None,
    maximum_order: str | None = None,
    maximum_day: str | None = None,
    currency: str | None = None,
    approval: str | None = None,
    timezone: str | None = None,
    out: OutFile = None,
    json: Json = False,
    data_dir: DataDir = None,
) -> None:
    """Create another key for a partner, or for an agent of a storefront, which orders within limits.

    Args:
        surface: Needed for partners of both kinds.
        description: What it is for.
        expires_in: How long it is valid, such as 90d or 12h.
        agent: The name of a new agent, whose key it is. The options below are of agents alone.
        maximum_order: The most that an order of the agent may cost, such as 30.00.
        maximum_day: The most that its orders of a day may cost.
        currency: The currency of the amounts, and of its orders, such as EUR.
        approval: Which orders a person approves first: never, always, or above:AMOUNT.
        timezone: In which its days begin, such as Europe/Berlin; else UTC.

    """
    terms = (maximum_order, maximum_day, currency, approval, timezone)
    if agent is None and any(term is not None for term in terms):
        raise UnusableError(
            "--maximum-order, --maximum-day, --currency, --approval and --timezone are of agents: add --agent NAME."
        )
    if agent is not None and surface is Surface.COMMERCE:
        raise UnusableError("An agent has a marketfront key. Leave --surface out.")
    if expires_in is not None and not timedelta(0) < expires_in <= timedelta(days=MAX_DAYS):
        raise UnusableError(f"--expires-in must be more than 0 and at most {MAX_DAYS}d.")
    with secret_file(out) as secret:
        async with opened(data_dir) as core, core.db.write() as tx:
            owner = await accounts.get_partner_named(tx, partner)
            expires_at = None if expires_in is None else clock.now() + expires_in
            agent_id = None
            if agent is None:
                made = await credentials.create_key(
                    tx,
                    owner,
                    surface=surface or _only_surface(owner),
                    description=description,
                    expires_at=expires_at,
                )
            else:
                request = NewAgentRequest(
                    name=agent,
                    currency=currency,
                    maximum_order=maximum_order,
                    maximum_day=maximum_day,
                    approval=approval or NEVER,
                    timezone=timezone,
                )
                created = await agents.create_agent(
                    tx, owner, request, description=description, expires_at=expires_at
                )
                made, agent_id = created.key, created.agent.id
        _show(secret, owner.id, made, agent_id=agent_id, json=json)


@key.command(name="list")
async def list_keys(
    partner: OnlyPartner = None, *, after: After = None, json: Json = False, data_dir: DataDir = None
) -> None:
    """List keys in the order of their creation, all or one partner's."""
    async with opened(data_dir) as core, core.db.read() as tx:
        owner = await find_partner_id(tx, partner)
        found = await queries.list_keys(tx, partner_id=owner, after=after, limit=MAX_LISTED)
        names = await queries.find_names(tx, {api_key.partner_id for api_key in found})
    print_from_first(
        "keys",
        found,
        COLUMNS | {"Partner": lambda api_key: names.get(api_key.partner_id, api_key.partner_id)},
        as_json=json,
        entry=lambda api_key: _entry(api_key, partner_name=names.get(api_key.partner_id)),
        empty="No keys. Create one with: mercato key create",
        cut=("Partner", "Description"),
    )


@key.command
async def roll(
    name: KeyName,
    /,
    *,
    overlap: Duration = OVERLAP,
    out: OutFile = None,
    json: Json = False,
    data_dir: DataDir = None,
) -> None:
    """Replace a key; the old one expires after the overlap (24h; 0s expires it at once).

    Args:
        overlap: How long the old one stays valid.

    """
    with secret_file(out) as secret:
        async with opened(data_dir) as core, core.db.write() as tx:
            old = await credentials.get_key(tx, name)
            made = await credentials.roll_key(tx, old, overlap=overlap)
        _show(secret, old.partner_id, made, json=json)


@key.command
async def revoke(
    name: KeyName, /, *, with_descendants: bool = False, json: Json = False, data_dir: DataDir = None
) -> None:
    """Revoke a key permanently, with the agents that it has made: every server refuses it within 2 seconds.

    Lists the keys that descend from it, which were made in its console sessions or in sessions of such keys, and the
    people who were invited there.

    Args:
        with_descendants: Revoke the keys that descend from it, too, and remove the people.

    """
    async with opened(data_dir) as core, core.db.write() as tx:
        old = await credentials.get_key(tx, name)
        before = await credentials.list_descendants(tx, old, now=clock.now())
        revoked = await credentials.revoke_key(tx, old)
        ended_agents = [api_key for api_key in before if api_key.is_agent_of(old)]
        if with_descendants:
            ended = await credentials.revoke_descendants(tx, old)
            found = [await credentials.get_key(tx, str(api_key.id)) for api_key in ended]
        else:
            found = await credentials.list_descendants(tx, old, now=clock.now())
        invited = await people.list_invited_with(
            tx, old.partner_id, {old.id, *(api_key.id for api_key in found)}
        )
        if with_descendants:
            for person in invited:
                await people.remove(tx, person)
        old = await credentials.get_key(tx, str(old.id))
        ended_agents = [await credentials.get_key(tx, str(api_key.id)) for api_key in ended_agents]
    if json:
        entries = [_entry(api_key) for api_key in (*ended_agents, *found)]
        print_json(_entry(old, descendants=entries, people=[invitee.name for invitee in invited]))
        return
    note(f"The key {old.prefix} {'is revoked' if revoked else 'was revoked already'}.")
    if ended_agents:
        listed = ", ".join(api_key.description or api_key.prefix for api_key in ended_agents)
        note(f"So are the keys of agents that it has made: {listed}.")
    if found:
        note(
            "So are the keys that descended from it:"
            if with_descendants
            else "Keys that descend from it are still valid. Revoke them, too, with --with-descendants:"
        )
        print_objects(COLUMNS, found, empty="")
    if invited:
        note(
            "These people, who were invited with it, were removed:"
            if with_descendants
            else "These people, who were invited with it, can still sign in. Remove them, too, with --with-descendants:"
        )
        print_table(("Name", "Role"), [(invitee.name, invitee.role.words) for invitee in invited], empty="")


def _only_surface(owner: Partner) -> Surface:
    if len(owner.kind.surfaces) > 1:
        raise UnusableError("Give the key's surface: --surface commerce or --surface marketfront.")
    return owner.kind.surfaces[0]


def _show(
    secret: SecretFile, partner_id: UUID, made: NewKey, *, agent_id: UUID | None = None, json: bool
) -> None:
    secret.show(
        CreatedKey(
            partner_id=partner_id,
            key_id=made.id,
            surface=made.surface,
            key=made.text,
            expires_at=instant(made.expires_at),
            agent_id=agent_id,
        ),
        ("Key", made.text),
        ("Id", made.id),
        *(() if agent_id is None else (("Agent", agent_id),)),
        ("Surface", made.surface),
        ("Expires", made.expires_at),
        json=json,
        warning="Only its hash is stored: keep the key now, it cannot be shown again.",
    )


def _entry(api_key: ApiKey, **others: Any) -> dict[str, Any]:
    """Return a key with its present state as JSON."""
    own = members_of(api_key, without=("id", "latest_expiry"), state=_state(api_key), **others)
    return {"keyId": api_key.id} | own


BATCH: Final = 100
"""Partners whose secrets one transaction reseals."""

secret = group("secret", "Signing secrets: rotate, list, reseal.")


@redacted("signing_secret")
class NewSecret(Wire):
    """A partner's new signing secret."""

    partner_id: UUID
    signing_secret: str


@redacted("signing_secret")
class SecretEntry(Wire):
    """A signing secret in a list; its text only with --reveal."""

    secret_id: UUID
    created_at: Instant | None
    expires_at: Instant | None
    signing_secret: str | None


@secret.command
async def rotate(
    partner: PartnerName,
    *,
    overlap: Duration = OVERLAP,
    out: OutFile = None,
    json: Json = False,
    data_dir: DataDir = None,
) -> None:
    """Create a new signing secret. Webhooks are signed with both until the overlap (24h) ends.

    Args:
        overlap: How long the old one signs too.

    """
    with secret_file(out) as file:
        async with opened(data_dir) as core, core.db.write() as tx:
            owner = await accounts.get_partner_named(tx, partner)
            vault = await core.open_vault(tx)
            text = await accounts.rotate_signing_secret(tx, vault, owner.id, overlap=overlap)
        file.show(NewSecret(partner_id=owner.id, signing_secret=text), ("Signing secret", text), json=json)


@secret.command
async def reseal(*, data_dir: DataDir = None) -> None:
    """Encrypt all stored secrets with the first encryption key, so that you can remove the others.

    A job also hashes customers' phone numbers, e-mail addresses and names again; the console finds orders by these.

    Servers must know that key already. You can run it again at any time.
    """
    count, after, more = 0, None, True
    async with opened(data_dir) as core:
        async with core.db.read() as tx:
            vault = await core.open_vault(tx)
        while more:
            async with core.db.write() as tx:
                done = await reseal_batch(tx, vault, after=after, limit=BATCH)
            count, after, more = count + done.count, done.last, done.last is not None
        async with core.db.write() as tx:
            await enqueue_reindex(tx)
    note(f"{count} secrets were encrypted again. All secrets use the first key now.")


@secret.command(name="list")
async def list_secrets(
    partner: PartnerName, *, reveal: bool = False, json: Json = False, data_dir: DataDir = None
) -> None:
    """List the secrets that sign a partner's webhooks now, the newest first.

    Args:
        reveal: Show the secrets themselves.

    """
    async with opened(data_dir) as core, core.db.read() as tx:
        owner = await accounts.get_partner_named(tx, partner)
        found = await accounts.list_signing_secrets(tx, owner.id)
        texts: list[str | None] = [None] * len(found)
        if reveal:
            texts = [*await accounts.get_signing_secrets(tx, await core.open_vault(tx), owner.id)]
    listed = [*zip(found, texts, strict=True)]
    if json:
        entries = [
            view(SecretEntry, stored, secret_id=stored.id, signing_secret=text) for stored, text in listed
        ]
        print_json({"partnerId": owner.id, "secrets": entries})
        return
    rows = [(stored.id, stored.created_at, stored.expires_at, text) for stored, text in listed]
    print_table(("Id", "Created", "Ends", "Secret"), rows, empty="This partner has no signing secret.")
    if not reveal:
        note("Add --reveal to see them.")
