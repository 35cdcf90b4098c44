"""`mercato key`: what partners send to be known."""

from collections.abc import Callable
from datetime import timedelta
from typing import Annotated
from uuid import UUID

from cyclopts import App, Parameter

from mercato import clock
from mercato.cli.console import note, print_facts, print_json, print_table
from mercato.cli.failures import UnusableError
from mercato.cli.options import After, DataDir, Duration, Json, KeyName, PartnerName
from mercato.cli.partners import PAGE
from mercato.cli.private import OutFile, private_file
from mercato.cli.session import opened
from mercato.partners import accounts, credentials, queries
from mercato.partners.credentials import OVERLAP, NewKey
from mercato.partners.model import ApiKey, KeyState, Partner, Surface
from mercato.wire import Instant, Wire, instant, redacted

key = App(name="key", help="API keys: what partners send to be known.")

MOST_DAYS = 36_500


@redacted("key")
class Made(Wire):
    """A new key, shown this once."""

    partner_id: UUID
    key_id: UUID
    surface: Surface
    key: str
    expires_at: Instant | None


class Entry(Wire):
    """A key in a list."""

    key_id: UUID
    partner_id: UUID
    surface: Surface
    prefix: str
    state: KeyState
    description: str | None
    created_at: Instant | None
    expires_at: Instant | None
    revoked_at: Instant | None
    last_used_at: Instant | None


class Entries(Wire):
    """A page of keys."""

    keys: list[Entry]


@key.command
async def create(
    partner: PartnerName,
    /,
    *,
    surface: Annotated[Surface | None, Parameter(help="Needed for partners of both kinds.")] = None,
    description: Annotated[str | None, Parameter(help="What it is for.")] = None,
    expires_in: Annotated[Duration | None, Parameter(help="How long it lives, as 90d or 12h.")] = None,
    out: OutFile = None,
    json: Json = False,
    data_dir: DataDir = None,
) -> None:
    """Make one more key for a partner."""
    if expires_in is not None and not timedelta(0) < expires_in <= timedelta(days=MOST_DAYS):
        raise UnusableError(f"--expires-in must be longer than nothing and at most {MOST_DAYS}d.")
    with private_file(out) as write:
        async with opened(data_dir) as session, session.db.write() as tx:
            owner = await accounts.get_partner_named(tx, partner)
            made = await credentials.create_key(
                tx,
                owner,
                surface=surface or _only_surface(owner),
                description=description,
                expires_at=None if expires_in is None else clock.now() + expires_in,
            )
        _tell(owner.id, made, as_json=json, write=write)


@key.command(name="list")
async def list_(
    partner: Annotated[str | None, Parameter(help="Only this partner's: its id or name.")] = None,
    /,
    *,
    after: After = None,
    json: Json = False,
    data_dir: DataDir = None,
) -> None:
    """List keys in the order of their creation, all or one partner's."""
    now = clock.now()
    async with opened(data_dir) as session, session.db.read() as tx:
        owner = None if partner is None else (await accounts.get_partner_named(tx, partner)).id
        found = await queries.list_keys(tx, partner_id=owner, after=after, limit=PAGE)
    if json:
        print_json(Entries(keys=[_entry(one, one.state(now)) for one in found]))
    else:
        columns = ("Id", "Prefix", "State", "Description", "Created", "Expires", "Last used")
        rows = [
            (
                one.id,
                one.prefix,
                one.state(now),
                one.description,
                one.created_at,
                one.expires_at,
                one.last_used_at,
            )
            for one in found
        ]
        print_table(columns, rows, empty="There are no keys. Make one with: mercato key create")
    if len(found) == PAGE:
        note(f"There may be more: mercato key list --after {found[-1].id}")


@key.command
async def roll(
    name: KeyName,
    /,
    *,
    overlap: Annotated[Duration, Parameter(help="How long the old one stays valid.")] = OVERLAP,
    out: OutFile = None,
    json: Json = False,
    data_dir: DataDir = None,
) -> None:
    """Make a key in place of another, which ends after the overlap (24h; 0s ends it at once)."""
    with private_file(out) as write:
        async with opened(data_dir) as session, session.db.write() as tx:
            old = await credentials.get_key(tx, name)
            made = await credentials.roll_key(tx, old, overlap=overlap)
        _tell(old.partner_id, made, as_json=json, write=write)


@key.command
async def revoke(name: KeyName, /, *, json: Json = False, data_dir: DataDir = None) -> None:
    """End a key for good: every server refuses it within 2 seconds."""
    async with opened(data_dir) as session, session.db.write() as tx:
        old = await credentials.get_key(tx, name)
        revoked = await credentials.revoke_key(tx, old)
        ended = await credentials.get_key(tx, str(old.id))
    if json:
        print_json(_entry(ended, ended.state(clock.now())))
        return
    note(f"The key {old.prefix} is revoked." if revoked else f"The key {old.prefix} was revoked before.")


def _only_surface(owner: Partner) -> Surface:
    if len(owner.kind.surfaces) > 1:
        raise UnusableError("Say for which side the key is: --surface commerce or --surface marketfront.")
    return owner.kind.surfaces[0]


def _tell(
    partner_id: UUID, made: NewKey, *, as_json: bool, write: Callable[[Wire], None] | None = None
) -> None:
    shown = Made(
        partner_id=partner_id,
        key_id=made.id,
        surface=made.surface,
        key=made.text,
        expires_at=instant(made.expires_at),
    )
    if write is not None:
        write(shown)
        return
    if as_json:
        print_json(shown)
        return
    print_facts(("Key", made.text), ("Id", made.id), ("Surface", made.surface), ("Expires", made.expires_at))
    note("Keys are kept as hashes only: store it now, it cannot be shown again.")


def _entry(one: ApiKey, state: KeyState) -> Entry:
    return Entry(
        key_id=one.id,
        partner_id=one.partner_id,
        surface=one.surface,
        prefix=one.prefix,
        state=state,
        description=one.description,
        created_at=instant(one.created_at),
        expires_at=instant(one.expires_at),
        revoked_at=instant(one.revoked_at),
        last_used_at=instant(one.last_used_at),
    )
