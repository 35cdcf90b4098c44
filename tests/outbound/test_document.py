"""Concurrent pulls take bounded memory and bounded space on the disk."""

import asyncio
import threading
from collections.abc import Callable
from io import BytesIO

import pytest
from tests.waiting import PATIENCE

from mercato_outbound import document as document_module
from mercato_outbound.document import IN_MEMORY, Document, DocumentSpace

PIECE = b"0123456789abcdef" * 4096


async def filled(space: DocumentSpace | None, size: int) -> Document:
    document = space.document() if space is not None else Document()
    while document.size < size:
        await document.write(PIECE[: size - document.size])
    return document


@pytest.mark.parametrize("size", [0, 1, IN_MEMORY, IN_MEMORY + 1, 3 * IN_MEMORY + 17])
@pytest.mark.parametrize("bounded", [True, False], ids=["in files", "in memory"])
async def test_a_document_reads_as_it_was_written(size: int, bounded: bool):
    space = DocumentSpace() if bounded else None
    whole = (PIECE * (size // len(PIECE) + 1))[:size]
    with await filled(space, size) as document:
        assert (document.size, await document.read(), await document.read()) == (size, whole, whole)
        file = await document.file()
        assert file.read() == whole
    if space is not None:
        assert space.reserved == 0


async def test_a_document_keeps_little_in_memory():
    space = DocumentSpace()
    with await filled(space, 8 * IN_MEMORY) as document:
        assert space.reserved > 7 * IN_MEMORY
        assert document._memory.tell() <= IN_MEMORY


async def test_a_cleared_document_has_nothing_of_the_previous_attempt():
    with await filled(DocumentSpace(), 3 * IN_MEMORY) as document:
        document.clear()
        await document.write(b"second")
        assert (document.size, await document.read()) == (6, b"second")


async def test_each_attempt_of_a_document_needs_the_space_of_one():
    space = DocumentSpace(8 * IN_MEMORY)
    with await filled(space, 3 * IN_MEMORY) as document:
        for _ in range(4):
            document.clear()
            await _fill(document, 3 * IN_MEMORY)
        assert space.reserved <= 3 * IN_MEMORY
        async with asyncio.timeout(PATIENCE):
            (await filled(space, 4 * IN_MEMORY)).close()
        await _fill(document, 5 * IN_MEMORY)
        assert space.reserved >= 4 * IN_MEMORY
    assert space.reserved == 0


async def test_a_document_waits_for_space_until_another_is_closed():
    space = DocumentSpace(4 * IN_MEMORY)
    first = await filled(space, 3 * IN_MEMORY)
    second = space.document()
    growing = asyncio.create_task(_fill(second, 3 * IN_MEMORY))
    await asyncio.sleep(0.1)
    assert not growing.done()
    assert space.reserved <= 4 * IN_MEMORY
    first.close()
    async with asyncio.timeout(PATIENCE):
        await growing
    second.close()
    assert space.reserved == 0


async def test_the_oldest_document_never_waits_so_that_one_always_finishes():
    space = DocumentSpace(4 * IN_MEMORY)
    documents = [space.document() for _ in range(4)]
    growing = [asyncio.create_task(_fill(document, 3 * IN_MEMORY)) for document in documents]
    async with asyncio.timeout(PATIENCE):
        for document, task in zip(documents, growing, strict=True):
            await task
            document.close()
    assert space.reserved == 0


async def test_a_cancelled_wait_reserves_no_space():
    space = DocumentSpace(2 * IN_MEMORY)
    first = await filled(space, 2 * IN_MEMORY)
    with space.document() as second, pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await _fill(second, 3 * IN_MEMORY)
    first.close()
    assert space.reserved == 0


async def _fill(document: Document, size: int) -> None:
    while document.size < size:
        await document.write(PIECE)


@pytest.mark.parametrize("end", [Document.close, Document.clear])
async def test_the_event_loop_does_not_wait_until_the_system_has_freed_a_file(
    monkeypatch: pytest.MonkeyPatch, end: Callable[[Document], None]
):
    threads: list[int] = []

    class Observed(BytesIO):
        def truncate(self, size: int | None = None, /) -> int:
            threads.append(threading.get_ident())
            return super().truncate(size)

        def close(self) -> None:
            threads.append(threading.get_ident())
            super().close()

    monkeypatch.setattr(document_module, "_open", Observed)
    document = await filled(DocumentSpace(), 2 * IN_MEMORY)
    end(document)
    await document_module.in_thread(lambda: None)
    assert threads
    assert threading.get_ident() not in threads
    document.close()
