"""What people have typed of a store that they register in the console, until it is live.

It is kept as it was typed, with what is wrong with it, so that nobody types anything twice: the form is left and taken
up again, by any manager of the partner. The onboarding that is made of it deletes it when it is activated.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import Struct
from sqlalchemy import Row, delete, func, insert, select, update

from mercato.features.partners.queries import lock_active_partner
from mercato.features.stores.tables import registrations
from mercato.platform import processes
from mercato.platform.db.engine import Read, Write
from mercato.platform.errors import Conflict, NotFound
from mercato_contract.wire import Wire, as_json

MAX_REGISTRATIONS: Final = 20
"""Registrations of one partner that aren't live yet."""

MAX_DOCUMENT: Final = 4 * 1024 * 1024
"""Bytes of a menu, compressed, that is kept with a registration."""

Steps = Mapping[str, Mapping[str, str]]
"""By each step that was sent, its fields as they were typed."""


class RegisteredMenu(Wire):
    """What was read of the file of a menu."""

    file: str
    items: int
    sections: int
    currency: str


class Registration(Struct, frozen=True):
    """A registration as it is stored, without the document of its menu."""

    id: UUID
    partner_id: UUID
    steps: Steps
    menu: RegisteredMenu | None
    onboarding_id: UUID | None
    created_at: datetime
    updated_at: datetime


class RegistrationNotFound(NotFound):
    """Another partner's registration, one that was deleted, or one whose store is live."""

    def __init__(self) -> None:
        super().__init__(
            "This account is registering no such store: it is live already, or was deleted. Look among its stores."
        )


class TooManyRegistrations(Conflict):
    """The partner has left as many stores unfinished as are kept."""

    def __init__(self) -> None:
        super().__init__(
            f"{MAX_REGISTRATIONS} stores of this account are being registered. Finish or delete one of them first."
        )


class RegisteredMeanwhile(Conflict):
    """The store was registered between two steps of what was about to change its registration."""

    def __init__(self) -> None:
        super().__init__(
            "The store was registered in another window at the same time. Nothing was changed. Go back, and send it "
            "again."
        )


class RegistrationChanged(Conflict):
    """A step or the menu was saved after what was about to be registered had been read."""

    def __init__(self) -> None:
        super().__init__(
            "This registration was changed in another window at the same time. Nothing was registered. Go back, look "
            "at the steps again, and press Register store."
        )


_KEPT: Final = [column for column in registrations.c if column.name != "document"]
_steps: Final = msgspec.json.Decoder(dict[str, dict[str, str]])
_menu: Final = msgspec.json.Decoder(RegisteredMenu)


async def insert_registration(
    tx: Write, partner_id: UUID, registration_id: UUID, steps: Steps, *, now: datetime
) -> None:
    """Raises TooManyRegistrations, and Forbidden for a partner that is suspended or gone."""
    # Two that are begun at once are counted one after the other.
    await lock_active_partner(tx, partner_id)
    own = select(func.count()).select_from(registrations).where(registrations.c.partner_id == partner_id)
    if await tx.scalar(own) >= MAX_REGISTRATIONS:
        raise TooManyRegistrations
    row = {"id": registration_id, "partner_id": partner_id, "steps": as_json(steps).decode()}
    await tx.execute(insert(registrations).values(row | {"created_at": now, "updated_at": now}))
    processes.crash_point("registration.written")


async def get_registration(
    tx: Read, partner_id: UUID, registration_id: UUID, *, lock: bool = False
) -> Registration:
    """Return the partner's registration; `lock` locks its row until the transaction ends.

    Raises RegistrationNotFound.
    """
    query = select(*_KEPT).where(
        registrations.c.id == registration_id, registrations.c.partner_id == partner_id
    )
    row = await tx.first(query.with_for_update() if lock else query)
    if row is None:
        raise RegistrationNotFound
    return _registration(row)


async def lock_unregistered(tx: Write, kept: Registration) -> Registration:
    """Lock a registration whose onboarding, if it had one, was cancelled, and return it as it is now.

    Raises RegistrationNotFound, RegisteredMeanwhile: an onboarding that nobody cancelled would keep the store's id.
    """
    now = await get_registration(tx, kept.partner_id, kept.id, lock=True)
    if now.onboarding_id not in {None, kept.onboarding_id}:
        raise RegisteredMeanwhile
    return now


async def list_registrations(tx: Read, partner_id: UUID) -> Sequence[Registration]:
    """Return the partner's registrations, newest first: MAX_REGISTRATIONS at most."""
    own = select(*_KEPT).where(registrations.c.partner_id == partner_id)
    rows = await tx.all(own.order_by(registrations.c.id.desc()).limit(MAX_REGISTRATIONS))
    return [_registration(row) for row in rows]


async def save_step(
    tx: Write, kept: Registration, step: str, texts: Mapping[str, str], *, now: datetime
) -> None:
    """Replace the fields of a step of a registration that is locked. Its onboarding, if it had one, was cancelled."""
    steps = as_json({**kept.steps, step: dict(texts)}).decode()
    await _update(tx, kept.id, {"steps": steps, "onboarding_id": None, "updated_at": now})
    processes.crash_point("step.written")


async def save_menu(
    tx: Write, kept: Registration, menu: RegisteredMenu, document: bytes, *, now: datetime
) -> None:
    """Replace the menu of a registration that is locked."""
    values = {"menu": as_json(menu).decode(), "document": document, "onboarding_id": None}
    await _update(tx, kept.id, values | {"updated_at": now})
    processes.crash_point("menu.written")


async def set_onboarding(
    tx: Write, registration_id: UUID, onboarding_id: UUID, *, updated_at: datetime
) -> None:
    """Say which onboarding was made of a registration, as it was when it was last changed at `updated_at`.

    Raises RegistrationChanged.
    """
    read = (registrations.c.id == registration_id, registrations.c.updated_at == updated_at)
    made = await tx.execute(update(registrations).where(*read).values(onboarding_id=onboarding_id))
    if made.rowcount != 1:
        raise RegistrationChanged


async def find_document(tx: Read, registration_id: UUID) -> bytes | None:
    """Return the CatalogSet of a registration's menu, compressed."""
    found: bytes | None = await tx.scalar(
        select(registrations.c.document).where(registrations.c.id == registration_id)
    )
    return found


async def delete_registration(tx: Write, partner_id: UUID, registration_id: UUID) -> None:
    """Raises RegistrationNotFound."""
    own = (registrations.c.id == registration_id, registrations.c.partner_id == partner_id)
    if (await tx.execute(delete(registrations).where(*own))).rowcount != 1:
        raise RegistrationNotFound


async def delete_of_onboarding(tx: Write, onboarding_id: UUID) -> bool:
    """Delete the registration that an onboarding was made of; return whether there was one."""
    made = await tx.execute(delete(registrations).where(registrations.c.onboarding_id == onboarding_id))
    return made.rowcount == 1


async def delete_of_partner(tx: Write, partner_id: UUID) -> None:
    """Delete a partner's registrations."""
    await tx.execute(delete(registrations).where(registrations.c.partner_id == partner_id))


async def _update(tx: Write, registration_id: UUID, values: Mapping[str, object]) -> None:
    await tx.execute(update(registrations).where(registrations.c.id == registration_id).values(dict(values)))


def _registration(row: Row[Any]) -> Registration:
    menu = None if row.menu is None else _menu.decode(row.menu)
    return Registration(**row._asdict() | {"steps": _steps.decode(row.steps), "menu": menu})
