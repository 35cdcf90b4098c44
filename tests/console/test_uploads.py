"""Forms with a file: what browsers send is read; anything else is refused, in a time that its size bounds."""

from collections.abc import Iterator
from contextlib import suppress
from time import thread_time
from typing import Final

import pytest
from tests.calibration import plain_decoding_seconds
from tests.sharing import shared

from mercato.console.forms import MAX_PARTS, read_upload
from mercato_contract.refusals import InvalidRequest

pytestmark = shared

TYPE = b"multipart/form-data; boundary=----WebKitFormBoundaryABC"
NAMED = b'Content-Disposition: form-data; name="file"; filename="a.json"\r\n'


def form(*parts: bytes) -> bytes:
    line = b"------WebKitFormBoundaryABC"
    return b"".join(line + b"\r\n" + part + b"\r\n" for part in parts) + line + b"--\r\n"


@pytest.mark.parametrize(
    "content", ["", "{}", "{\n}\n", "\r\n\r\n{\r}\r\n", "é\u2028\N{PILE OF POO}\x00", "--\r\n"]
)
def test_the_content_of_a_file_is_read_unchanged(content: str):
    body = form(NAMED + b"Content-Type: application/json\r\n\r\n" + content.encode())
    assert read_upload(TYPE, body) == ({"file": content} if content else {})


def test_a_files_name_may_have_any_characters():
    name = 'certificate é \N{PILE OF POO} "1".json'.replace('"', "%22").encode()
    body = form(NAMED.replace(b"a.json", name) + b"\r\n{}")
    assert read_upload(TYPE, body) == {"file": "{}"}


@pytest.mark.parametrize(
    "boundary",
    [b"----geckoformboundary1a2b", b"abc", b'"a b:c"', b"'x'", b'"=_?"', b"x" * 70],
)
def test_a_boundary_of_a_browser_or_a_library_is_read(boundary: bytes):
    body = form(NAMED + b"\r\n{}").replace(b"----WebKitFormBoundaryABC", boundary.strip(b'"'))
    for begin in (b"multipart/form-data; boundary=", b"Multipart/Form-Data ;boundary="):
        assert read_upload(begin + boundary, body) == {"file": "{}"}


UNSENT: Final = (
    *(
        b"",
        b"boundary=",
        b'boundary=""',
        b"boundary",
        b'boundary="a',
        b"boundary=a b",
        b"boundary=a;boundary=b",
    ),
    *(b"boundary*=utf-8''a", b"boundary*=undefined''a", b"boundary*=idna''%ff"),
    *(b"boundary*0=a", b"boundary*0*=a"),
    *(b'boundary="a\nb"', b"boundary=" + b"a" * 71, b"boundary=\xff", b"boundary=a;x=" + b'"' * 60_000),
    *(b"charset=idna; boundary=a", b"boundary*=unicode_escape''a; boundary=a", b" " * 60_000),
)
"""Boundaries, and what else may stand in their place, that no browser sends."""


def test_a_boundary_that_no_browser_sends_is_refused_at_once():
    body = form(NAMED + b"\r\n{}").replace(b"----WebKitFormBoundaryABC", b"a")
    most, slow = plain_decoding_seconds(), []
    for parameters in UNSENT:
        started = thread_time()
        try:
            read_upload(b"multipart/form-data; " + parameters, body)
        except InvalidRequest:
            if thread_time() - started >= most:
                slow.append(parameters[:60])
        else:
            pytest.fail(f"it was read with {parameters[:60]!r}")
    assert slow == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        form(b"Content-Disposition: form-data\r\n\r\n{}"),
        form(b'Content-Disposition: attachment; name="file"\r\n\r\n{}'),
        form(b'Content-Disposition: form-data; name=""\r\n\r\n{}'),
        form(b"Content-Type: text/plain\r\n\r\n{}"),
        form(*[NAMED + b"\r\n{}"] * (MAX_PARTS + 1)),
        form(NAMED + b"\r\n{}")[:-4],
        form(NAMED.replace(b"a.json", b"\xff") + b"\r\n{}"),
        form(b"Content-Disposition: form-data;" + b'";' * 200_000 + b"\r\n\r\n{}"),
    ],
)
def test_what_is_no_form_with_names_is_refused(body: bytes):
    with pytest.raises(InvalidRequest):
        read_upload(TYPE, body)


SIZE: Final = 500_000


def hostile() -> Iterator[bytes]:
    """Yield forms of half a megabyte that cost as much as they can."""
    line = b"\r\n------WebKitFormBoundaryABC"
    for unit in (
        b"\n",
        b"\r",
        b"\r\n",
        b"\r\n-",
        b"\r\n--",
        b"-",
        line[:-1],
        line[:-1] + b"D",
        line,
        line + b"x",
    ):
        content = unit * (SIZE // len(unit))
        yield form(NAMED + b"\r\n" + content)
        yield content
        yield content + form(NAMED + b"\r\n{}")
        yield form(NAMED + b"\r\n{}") + content
        yield form(NAMED + content + b"\r\n{}")
    nested = (b'Content-Type: multipart/mixed; boundary="b%d"\r\n\r\n--b%d\r\n' % (n, n) for n in range(5000))
    yield form(NAMED + b"".join(nested) + b"x\n" * 100_000)
    yield form(*[b"Content-Type: " + TYPE + b"\r\n" + NAMED + b"\r\n{}"] * 2_500)
    yield form(NAMED + b"a: b\r\n" * 80_000 + b"\r\n{}")
    yield form(NAMED + b" a\r\n" * 80_000 + b"\r\n{}")
    for text in ("é", "é; ", "%", '\\"', '"; filename="', ";a=b", ' ;x="'):
        raw = text.encode()
        yield form(NAMED.replace(b"a.json", raw * (SIZE // len(raw))) + b"\r\n{}")
        part = (
            NAMED.replace(b"a.json", raw * (4000 // len(raw))) + b"\r\n" + b"x" * (SIZE // MAX_PARTS - 5000)
        )
        yield form(*[part] * MAX_PARTS)
    yield form(*[NAMED + b"\r\n{}"] * 5_000)
    yield form(NAMED + b"Content-Transfer-Encoding: base64\r\n\r\n" + b"=" * SIZE)
    yield form(NAMED + b"Content-Length: " + b"9" * 4000 + b"\r\n\r\n" + b"=" * SIZE)
    yield form(NAMED + b"\r\n" + b"\xff" * SIZE)
    yield form(NAMED + b"\r\n" + b"\xe2\x98" * (SIZE // 2))
    yield b"------WebKitFormBoundaryABC\r\n\r\n" * (SIZE // 31)


@pytest.mark.parametrize("boundary", [b"----WebKitFormBoundaryABC", b"a", b"-", b'"-- --"', b"-" * 70])
def test_no_upload_costs_more_than_two_ordinary_documents(boundary: bytes):
    most, slow = 2 * plain_decoding_seconds(), []
    for body in hostile():
        sent = body.replace(b"----WebKitFormBoundaryABC", boundary.strip(b'"'))
        # Other load only makes a run slower, so the fastest counts.
        best = float("inf")
        for _ in range(3):
            best = min(best, seconds_to_read(b"multipart/form-data; boundary=" + boundary, sent))
            if best <= most:
                break
        else:
            slow.append((best / most * 2, body[:200]))
    assert slow == []


def seconds_to_read(content_type: bytes, body: bytes) -> float:
    started = thread_time()
    with suppress(InvalidRequest):
        read_upload(content_type, body)
    return thread_time() - started


def test_a_form_of_countless_parts_is_refused():
    with pytest.raises(InvalidRequest, match="more than 20 fields"):
        read_upload(TYPE, form(*[NAMED + b"\r\n{}"] * 5_000))
