"""`mercato secret`: signing secrets of webhooks."""

from typing import Final
from uuid import UUID

from mercato.cli.options import DataDir, Duration, Json, PartnerName, group
from mercato.cli.output import note, print_json, print_table, view
from mercato.cli.partners.secret_file import OutFile, secret_file
from mercato.cli.session import opened
from mercato.features.partners import accounts
from mercato.features.partners.credentials import OVERLAP
from mercato.features.partners.resealing import reseal as reseal_batch
from mercato_contract.wire import Instant, Wire, redacted

BATCH: Final = 100
"""Partners whose secrets one transaction reseals."""

secret = group("secret", "Signing secrets: rotate, list, reseal.")


@redacted("signing_secret")
class NewSecret(Wire):
    """A partner's new signing secret."""

    partner_id: UUID
    signing_secret: str


@redacted("signing_secret")
class Entry(Wire):
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
    note(f"{count} secrets were encrypted again. All secrets use the first key now.")


@secret.command(name="list")
async def list_(
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
        entries = [view(Entry, stored, secret_id=stored.id, signing_secret=text) for stored, text in listed]
        print_json({"partnerId": owner.id, "secrets": entries})
        return
    rows = [(stored.id, stored.created_at, stored.expires_at, text) for stored, text in listed]
    print_table(("Id", "Created", "Ends", "Secret"), rows, empty="This partner has no signing secret.")
    if not reveal:
        note("Add --reveal to see them.")
