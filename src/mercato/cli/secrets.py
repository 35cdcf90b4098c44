"""`mercato secret`: what webhooks are signed with."""

from typing import Annotated, Final
from uuid import UUID

from cyclopts import App, Parameter

from mercato.cli.console import note, print_facts, print_json, print_table
from mercato.cli.options import DataDir, Duration, Json, PartnerName
from mercato.cli.private import OutFile, private_file
from mercato.cli.session import opened
from mercato.partners import accounts
from mercato.partners.credentials import OVERLAP
from mercato.partners.resealing import reseal as reseal_some
from mercato.wire import Instant, Wire, instant, redacted

BATCH: Final = 100
"""Partners whose secrets one transaction seals anew."""

secret = App(name="secret", help="Signing secrets: what webhooks are signed with.")


@redacted("signing_secret")
class Made(Wire):
    """A partner's new signing secret."""

    partner_id: UUID
    signing_secret: str


@redacted("signing_secret")
class Entry(Wire):
    """A signing secret in a list; its text only when asked for."""

    secret_id: UUID
    created_at: Instant | None
    expires_at: Instant | None
    signing_secret: str | None


class Entries(Wire):
    """The secrets that sign now, the newest first."""

    partner_id: UUID
    secrets: list[Entry]


@secret.command
async def rotate(
    partner: PartnerName,
    /,
    *,
    overlap: Annotated[Duration, Parameter(help="How long the old one signs as well.")] = OVERLAP,
    out: OutFile = None,
    json: Json = False,
    data_dir: DataDir = None,
) -> None:
    """Make a new signing secret; until the overlap (24h) is over webhooks are signed with both."""
    with private_file(out) as write:
        async with opened(data_dir) as session, session.db.write() as tx:
            owner = await accounts.get_partner_named(tx, partner)
            vault = await session.vault(tx)
            text = await accounts.rotate_signing_secret(tx, vault, owner.id, overlap=overlap)
        if write is not None:
            write(Made(partner_id=owner.id, signing_secret=text))
            return
    if json:
        print_json(Made(partner_id=owner.id, signing_secret=text))
    else:
        print_facts(("Signing secret", text))


@secret.command
async def reseal(*, data_dir: DataDir = None) -> None:
    """Encrypt all stored secrets with the first of the encryption keys, so that the others can be taken away.

    Servers must know that key already. Run it again at any time: what is done stays done.
    """
    count, after, more = 0, None, True
    async with opened(data_dir) as session:
        async with session.db.read() as tx:
            vault = await session.vault(tx)
        while more:
            async with session.db.write() as tx:
                done = await reseal_some(tx, vault, after=after, limit=BATCH)
            count, after, more = count + done.count, done.last, done.last is not None
    note(f"{count} secrets were encrypted anew. Every one has the first key now.")


@secret.command(name="list")
async def list_(
    partner: PartnerName,
    /,
    *,
    reveal: Annotated[bool, Parameter(negative=(), help="Show the secrets themselves.")] = False,
    json: Json = False,
    data_dir: DataDir = None,
) -> None:
    """List the secrets that sign a partner's webhooks now, the newest first."""
    async with opened(data_dir) as session, session.db.read() as tx:
        owner = await accounts.get_partner_named(tx, partner)
        found = await accounts.list_signing_secrets(tx, owner.id)
        texts: list[str | None] = [None] * len(found)
        if reveal:
            texts = [*await accounts.get_signing_secrets(tx, await session.vault(tx), owner.id)]
    entries = [
        Entry(
            secret_id=one.id,
            created_at=instant(one.created_at),
            expires_at=instant(one.expires_at),
            signing_secret=text,
        )
        for one, text in zip(found, texts, strict=True)
    ]
    if json:
        print_json(Entries(partner_id=owner.id, secrets=entries))
        return
    rows = [(one.secret_id, one.created_at, one.expires_at, one.signing_secret) for one in entries]
    print_table(("Id", "Created", "Ends", "Secret"), rows, empty="This partner has no signing secret.")
    if not reveal:
        note("Add --reveal to see them.")
