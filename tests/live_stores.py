"""Stores that are live when a test begins: copies of the rows of one that went live as every store does.

To register a store, pull and check its catalog, and activate it, costs more than most tests. What that leaves in the
database is read once in a worker for each catalog, and written for every other test with ids, an address and times of
its own. A test of going live itself calls `Service.live`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ColumnElement, Table, select
from tests.service import Client, MerchantServer, Service

from mercato.features.catalogs.codings import CODINGS, compress, decompress
from mercato.features.catalogs.tables import catalog_bodies, catalog_owners, catalog_runs, catalog_sets
from mercato.features.events.log import ALL_KINDS
from mercato.features.partners.credentials import STORES_TOPIC
from mercato.features.stores.cache import publish_change
from mercato.features.stores.events import bind_token
from mercato.features.stores.tables import onboardings, stores
from mercato.platform.db.changes import announce
from mercato.platform.db.engine import Read
from mercato.platform.db.statements import prepared_insert
from mercato.platform.db.tables import audit
from mercato_catalog.model import is_uuid
from mercato_contract import clock

Rows = Sequence[Mapping[str, Any]]

STORED: Final = (audit, onboardings, catalog_owners, catalog_sets, catalog_bodies, catalog_runs, stores)
"""The tables of a live store, each after those that it refers to. The search's are written by its own code."""

_INSERTS: Final = {table: prepared_insert(table) for table in STORED}


@dataclass(frozen=True)
class Template:
    """The rows of a store that is live, and what in them belonged to its test."""

    rows: Mapping[Table, Rows]
    base: str
    partner_id: UUID
    key_id: UUID
    store_id: UUID
    at: datetime


_templates: Final[dict[tuple[str, bool], Template]] = {}


async def live_store(
    mercato: Service, pos: Client, shop: MerchantServer, catalog: Any, *, webhook: bool = True
) -> Any:
    """Return a store that is live with the catalog, at which the merchant's webhooks arrive if it has any.

    A catalog and a section without a UUID get one that is made of the store's. A copy has the first store's, so that a
    pull of the same document makes another set.
    """
    url = shop.host(catalog)
    of = (json.dumps(catalog), webhook)
    template = _templates.get(of)
    if template is None:
        store = await mercato.live(pos, url, webhook=shop.base + "/hooks" if webhook else None)
        if _ids_are_uuids(catalog):
            _templates[of] = await _read(mercato, pos, shop.base, store)
        return store
    copied = await _write(mercato, pos, shop.base, template)
    shop.pulls.append("/catalog.json")
    return (await pos.get(f"/v1/commerce/stores/{copied}")).json()


def _ids_are_uuids(catalog: Any) -> bool:
    """Return whether orders name a catalog's own ids: others get UUIDs that are made of the store's."""
    # A list's entries have their ids inside, or get some.
    return all(
        isinstance(name, str) and is_uuid(name)
        for kind in ("items", "modifierGroups")
        for name in catalog.get(kind, ())
    )


async def _read(mercato: Service, pos: Client, base: str, store: Any) -> Template:
    caller = await mercato.app.callers.get((pos.key or "").encode())
    store_id, onboarding_id, set_id = (
        UUID(store[name]) for name in ("storeId", "onboardingId", "catalogSetId")
    )
    wanted: dict[Table, ColumnElement[bool]] = {
        audit: audit.c.subject_id.in_([str(onboarding_id), str(store_id)]),
        onboardings: onboardings.c.id == onboarding_id,
        catalog_owners: catalog_owners.c.id == onboarding_id,
        catalog_sets: catalog_sets.c.id == set_id,
        catalog_bodies: catalog_bodies.c.set_id == set_id,
        catalog_runs: catalog_runs.c.owner_id == onboarding_id,
        stores: stores.c.id == store_id,
    }
    async with mercato.app.db.read() as tx:
        rows = {table: await _rows(tx, table, wanted[table]) for table in STORED}
    # The publication of the copy is the last change.
    rows[stores] = [row | {"version": row["version"] - 1} for row in rows[stores]]
    assert not any(set_id.bytes in row["body"] for row in rows[catalog_bodies]), (
        "a body that belongs to its set"
    )
    return Template(rows, base, caller.partner_id, caller.key_id, store_id, rows[stores][0]["created_at"])


async def _rows(tx: Read, table: Table, where: ColumnElement[bool]) -> list[dict[str, Any]]:
    return [row._asdict() for row in await tx.all(select(table).where(where))]


async def _write(mercato: Service, pos: Client, base: str, made: Template) -> UUID:
    """Write the rows as the pull and the activation do; return the id of the store."""
    app = mercato.app
    caller = await app.callers.get((pos.key or "").encode())
    now = app.clock()
    copy = Copy(made, caller.partner_id, caller.key_id, base, now - made.at)
    store_id: UUID = copy.value(made.store_id)
    async with app.db.write() as tx:
        for table in STORED:
            for row in made.rows[table]:
                tx.defer(_INSERTS[table], copy.row(row))
        webhook_url = copy.value(made.rows[stores][0]["webhook_url"])
        if webhook_url is not None:
            await bind_token(tx, app.vault, caller.partner_id, webhook_url, token=None)
        await publish_change(tx, store_id, ALL_KINDS, at=now)
        await announce(tx, STORES_TOPIC, str(caller.partner_id))
    return store_id


class Copy:
    """Gives the rows of a template other ids, in the same order, another address, and later times."""

    def __init__(self, made: Template, partner_id: UUID, key_id: UUID, base: str, later: timedelta) -> None:
        every = (value for rows in made.rows.values() for row in rows for value in row.values())
        ids = sorted({value for value in every if isinstance(value, UUID)} - {made.partner_id})
        new = sorted(clock.new_id() for _ in ids)
        self._ids = dict(zip(ids, new, strict=True)) | {made.partner_id: partner_id}
        texts = {str(old): str(new) for old, new in self._ids.items()}
        self._texts = texts | {made.base: base, str(made.key_id): str(key_id)}
        self._later = later
        # The document that is served names its set.
        document = decompress(
            next(row["body"] for row in made.rows[catalog_bodies] if row["coding"] == "zstd"), "zstd"
        )
        self._bodies = compress(self.value(document.decode()).encode())

    def row(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a row of the copy."""
        made = {name: self.value(value) for name, value in row.items()}
        if made.get("coding") in CODINGS:
            made["body"] = self._bodies[made["coding"]]
        return made

    def value(self, value: Any) -> Any:
        """Return a column's value in the copy."""
        if isinstance(value, UUID):
            return self._ids[value]
        if isinstance(value, datetime):
            return value + self._later
        if isinstance(value, str):
            for old, new in self._texts.items():
                value = value.replace(old, new)
        return value
