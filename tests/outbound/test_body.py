import asyncio
import gzip
import threading
import zlib
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import brotli
import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from mercato_outbound.body import MAX_PARTS, STEP, BodyFault, BodyReader, BodyRefused, coding_of

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "identity": bytes,
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "zstd": zstd.compress,
    "br": brotli.compress,
}
COMPRESSED = [name for name in COMPRESS if name != "identity"]
ROOMY = 64 << 20
BOMBS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zstd": zstd.compress,
    "br": partial(brotli.compress, quality=1),
}


@cache
def bomb(coding: str) -> bytes:
    """Return 24 MiB of zeros; not while tests are collected, which every worker does."""
    return BOMBS[coding](bytes(24 << 20))


async def _read(
    coding: str, raw: bytes, *, size: int, max_raw: int = ROOMY, max_decoded: int = ROOMY
) -> bytes:
    reader = BodyReader(coding, max_raw=max_raw, max_decoded=max_decoded)
    for start in range(0, len(raw), size):
        await reader.feed(raw[start : start + size])
    reader.finish()
    return reader.document.content()


async def _fault(coding: str, raw: bytes, **limits: int) -> BodyFault:
    with pytest.raises(BodyRefused) as refused:
        await _read(coding, raw, size=1 << 16, **limits)
    return refused.value.fault


@pytest.mark.parametrize("coding", COMPRESS)
@given(body=st.binary(max_size=5_000), size=st.integers(1, 700))
async def test_a_body_is_read_the_same_in_any_chunks(coding: str, body: bytes, size: int) -> None:
    assert await _read(coding, COMPRESS[coding](body), size=size) == body


@pytest.mark.parametrize("coding", COMPRESS)
async def test_a_body_of_many_steps_is_read_completely(coding: str) -> None:
    body = bytes(range(256)) * (12 * STEP // 256) + b"end"
    assert await _read(coding, COMPRESS[coding](body), size=1 << 16) == body


@pytest.mark.parametrize("coding", COMPRESS)
async def test_a_body_may_have_exactly_as_many_bytes_as_the_limit(coding: str) -> None:
    body = b"x" * 100_000
    raw = COMPRESS[coding](body)
    exact = {"max_raw": len(raw), "max_decoded": len(body)}
    assert await _read(coding, raw, size=1 << 16, **exact) == body
    assert await _fault(coding, raw, **exact | {"max_decoded": len(body) - 1}) is BodyFault.TOO_MUCH_DECODED


@pytest.mark.parametrize("coding", COMPRESS)
async def test_more_bytes_than_allowed_on_the_wire_are_refused(coding: str) -> None:
    raw = COMPRESS[coding](bytes(1_000))
    fault = await _fault(coding, raw, max_raw=len(raw) - 1)
    assert fault is BodyFault.TOO_MUCH_SENT


@pytest.mark.parametrize("coding", BOMBS)
async def test_a_bomb_is_stopped_at_the_limit_and_nothing_beyond_it_is_kept(coding: str) -> None:
    reader = BodyReader(coding, max_raw=ROOMY, max_decoded=1 << 20)
    with pytest.raises(BodyRefused) as refused:
        await reader.feed(bomb(coding))
    assert refused.value.fault is BodyFault.TOO_MUCH_DECODED
    assert reader.document.content() == bytes(1 << 20)


@pytest.mark.parametrize("coding", BOMBS)
async def test_a_bomb_never_has_more_than_about_one_step_in_memory(coding: str) -> None:
    reader = BodyReader(coding, max_raw=ROOMY, max_decoded=1 << 20)
    assert reader._decoder is not None
    pieces = reader._decoder.pieces(bomb(coding))
    assert max(len(piece) for piece in pieces) <= 2 * STEP


@pytest.mark.parametrize("coding", BOMBS)
async def test_other_tasks_run_while_a_large_body_is_decompressed(coding: str) -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    task = asyncio.create_task(others())
    await BodyReader(coding, max_raw=ROOMY, max_decoded=ROOMY).feed(bomb(coding))
    task.cancel()
    assert turns >= (24 << 20) // (2 * STEP)


@pytest.mark.parametrize("coding", BOMBS)
async def test_no_step_but_the_first_is_decompressed_in_the_event_loops_thread(coding: str) -> None:
    reader = BodyReader(coding, max_raw=ROOMY, max_decoded=ROOMY)
    decoder: Any = reader._decoder
    threads: list[int] = []

    class Observed:
        complete = False

        def pieces(self, data: bytes) -> Iterator[bytes]:
            for piece in decoder.pieces(data):
                threads.append(threading.get_ident())
                yield piece

    reader._decoder = Observed()
    await reader.feed(bomb(coding))
    assert len(threads) >= (24 << 20) // (2 * STEP)
    assert threading.get_ident() not in threads[1:]


@pytest.mark.parametrize("coding", COMPRESSED)
async def test_a_compressed_body_that_stops_before_its_end_is_cut_short(coding: str) -> None:
    raw = COMPRESS[coding](bytes(range(256)) * 50)
    for missing in (1, 4, len(raw) // 2, len(raw) - 1):
        assert await _fault(coding, raw[:-missing]) is BodyFault.CUT_SHORT


@pytest.mark.parametrize("coding", COMPRESSED)
async def test_a_body_that_is_not_compressed_at_all_is_damaged(coding: str) -> None:
    assert await _fault(coding, b'{"items": {}}' * 100) is BodyFault.DAMAGED


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
async def test_a_wrong_checksum_is_damage(coding: str) -> None:
    options = {int(zstd.CompressionParameter.checksum_flag): 1}
    raw = bytearray(
        zstd.compress(b"menu" * 99, options=options) if coding == "zstd" else gzip.compress(b"menu" * 99)
    )
    raw[-5] ^= 0xFF
    assert await _fault(coding, bytes(raw)) is BodyFault.DAMAGED


@pytest.mark.parametrize("coding", COMPRESSED)
async def test_an_empty_body_is_empty_whatever_coding_it_claims(coding: str) -> None:
    assert await _read(coding, b"", size=1) == b""


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
@pytest.mark.parametrize("size", [1, 7, 1 << 16])
async def test_several_members_or_frames_are_one_body(coding: str, size: int) -> None:
    raw = COMPRESS[coding](b"one,") + COMPRESS[coding](b"") + COMPRESS[coding](b"two")
    assert await _read(coding, raw, size=size) == b"one,two"


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
async def test_too_many_empty_members_are_refused(coding: str) -> None:
    assert await _fault(coding, COMPRESS[coding](b"") * (MAX_PARTS + 1)) is BodyFault.DAMAGED


async def test_gzip_may_be_padded_with_zeros_but_with_nothing_else() -> None:
    raw = gzip.compress(b"menu")
    assert await _read("gzip", raw + bytes(600), size=100) == b"menu"
    assert await _fault("gzip", raw + b"junk") is BodyFault.DAMAGED


@pytest.mark.parametrize("size", [3, 1 << 16])
async def test_nothing_may_follow_a_brotli_stream(size: int) -> None:
    with pytest.raises(BodyRefused):
        await _read("br", brotli.compress(b"menu") + b"junk", size=size)


async def test_a_zstd_window_beyond_what_the_web_uses_is_refused() -> None:
    parameter = zstd.CompressionParameter
    options = {int(parameter.window_log): 27, int(parameter.content_size_flag): 0}
    compressor = zstd.ZstdCompressor(options=options)
    raw = compressor.compress(bytes(1 << 20)) + compressor.flush()
    assert await _fault("zstd", raw) is BodyFault.DAMAGED


@pytest.mark.parametrize(
    ("values", "coding"),
    [
        ([], "identity"),
        ([""], "identity"),
        (["identity"], "identity"),
        (["GZIP"], "gzip"),
        (["x-gzip"], "x-gzip"),
        ([" br "], "br"),
        (["zstd", "identity"], "zstd"),
    ],
)
def test_a_coding_is_case_insensitive(values: list[str], coding: str) -> None:
    assert coding_of(values) == coding


@pytest.mark.parametrize("values", [["deflate"], ["compress"], ["gzip, gzip"], ["gzip", "br"], ["x" * 9999]])
def test_codings_that_were_not_accepted_are_refused(values: list[str]) -> None:
    with pytest.raises(BodyRefused) as refused:
        coding_of(values)
    assert refused.value.fault is BodyFault.UNKNOWN_CODING


async def test_raw_deflate_does_not_pass_for_gzip() -> None:
    assert await _fault("gzip", zlib.compress(b"menu")) is BodyFault.DAMAGED
