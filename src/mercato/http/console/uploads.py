"""Forms with a file, which browsers send as `multipart/form-data`."""

from email.message import Message
from email.parser import BytesParser
from typing import Final

from mercato.kernel.errors import InvalidRequest

KIND: Final = b"multipart/form-data"

MAX_PARTS: Final = 20
"""Fields and files of such a form."""

MAX_HEADER: Final = 1000
"""Bytes of a header that is read: the standard library takes quadratic time for its parameters."""


def read_upload(content_type: bytes, body: bytes) -> list[tuple[str, str]]:
    """Return the form's fields, and of its files the content as text. Raises InvalidRequest."""
    kind = content_type.decode("ascii", "replace")

    class Part(Message):
        """The form, or a part. Only the form has parts: nested ones would take time that grows with their depth."""

        def get_content_type(self) -> str:
            # A part that says the same has the form's boundary, and so no parts.
            return super().get_content_type() if self["content-type"] == kind else "text/plain"

    if len(content_type) > MAX_HEADER:
        raise _unreadable()
    head = Message()
    head["content-type"] = kind
    boundary = f"--{head.get_boundary('')}".encode("ascii", "replace")
    if body.count(boundary) > MAX_PARTS + 1:  # the last one ends the form; parsing many takes half a second
        raise InvalidRequest(f"The form has more than {MAX_PARTS} fields. Send fewer.")
    form = BytesParser(Part).parsebytes(b"Content-Type: " + content_type + b"\r\n\r\n" + body)
    if not form.is_multipart():
        raise _unreadable()
    parts = [part for part in form.walk() if part is not form]
    if len(parts) > MAX_PARTS:
        raise InvalidRequest(f"The form has more than {MAX_PARTS} fields. Send fewer.")
    return [(_name(part), _text(part)) for part in parts]


def _name(part: Message) -> str:
    # Not a text if the name of the file isn't ASCII.
    if len(str(part.get("content-disposition", ""))) > MAX_HEADER:
        raise _unreadable()
    name = part.get_param("name", header="content-disposition")
    if not isinstance(name, str):
        raise _unreadable()
    return name


def _text(part: Message) -> str:
    content = part.get_payload(decode=True)
    return content.decode("utf-8", "replace") if isinstance(content, bytes) else ""


def _unreadable() -> InvalidRequest:
    return InvalidRequest("The form can't be read: it isn't multipart/form-data. Send it again.")
