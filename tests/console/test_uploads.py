"""Forms with a file: what browsers send is read; anything else is refused, in a time that its size bounds."""

from contextlib import suppress

import pytest
from tests.calibration import cpu_within

from mercato.http.console.uploads import MAX_PARTS, read_upload
from mercato.kernel.errors import InvalidRequest

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
    assert read_upload(TYPE, body) == [("file", content)]


def test_a_files_name_may_have_any_characters():
    name = 'certificate é \N{PILE OF POO} "1".json'.replace('"', "%22").encode()
    body = form(NAMED.replace(b"a.json", name) + b"\r\n{}")
    assert read_upload(TYPE, body) == [("file", "{}")]


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        (b"multipart/form-data", form(NAMED + b"\r\n{}")),
        (TYPE, b""),
        (TYPE, form(b"Content-Disposition: form-data\r\n\r\n{}")),
        (TYPE, form(*[NAMED + b"\r\n{}"] * (MAX_PARTS + 1))),
        (TYPE + b";a=" + b'"' * 2000, form(NAMED + b"\r\n{}")),
        (TYPE, form(b"Content-Disposition: form-data;" + b'";' * 200_000 + b"\r\n\r\n{}")),
    ],
)
def test_what_is_no_form_with_names_is_refused(content_type: bytes, body: bytes):
    with pytest.raises(InvalidRequest):
        read_upload(content_type, body)


def _nested() -> bytes:
    kinds = (b'Content-Type: multipart/mixed; boundary="b%d"\r\n\r\n--b%d\r\n' % (n, n) for n in range(5000))
    return form(NAMED + b"".join(kinds) + b"x\n" * 100_000)


@pytest.mark.parametrize(
    "body",
    [
        _nested(),
        form(*[b"Content-Type: " + TYPE + b"\r\n" + NAMED + b"\r\n{}"] * 2_500),
        form(NAMED + b"\r\n" + b"\n" * 500_000),
        form(NAMED + b"a: b\r\n" * 80_000 + b"\r\n{}"),
        form(NAMED.replace(b"a.json", "é".encode() * 240_000) + b"\r\n{}"),
        form(NAMED.replace(b"a.json", "é; ".encode() * 120_000) + b"\r\n{}"),
        form(*[NAMED + b"\r\n{}"] * 5_000),
        form(NAMED + b"Content-Transfer-Encoding: base64\r\n\r\n" + b"=" * 500_000),
    ],
)
def test_no_form_within_the_limit_takes_long(body: bytes):
    with cpu_within(100), suppress(InvalidRequest):
        read_upload(TYPE, body)


def test_a_form_of_countless_parts_is_refused_before_it_is_parsed():
    body = b"--x\r\n\r\n" * 70_000
    with cpu_within(1), pytest.raises(InvalidRequest, match="more than 20 fields"):
        read_upload(b"multipart/form-data; boundary=x", body)
