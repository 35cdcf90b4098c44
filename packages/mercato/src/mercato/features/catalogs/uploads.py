"""Documents that partners send: compressed while they arrive, kept in the database until their runs have read them.

A piece has at most a megabyte, so that neither the request nor the run ever holds a document. A draft is such a
document before somebody publishes it: it has no run yet, and is kept under an id of its own.
"""

import sys
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from sqlalchemy import bindparam, delete, exists, func, insert, select, update

from mercato.features.catalogs.errors import DraftNotFound
from mercato.features.catalogs.tables import catalog_runs as runs
from mercato.features.catalogs.tables import catalog_uploads as uploads
from mercato.platform.db.engine import Database, Read, Write
from mercato.platform.db.statements import prepared
from mercato.platform.errors import RateLimited
from mercato.platform.slots import Slots
from mercato_contract.clock import first_id
from mercato_outbound.document import Document, in_thread

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MiB: Final = 1024 * 1024

CONCURRENCY: Final = 2
"""Documents of one partner that a process receives at a time."""

MAX_KEPT: Final = 64 * MiB
"""Compressed bytes of one partner's documents that wait for their runs; the last one may exceed it."""

STEP: Final = 256 * 1024
"""Bytes that are compressed at a time: in the documents' thread, which large documents thereby share."""

LEVEL: Final = 3

RETRY_AFTER: Final = 2
"""Seconds for Retry-After when a partner sends too many at a time."""

Receive = Callable[[Callable[[bytes], Awaitable[None]]], Awaitable[None]]
"""Reads a request's body and passes each chunk to the function."""

_SIZE_KEPT: Final = prepared(
    select(func.coalesce(func.sum(uploads.c.size), 0)).where(uploads.c.partner_id == bindparam("partner_id"))
)
_PIECE: Final = select(uploads.c.body).where(
    uploads.c.run_id == bindparam("of_run"), uploads.c.place == bindparam("at_place")
)
_DELETE: Final = prepared(delete(uploads).where(uploads.c.run_id == bindparam("of_run")))


DRAFTS: Final = 5
"""Drafts of one partner that are kept: the newest."""

DRAFT_KEPT: Final = timedelta(hours=1)
"""How long a draft is kept at least."""

_HAS_NO_RUN: Final = ~exists().where(runs.c.id == uploads.c.run_id)
_CLAIM: Final = prepared(
    update(uploads)
    .where(
        uploads.c.run_id == bindparam("of_draft"),
        uploads.c.partner_id == bindparam("of_partner"),
        _HAS_NO_RUN,
    )
    .values(run_id=bindparam("to_run"))
)


class UploadGoneError(Exception):
    """The document of a run is no longer kept."""

    message = "The document that was sent is no longer kept. Send it again."


def receiving_slots() -> Slots:
    """Count the documents that a process receives."""
    return Slots(
        CONCURRENCY,
        full=f"{CONCURRENCY} catalogs of this account are being received. Wait until one has arrived.",
        retry_after=RETRY_AFTER,
    )


async def receive_into(document: Document, receive: Receive) -> None:
    """Read a body and write it, compressed, into the document. Raises what `receive` raises."""
    compressor = zstd.ZstdCompressor(level=LEVEL)
    waiting = bytearray()

    async def write(chunk: bytes) -> None:
        nonlocal waiting
        waiting += chunk
        if len(waiting) >= STEP:
            step, waiting = waiting, bytearray()
            await document.write(await in_thread(compressor.compress, step))

    await receive(write)
    # The rest is short: it takes about a millisecond.
    await document.write(compressor.compress(waiting) + compressor.flush())


async def check_room(tx: Read, partner_id: UUID) -> None:
    """Raise RateLimited if the partner's documents that wait for their runs have too many bytes together."""
    if int(await tx.scalar(_SIZE_KEPT, {"partner_id": partner_id})) >= MAX_KEPT:
        raise RateLimited(
            f"{MAX_KEPT:,} bytes of this account's catalogs wait for their runs. Poll these runs, then send again.",
            retry_after=RETRY_AFTER,
        )


async def insert_upload(tx: Write, run_id: UUID, partner_id: UUID, document: Document) -> None:
    """Keep a compressed document until its run has read it."""
    place = 0
    async for piece in document.pieces():
        row = {"run_id": run_id, "place": place, "partner_id": partner_id, "size": len(piece), "body": piece}
        # Not prepared: a megabyte is written in a thread.
        await tx.execute(insert(uploads).values(row))
        place += 1


async def read_upload(db: Database, run_id: UUID, document: Document) -> None:
    """Write the document of a run into an empty one. Raises UploadGoneError."""
    decompressor = zstd.ZstdDecompressor()
    place = 0
    while True:
        async with db.read() as tx:
            piece = await tx.scalar(_PIECE, {"of_run": run_id, "at_place": place})
        if piece is None:
            break
        place += 1
        while True:
            part = await in_thread(decompressor.decompress, piece, STEP)
            await document.write(part)
            if decompressor.eof or decompressor.needs_input:
                break
            piece = b""
    if not decompressor.eof:
        raise UploadGoneError


# --- drafts -------------------------------------------------------------------------------------------------


async def insert_draft(tx: Write, draft_id: UUID, partner_id: UUID, document: Document) -> None:
    """Keep a compressed document until it is published, and delete the partner's oldest drafts beyond DRAFTS."""
    own = select(uploads.c.run_id).where(
        uploads.c.partner_id == partner_id, uploads.c.place == 0, _HAS_NO_RUN
    )
    kept = [row.run_id for row in await tx.all(own.order_by(uploads.c.run_id.desc()))]
    for old in kept[DRAFTS - 1 :]:
        await delete_upload(tx, old)
    await insert_upload(tx, draft_id, partner_id, document)


async def claim_draft(tx: Write, draft_id: UUID, partner_id: UUID, run_id: UUID) -> None:
    """Make a partner's draft the document of a run, once. Raises DraftNotFound."""
    row = {"of_draft": draft_id, "of_partner": partner_id, "to_run": run_id}
    if not (await tx.execute(_CLAIM, row)).rowcount:
        raise DraftNotFound


async def prune_drafts(tx: Write, *, before: datetime, limit: int) -> int:
    """Delete drafts that were kept before an instant; return how many."""
    old = select(uploads.c.run_id).where(
        uploads.c.run_id < first_id(before), uploads.c.place == 0, _HAS_NO_RUN
    )
    ids = [row.run_id for row in await tx.all(old.limit(limit))]
    for draft_id in ids:
        await delete_upload(tx, draft_id)
    return len(ids)


async def delete_upload(tx: Write, run_id: UUID) -> None:
    """Delete the document of a run, if it has one."""
    await tx.execute(_DELETE, {"of_run": run_id})


async def delete_uploads_of(tx: Write, owner_id: UUID) -> None:
    """Delete the documents of an owner's runs."""
    of_owner = select(runs.c.id).where(runs.c.owner_id == owner_id)
    await tx.execute(delete(uploads).where(uploads.c.run_id.in_(of_owner)))
