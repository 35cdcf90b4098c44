"""What a store's reply says in members that aren't read: it may be a refusal in other words.

A reply without a verdict is a yes. These functions only find what its merchant should know: nothing here decides.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import msgspec

from mercato_contract.decoding.walk import read_json
from mercato_contract.json_texts import repair
from mercato_contract.texts import shown

MAX_NAMED: Final = 5
"""Members of each kind that a warning names."""

MAX_DEPTH: Final = 3
"""Levels of objects that are searched for a refusal."""

_VERDICTS: Final = frozenset(
    {
        *("accepted", "accept", "isaccepted", "isvalid", "valid", "success", "successful", "succeeded"),
        *("issuccess", "ok", "okay", "approved", "confirmed", "available", "isavailable"),
    }
)
"""Names whose false value is a no: letters and digits alone, in lower case, as in all of these."""

_FAULTS: Final = frozenset(
    {
        *("error", "errors", "err", "errorcode", "errormessage", "errordescription", "fault", "faults"),
        *("failure", "failed", "haserror", "haserrors", "rejected", "isrejected", "refused", "declined"),
        *("denied", "rejection", "refusal", "rejectreason", "rejectionreason", "refusalreason"),
        *("declinereason",),
    }
)
"""Names whose value is a no, unless it is empty or false."""

_STATES: Final = frozenset(
    {
        *("status", "state", "result", "outcome", "decision", "response", "orderstatus", "orderstate"),
        *("code", "statuscode"),
    }
)
"""Names whose value is a no if it is one of these words, or the status of an error."""

_NOES: Final = frozenset(
    {
        *("rejected", "reject", "refused", "refuse", "declined", "denied", "failed", "failure", "fail"),
        *("error", "invalid", "cancelled", "canceled", "unavailable", "closed", "notaccepted"),
        *("unaccepted", "no", "nok", "notok", "false", "soldout", "outofstock"),
    }
)
_ACCEPTED: Final = frozenset({"accepted", "isaccepted", "accept"})
_DENIALS: Final = frozenset(
    {"rejected", "reject", "refused", "declined", "denied", "notaccepted", "unaccepted"}
)
"""Of those words, what nobody says of an order that the store has already."""

_EMPTY: Final = frozenset({"", "0", "false", "no", "none", "null"})

_FIRST_ERROR: Final = 400


def unread_members(body: bytes, read: Sequence[str]) -> str | None:
    """Return what a reply has besides the members that are read; None if it has one of those, and no refusal.

    The sentence is for the merchant. It has names, and no values.
    """
    try:
        members = read_json(repair(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(members, dict):
        return None
    unread = [name for name in members if name not in read]
    refusals = list(islice(_refusals(members, skipped=read), MAX_NAMED))
    if not unread or (len(unread) < len(members) and not refusals):
        return None
    named = ", ".join(map(shown, unread[:MAX_NAMED]))
    more = " and others" if len(unread) > MAX_NAMED else ""
    looks = ""
    if refusals:
        looks = f" {', '.join(map(shown, refusals))} look{'s' if len(refusals) == 1 else ''} like a refusal."
    return f"The service reads {', '.join(read)}. The answer has {named}{more}.{looks}"


def denies(body: bytes) -> bool:
    """Return whether an object says no in other words: by `accepted` in another spelling, or by a state.

    An `error` doesn't count: the usual answer to an order that the store has already is one.
    """
    try:
        members = read_json(repair(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return isinstance(members, dict) and any(
        (_plain(name) in _ACCEPTED and _is_no(value))
        or (_plain(name) in _STATES and isinstance(value, str) and _plain(value) in _DENIALS)
        for name, value in members.items()
    )


def _refusals(
    members: Mapping[str, Any], *, skipped: Sequence[str] = (), at: str = "", depth: int = MAX_DEPTH
) -> Iterator[str]:
    """Yield pointers to members that look like a refusal."""
    for name, value in members.items():
        if name in skipped:
            continue
        pointer = f"{at}/{name}"
        if _looks_like_refusal(_plain(name), value):
            yield pointer
        elif isinstance(value, dict) and depth > 1:
            yield from _refusals(value, at=pointer, depth=depth - 1)


def _looks_like_refusal(name: str, value: Any) -> bool:
    if name in _VERDICTS:
        return _is_no(value)
    if name in _FAULTS:
        return not _is_empty(value)
    return name in _STATES and _is_bad_state(value)


def _plain(text: str) -> str:
    return "".join(filter(str.isalnum, text)).casefold()


def _is_no(value: Any) -> bool:
    return value == 0 or (isinstance(value, str) and _plain(value) in _NOES | {"0"})


def _is_empty(value: Any) -> bool:
    return not value or (isinstance(value, str) and value.strip().casefold() in _EMPTY)


def _is_bad_state(value: Any) -> bool:
    if isinstance(value, str):
        return _plain(value) in _NOES
    return isinstance(value, int) and not isinstance(value, bool) and value >= _FIRST_ERROR
