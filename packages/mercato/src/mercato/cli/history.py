"""`mercato audit` and `mercato request`: what was changed, and what was refused."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from msgspec import Struct

from mercato.cli.options import PAGE, Limit, OnlyPartner, Since
from mercato.cli.output import Column, format_detail, members_of, print_table_page
from mercato.cli.session import find_partner_id, opened
from mercato.features.partners.queries import find_names, find_prefixes
from mercato.features.requests.queries import Filter, list_refused
from mercato.features.stores.operators import get_store_id
from mercato.platform.db.audit import AuditEntry, list_entries
from mercato.platform.db.engine import Read
from mercato_contract.requests import RefusedRequest
from mercato_contract.wire import parse_uuid
from mercato_tools.cli.options import DataDir, Json, group
from mercato_tools.cli.output import view


class Names(Struct, frozen=True):
    """The names of partners and the prefixes of keys, by their ids."""

    partners: Mapping[UUID, str]
    keys: Mapping[UUID, str]

    def partner(self, entry: AuditEntry) -> str | None:
        return None if entry.partner_id is None else self.partners.get(entry.partner_id)

    def actor(self, entry: AuditEntry) -> str | None:
        """Return the actor with the prefix of its key in place of the id; None if it isn't a key that exists."""
        key_id = _key_of_actor(entry)
        prefix = None if key_id is None else self.keys.get(key_id)
        return None if prefix is None else entry.actor.replace(str(key_id), prefix)

    def subject(self, entry: AuditEntry) -> str | None:
        key_id, partner_id = _subject_id(entry, "key"), _subject_id(entry, "partner")
        if key_id is not None:
            return self.keys.get(key_id)
        return None if partner_id is None else self.partners.get(partner_id)

    def shown_subject(self, entry: AuditEntry) -> str:
        return " ".join(filter(None, (entry.subject_type, self.subject(entry) or entry.subject_id)))


async def _find_names(tx: Read, entries: Sequence[AuditEntry]) -> Names:
    partner_ids = [(entry.partner_id, _subject_id(entry, "partner")) for entry in entries]
    key_ids = [(_key_of_actor(entry), _subject_id(entry, "key")) for entry in entries]
    return Names(
        await find_names(tx, {entry for pair in partner_ids for entry in pair if entry is not None}),
        await find_prefixes(tx, {entry for pair in key_ids for entry in pair if entry is not None}),
    )


def _key_of_actor(entry: AuditEntry) -> UUID | None:
    """Return the id of the key that acted, itself or through the console; None for any other actor."""
    prefix, _, key_id = entry.actor.rpartition(":")
    return parse_uuid(key_id) if prefix in {"key", "console:key"} else None


def _subject_id(entry: AuditEntry, subject_type: str) -> UUID | None:
    if entry.subject_type != subject_type or entry.subject_id is None:
        return None
    return parse_uuid(entry.subject_id)


def _columns(names: Names) -> dict[str, Column]:
    return {
        "At": "at",
        "Who": lambda entry: names.actor(entry) or entry.actor,
        "Partner": lambda entry: names.partner(entry) or entry.partner_id,
        "Did": "action",
        "To": names.shown_subject,
        "Detail": lambda entry: format_detail(entry.detail),
        "Request": "request_id",
    }


def _change(names: Names, entry: AuditEntry) -> dict[str, Any]:
    """Return an entry. A name is null if its partner or key no longer exists, or if it has none."""
    return members_of(
        entry,
        actor_name=names.actor(entry),
        partner_name=names.partner(entry),
        subject_name=names.subject(entry),
    )


async def audit(
    *,
    partner: OnlyPartner = None,
    action: str | None = None,
    since: Since | None = None,
    before: UUID | None = None,
    limit: Limit = PAGE,
    json: Json = False,
    data_dir: DataDir = None,
) -> None:
    """List who changed what, the newest first.

    Args:
        action: Only this operation or command, such as setStoreStatus or 'key revoke'.
        since: Only entries of the last 2d, 12h, …, or since an instant.
        before: Only entries before this one.
        limit: How many entries to list (50; at most 1000).

    """
    async with opened(data_dir) as core, core.db.read() as tx:
        found = await list_entries(
            tx,
            partner_id=await find_partner_id(tx, partner),
            action=action,
            since=since,
            before=before,
            limit=limit + 1,
        )
        names = await _find_names(tx, found)
    print_table_page(
        "entries",
        found,
        _columns(names),
        limit=limit,
        as_json=json,
        entry=partial(_change, names),
        empty="Nothing was changed.",
    )


request = group("request", "Refused requests: list.")


class RefusedEntry(RefusedRequest):
    """A refused request in a list. `partnerId` and `keyId` are null without a valid key."""

    id: UUID
    partner_id: UUID | None
    store_id: UUID | None


@request.command(name="list")
async def list_(
    *,
    code: str | None = None,
    partner: OnlyPartner = None,
    store: str | None = None,
    since: Since | None = None,
    before: UUID | None = None,
    limit: Limit = PAGE,
    json: Json = False,
    data_dir: DataDir = None,
) -> None:
    """List the refused requests of the last 7 days, newest first: of all partners, and without a valid key.

    Args:
        code: Only requests refused with this errorCode, such as VALIDATION_FAILED.
        store: Only requests that name this store: its id, or the beginning of it.
        since: Only requests of the last 2h, 3d, …, or since an instant.
        before: Only requests before this one: an `id` of --json.
        limit: How many requests to list (50; at most 1000).

    """
    async with opened(data_dir) as core, core.db.read() as tx:
        wanted = Filter(
            partner_id=await find_partner_id(tx, partner),
            error_code=None if code is None else code.upper(),
            since=since,
            store_id=None if store is None else await get_store_id(tx, store),
        )
        found = await list_refused(tx, wanted, before=before, limit=limit + 1)
        names = await find_names(
            tx, {refusal.partner_id for refusal in found if refusal.partner_id is not None}
        )
    columns: dict[str, Column] = {
        "At": "at",
        "Status": "status",
        "Code": "error_code",
        "Operation": lambda refusal: refusal.operation or f"{refusal.method} {refusal.path}",
        "ms": "milliseconds",
        "Partner": lambda refusal: names.get(refusal.partner_id, refusal.partner_id),
    }
    print_table_page(
        "requests",
        found,
        columns,
        limit=limit,
        as_json=json,
        entry=partial(view, RefusedEntry),
        empty="No matching requests.",
        cut=("Code", "Operation", "Partner"),
    )
