"""`mercato key`, `secret` and `console`: API keys, secrets that sign webhooks, links that sign a browser in."""

from datetime import timedelta
from typing import Annotated, Final
from uuid import UUID

from cyclopts import Parameter

from mercato.cli import UnusableError
from mercato.cli.options import After, DataDir, Duration, Json, KeyName, OnlyPartner, PartnerName, group
from mercato.cli.output import (
    Column,
    OutFile,
    SecretFile,
    note,
    print_from_first,
    print_json,
    print_objects,
    print_table,
    say,
    secret_file,
    view,
)
from mercato.cli.session import find_partner_id, opened
from mercato.features.orders.search import enqueue_reindex
from mercato.features.partners import accounts, credentials, queries
from mercato.features.partners.accounts import reseal as reseal_batch
from mercato.features.partners.credentials import OVERLAP, NewKey
from mercato.features.partners.model import ApiKey, KeyState, Partner, Surface
from mercato.features.sign_in import sessions
from mercato.features.sign_in.model import Grant
from mercato.platform import clock
from mercato.platform.telemetry.context import current_context
from mercato.platform.texts import count_of
from mercato.settings import Settings
from mercato_contract.wire import Instant, Wire, instant, redacted, rfc3339

key = group("key", "API keys: create, list, roll, revoke.")

PAGE: Final = 1000
MAX_DAYS: Final = 36_500


@redacted("key")
class CreatedKey(Wire):
    """A new key, which is shown only once."""

    partner_id: UUID
    key_id: UUID
    surface: Surface
    key: str
    expires_at: Instant | None


class KeyEntry(Wire):
    """A key in a list. It was made in a console session of its parent, if it has one."""

    key_id: UUID
    partner_id: UUID
    parent_key_id: UUID | None
    surface: Surface
    prefix: str
    state: KeyState
    description: str | None
    created_at: Instant | None
    expires_at: Instant | None
    revoked_at: Instant | None
    last_used_at: Instant | None


class Revoked(KeyEntry):
    """A revoked key, and the keys that descend from it: those that were active before, with their present state."""

    descendants: list[KeyEntry]


class ListedKey(KeyEntry):
    """A key in a list, with the name of its partner."""

    partner_name: str | None


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
    /,
    *,
    surface: Surface | None = None,
    description: str | None = None,
    expires_in: Duration | None = None,
    out: OutFile = None,
    json: Json = False,
    data_dir: DataDir = None,
) -> None:
    """Create another key for a partner.

    Args:
        surface: Needed for partners of both kinds.
        description: What it is for.
        expires_in: How long it is valid, such as 90d or 12h.

    """
    if expires_in is not None and not timedelta(0) < expires_in <= timedelta(days=MAX_DAYS):
        raise UnusableError(f"--expires-in must be more than 0 and at most {MAX_DAYS}d.")
    with secret_file(out) as secret:
        async with opened(data_dir) as core, core.db.write() as tx:
            owner = await accounts.get_partner_named(tx, partner)
            made = await credentials.create_key(
                tx,
                owner,
                surface=surface or _only_surface(owner),
                description=description,
                expires_at=None if expires_in is None else clock.now() + expires_in,
            )
        _show(secret, owner.id, made, json=json)


@key.command(name="list")
async def list_keys(
    partner: OnlyPartner = None, *, after: After = None, json: Json = False, data_dir: DataDir = None
) -> None:
    """List keys in the order of their creation, all or one partner's."""
    async with opened(data_dir) as core, core.db.read() as tx:
        owner = await find_partner_id(tx, partner)
        found = await queries.list_keys(tx, partner_id=owner, after=after, limit=PAGE)
        names = await queries.find_names(tx, {api_key.partner_id for api_key in found})
    print_from_first(
        "keys",
        found,
        COLUMNS | {"Partner": lambda api_key: names.get(api_key.partner_id, api_key.partner_id)},
        limit=PAGE,
        as_json=json,
        entry=lambda api_key: _listed(api_key, names.get(api_key.partner_id)),
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
    """Revoke a key permanently: every server refuses it within 2 seconds.

    Lists the keys that descend from it: those that were made in its console sessions, and in sessions of those.

    Args:
        with_descendants: Revoke the keys that descend from it, too.

    """
    async with opened(data_dir) as core, core.db.write() as tx:
        old = await credentials.get_key(tx, name)
        revoked = await credentials.revoke_key(tx, old)
        if with_descendants:
            ended = await credentials.revoke_descendants(tx, old)
            found = [await credentials.get_key(tx, str(one.id)) for one in ended]
        else:
            found = await credentials.list_descendants(tx, old, now=clock.now())
        old = await credentials.get_key(tx, str(old.id))
    if json:
        entries = [_entry(one) for one in found]
        print_json(view(Revoked, old, key_id=old.id, state=_state(old), descendants=entries))
        return
    note(f"The key {old.prefix} {'is revoked' if revoked else 'was revoked already'}.")
    if found:
        note(
            "So are the keys that descended from it:"
            if with_descendants
            else "Keys that descend from it are still valid. Revoke them, too, with --with-descendants:"
        )
        print_objects(COLUMNS, found, empty="")


def _only_surface(owner: Partner) -> Surface:
    if len(owner.kind.surfaces) > 1:
        raise UnusableError("Give the key's surface: --surface commerce or --surface marketfront.")
    return owner.kind.surfaces[0]


def _show(secret: SecretFile, partner_id: UUID, made: NewKey, *, json: bool) -> None:
    secret.show(
        CreatedKey(
            partner_id=partner_id,
            key_id=made.id,
            surface=made.surface,
            key=made.text,
            expires_at=instant(made.expires_at),
        ),
        ("Key", made.text),
        ("Id", made.id),
        ("Surface", made.surface),
        ("Expires", made.expires_at),
        json=json,
        warning="Only its hash is stored: keep the key now, it cannot be shown again.",
    )


def _listed(api_key: ApiKey, partner_name: str | None) -> ListedKey:
    state = _state(api_key)
    return view(ListedKey, api_key, key_id=api_key.id, state=state, partner_name=partner_name)


def _entry(api_key: ApiKey) -> KeyEntry:
    return view(KeyEntry, api_key, key_id=api_key.id, state=_state(api_key))


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
    /,
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

    A job hashes customers' phone numbers and e-mail addresses anew, too, by which the console finds orders.

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
    partner: PartnerName, /, *, reveal: bool = False, json: Json = False, data_dir: DataDir = None
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


console = group("console", "The console: sign in, end sessions.")


@redacted("url")
class Link(Wire):
    """A one-time link."""

    url: str
    expires_at: Instant
    partner_id: UUID | None
    read_only: bool


class Ended(Wire):
    """How many sessions ended."""

    partner_id: UUID | None
    ended: int


@console.command
async def link(
    *,
    operator: bool = False,
    partner: Annotated[
        str | None, Parameter(help="The id or name of the partner whose account it opens.")
    ] = None,
    read_only: bool = False,
    json: Json = False,
    data_dir: DataDir = None,
) -> None:
    """Print a link that signs one browser in, once, within 15 minutes.

    Its address begins with MERCATO_PUBLIC_URL, or else with this machine's.

    Args:
        operator: Into the operator's account, which sees all partners.
        read_only: The session changes nothing.

    """
    if operator == (partner is not None):
        raise UnusableError("Say whose account it opens: --operator, or --partner NAME.")
    async with opened(data_dir) as core, core.db.write() as tx:
        context = current_context()
        assert context is not None, "a command says who typed it"
        partner_id = await find_partner_id(tx, partner)
        grant = Grant(partner_id=partner_id, created_by=context.actor, read_only=read_only)
        made = await sessions.create_link(tx, grant, now=clock.now())
    url = f"{_base_url(core.settings)}/console/links/{made.token}"
    if json:
        expires_at = rfc3339(made.expires_at)
        print_json(Link(url=url, expires_at=expires_at, partner_id=partner_id, read_only=read_only))
        return
    say(url)
    note("Open it within 15 minutes. It signs in one browser, once.")


@console.command
async def end_sessions(
    *,
    operator: bool = False,
    partner: Annotated[
        str | None, Parameter(help="The id or name of the partner whose sessions end.")
    ] = None,
    json: Json = False,
    data_dir: DataDir = None,
) -> None:
    """End all sessions of an account at once, and withdraw its links that weren't opened yet.

    Keys and passkeys stay valid, and can begin new sessions.

    Args:
        operator: Those of the operators' account.

    """
    if operator == (partner is not None):
        raise UnusableError("Say whose sessions end: --operator, or --partner NAME.")
    async with opened(data_dir) as core, core.db.write() as tx:
        partner_id = await find_partner_id(tx, partner)
        ended = await sessions.end_all_sessions(tx, partner_id, now=clock.now())
    if json:
        print_json(Ended(partner_id=partner_id, ended=ended))
        return
    note(f"{count_of(ended, 'session')} ended.")


def _base_url(settings: Settings) -> str:
    if settings.public_url is not None:
        return settings.public_url.rstrip("/")
    host = "127.0.0.1" if settings.host in {"0.0.0.0", "::"} else settings.host  # noqa: S104  # every address
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.port}"
