"""Whether a store accepts orders, and which of its items are sold out."""

from datetime import datetime
from typing import Annotated, Final
from uuid import UUID

import msgspec
from msgspec import Meta, Raw, Struct

from mercato.platform.wire.parts import read_shallow
from mercato_contract.stores import StoreStatusUpdate
from mercato_contract.wire import Wire

NULL: Final = Raw(b"null")


class _SentStatus(Wire):
    status: Annotated[str, Meta(min_length=1)]
    pause_reason: Raw = NULL
    resume_at: Raw = NULL


_read_status: Final = msgspec.json.Decoder(_SentStatus).decode


def read_status_update(body: bytes) -> StoreStatusUpdate:
    """Decode like msgspec, but of a list or an object in place of a text read only its type.

    With `online` these members may hold anything, and msgspec takes a second for 1 MiB of floats.
    """
    sent = _read_status(body)
    return StoreStatusUpdate(
        status=sent.status,
        pause_reason=read_shallow(bytes(sent.pause_reason)),
        resume_at=read_shallow(bytes(sent.resume_at)),
    )


class SoldOut(Struct, frozen=True):
    """An item that is sold out until an instant, or until further notice."""

    item_id: UUID
    until: datetime | None
