"""Revoking a key, with the keys that descend from it or without: the question, and the answer to it."""

from typing import Final
from uuid import UUID

from mercato.console.screen import Question, Visit
from mercato.features.partners import credentials
from mercato.features.partners.model import ApiKey
from mercato.platform.db.engine import Read, Write
from mercato.platform.texts import count_of
from mercato_contract.wire import Wire

SIGNED_OUT: Final = "It began this session, so you are signed out."


class RevokeForm(Wire):
    """`descendants`: also revoke the keys that were made in the key's console sessions."""

    descendants: bool = False


async def ask_to_revoke(tx: Read, visit: Visit, key: ApiKey, *, back: str) -> Question:
    """Return the question, which lists the keys that descend from the key."""
    found = await credentials.list_descendants(tx, key, now=visit.app.clock())
    own: UUID | None = visit.session.grant.key_id
    text = [
        f"Requests with {key.prefix} are permanently refused within 2 seconds. Its console sessions end, too."
    ]
    if own == key.id:
        text.append(SIGNED_OUT)
    if not found:
        return Question("Revoke the key?", " ".join(text), back=back)
    text.append("These keys descend from it: they were made in its console sessions, and stay valid.")
    also = "Also revoke the keys that descend from it"
    if own in {one.id for one in found}:
        also += ", one of which began this session"
    return Question(
        "Revoke the key?",
        " ".join(text),
        back=back,
        names=tuple(_name(one) for one in found),
        choice=("descendants", also),
    )


async def revoke(tx: Write, visit: Visit, key: ApiKey) -> str:
    """Revoke the key as the form says, and return what was done."""
    clock = visit.app.clock
    revoked = await credentials.revoke_key(tx, key, now=clock)
    done = f"The key {key.prefix} {'is revoked' if revoked else 'was revoked already'}"
    if visit.fields(RevokeForm).descendants:
        count = len(await credentials.revoke_descendants(tx, key, now=clock))
        return f"{done}, with {count_of(count, 'key')} that descended from it."
    count = len(await credentials.list_descendants(tx, key, now=clock()))
    if count == 0:
        return f"{done}."
    return f"{done}. Still valid: {count_of(count, 'key')} that {'descends' if count == 1 else 'descend'} from it."


def _name(key: ApiKey) -> str:
    return key.prefix if key.description is None else f"{key.prefix} ({key.description})"
