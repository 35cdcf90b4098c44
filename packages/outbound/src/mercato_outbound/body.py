"""Response bodies: counted and decoded while they arrive, within limits.

A few kilobytes can decompress to gigabytes, so a decoder returns at most one step of output at a time, and all steps
but the first are made in the documents' thread.
"""

import sys
import zlib
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final, Protocol

import brotli
from aiohttp import ClientResponse, hdrs

from mercato_outbound.document import Document, in_thread

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

STEP = 256 * 1024  # bytes decoded at a time: about a millisecond
MAX_PARTS = 4_096  # gzip members or zstd frames in one body: block-gzip of 128 MiB has 2,048
ZSTD_WINDOW_LOG = 23  # 8 MiB, the most that RFC 9659 lets a web server use
ACCEPT_ENCODING = "zstd, br, gzip"
IDENTITY = "identity"


class BodyFault(StrEnum):
    """Why a body is refused; the value completes the sentence "The server of the … URL …"."""

    UNKNOWN_CODING = f"used a Content-Encoding that is not supported. Use {ACCEPT_ENCODING} or none."
    TOO_MUCH_SENT = "sent more than {max_raw}. Compress or shorten what it sends."
    TOO_MUCH_DECODED = "sent more than {max_decoded}, decompressed. Shorten what it sends."
    DAMAGED = (
        "sent compressed data that cannot be decompressed. "
        "Check that the body is compressed once, as Content-Encoding says."
    )
    CUT_SHORT = "sent compressed data that stops before its end. Check that it sends the whole file."


class BodyRefused(Exception):  # noqa: N818  # a verdict, not an error
    """The rest of the body is not read."""

    def __init__(self, fault: BodyFault) -> None:
        super().__init__(fault.name)
        self.fault = fault


class _Decoder(Protocol):
    """Decodes chunks to pieces of about `STEP` bytes; `complete` is true where a body may end."""

    @property
    def complete(self) -> bool: ...

    def pieces(self, data: bytes) -> Iterator[bytes]: ...


class _Gzip:
    """All members of a gzip body, and the zeros with which some tools pad them."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(wbits=31)
        self._members = 1

    @property
    def complete(self) -> bool:
        return self._member.eof

    def pieces(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._member.eof:
                data = data.lstrip(b"\0")
                if not data:
                    return
                self._next_member()
            yield self._member.decompress(data, STEP)
            data = self._member.unused_data if self._member.eof else self._member.unconsumed_tail

    def _next_member(self) -> None:
        self._members += 1
        if self._members > MAX_PARTS:
            raise BodyRefused(BodyFault.DAMAGED)
        self._member = zlib.decompressobj(wbits=31)


class _Zstd:
    """All frames of a zstd body."""

    def __init__(self) -> None:
        self._frames = 0
        self._frame = self._next_frame()

    @property
    def complete(self) -> bool:
        return self._frame.eof

    def pieces(self, data: bytes) -> Iterator[bytes]:
        while True:
            if self._frame.eof:
                if not data:
                    return
                self._frame = self._next_frame()
            yield self._frame.decompress(data, STEP)
            data = self._frame.unused_data if self._frame.eof else b""
            if not self._frame.eof and self._frame.needs_input:
                return

    def _next_frame(self) -> zstd.ZstdDecompressor:
        self._frames += 1
        if self._frames > MAX_PARTS:
            raise BodyRefused(BodyFault.DAMAGED)
        return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: ZSTD_WINDOW_LOG})


class _Brotli:
    def __init__(self) -> None:
        self._stream = brotli.Decompressor()

    @property
    def complete(self) -> bool:
        return bool(self._stream.is_finished())

    def pieces(self, data: bytes) -> Iterator[bytes]:
        if self.complete and data:
            raise BodyRefused(BodyFault.DAMAGED)
        piece = self._stream.process(data, output_buffer_limit=STEP)
        # The decoder can have more output although it already accepts more input: only an empty piece shows that it has
        # returned everything.
        while piece or not self._stream.can_accept_more_data():
            yield piece
            piece = self._stream.process(b"", output_buffer_limit=STEP)


_DECODERS: dict[str, type[_Decoder]] = {
    "gzip": _Gzip,
    "x-gzip": _Gzip,
    "zstd": _Zstd,
    "br": _Brotli,
}
_BROKEN = (zlib.error, zstd.ZstdError, brotli.error, EOFError)


def coding_of(values: Iterable[str]) -> str:
    """Return the one coding that the values of `Content-Encoding` name. Raises BodyRefused for any other."""
    names = (name.strip().lower() for value in values for name in value.split(","))
    match [name for name in names if name not in {"", IDENTITY}]:
        case []:
            return IDENTITY
        case [coding] if coding in _DECODERS:
            return coding
        case _:
            raise BodyRefused(BodyFault.UNKNOWN_CODING)


class BodyReader:
    """Decodes a body, chunk by chunk, into an empty document. Raises BodyRefused at the first byte beyond a limit.

    The document then holds the body exactly up to the limit.
    """

    def __init__(
        self, coding: str, *, max_raw: int, max_decoded: int, document: Document | None = None
    ) -> None:
        self._decoder: _Decoder | None = None if coding == IDENTITY else _DECODERS[coding]()
        self._max_raw = max_raw
        self._max_decoded = max_decoded
        self.document: Final = document or Document()
        self.raw_size = 0
        self._is_first = True

    async def feed(self, chunk: bytes) -> None:
        """Decode a chunk. Raises BodyRefused."""
        room = self._max_raw - self.raw_size
        self.raw_size += len(chunk)
        if self._decoder is None:
            await self._keep(chunk[:room])
        else:
            try:
                pieces = self._decoder.pieces(chunk[:room])
                while (piece := await self._next(pieces)) is not None:
                    await self._keep(piece)
            except _BROKEN as error:
                raise BodyRefused(BodyFault.DAMAGED) from error
        if len(chunk) > room:
            raise BodyRefused(BodyFault.TOO_MUCH_SENT)

    async def _next(self, pieces: Iterator[bytes]) -> bytes | None:
        # In place, eight bombs would take turns in the event loop for as long as they last.
        if self._is_first:
            self._is_first = False
            return next(pieces, None)
        return await in_thread(next, pieces, None)

    async def _keep(self, piece: bytes) -> None:
        room = self._max_decoded - self.document.size
        await self.document.write(piece if len(piece) <= room else piece[:room])
        if len(piece) > room:
            raise BodyRefused(BodyFault.TOO_MUCH_DECODED)

    def finish(self) -> None:
        """Check that the body is complete. Raises BodyRefused for compressed data that stops before its end."""
        if self.raw_size and self._decoder is not None and not self._decoder.complete:
            raise BodyRefused(BodyFault.CUT_SHORT)


async def read_body(
    response: ClientResponse, document: Document, *, max_raw: int, max_decoded: int
) -> tuple[str, int]:
    """Read the response's body into the document; return its coding and its size in bytes on the wire."""
    coding = coding_of(response.headers.getall(hdrs.CONTENT_ENCODING, ()))
    reader = BodyReader(coding, max_raw=max_raw, max_decoded=max_decoded, document=document)
    # Most bodies arrive with their end: an iterator would suspend once more to find it.
    while not response.content.at_eof():
        await reader.feed(await response.content.readany())
    reader.finish()
    return coding, reader.raw_size
