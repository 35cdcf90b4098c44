"""Revoking a key, with the keys that descend from it or without: the question, and the answer to it.

A partner's page Keys and the operators' page of a partner have it: apart from both, since screens don't import each
other.
"""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from mercato.console.screen import Question, Visit
from mercato.features.partners import credentials
from mercato.features.partners.model import ApiKey
from mercato.features.sign_in import people
from mercato.features.sign_in.model import Person
from mercato.platform.db.engine import Read, Write
from mercato_contract.wire import Wire

SIGNED_OUT: Final = "It began this session, so you are signed out."


class RevokeForm(Wire):
    """`descendants`: also revoke the keys that were made in the key's console sessions, and remove who was invited."""

    descendants: bool = False


async def ask_to_revoke(tx: Read, visit: Visit, key: ApiKey, *, back: str) -> Question:
    """Return the question, which lists the keys that descend from the key."""
    found = await credentials.list_descendants(tx, key, now=visit.app.clock())
    invited = await people.list_invited_with(tx, key.partner_id, {key.id, *(api_key.id for api_key in found)})
    own: UUID | None = visit.session.grant.key_id
    text = [
        f"Requests with {key.prefix} are permanently refused within 2 seconds. Its console sessions end, too."
    ]
    agents = [made for made in found if made.is_agent_of(key)]
    found = [made for made in found if not made.is_agent_of(key)]
    if agents:
        text.append(f"The agents that it has made are revoked with it: {len(agents)}.")
    if own == key.id:
        text.append(SIGNED_OUT)
    if not found and not invited:
        return Question("Revoke the key?", " ".join(text), back=back)
    text.append(
        "These keys and people descend from it: they were made and invited in its console sessions, and stay."
        if invited
        else "These keys descend from it: they were made in its console sessions, and stay valid."
    )
    also = "Also revoke the keys that descend from it" if found else "Also remove the people"
    if found and invited:
        also += " and remove the people"
    if own in {api_key.id for api_key in found}:
        also += ", one of which began this session"
    return Question(
        "Revoke the key?",
        " ".join(text),
        back=back,
        names=(
            *(_name(api_key) for api_key in found),
            *(f"{api_key.name}, {api_key.role.words}" for api_key in invited),
        ),
        choice=("descendants", also),
    )


async def revoke(tx: Write, visit: Visit, key: ApiKey) -> str:
    """Revoke the key as the form says, and return what was done."""
    clock = visit.app.clock
    revoked = await credentials.revoke_key(tx, key, now=clock)
    done = f"The key {key.prefix} {'is revoked' if revoked else 'was revoked already'}"
    descendants = await credentials.list_descendants(tx, key, now=clock())
    invited = await people.list_invited_with(
        tx, key.partner_id, {key.id, *(descendant.id for descendant in descendants)}
    )
    if visit.fields(RevokeForm).descendants:
        descendants = await credentials.revoke_descendants(tx, key, now=clock)
        for person in invited:
            await people.remove(tx, person)
        counted = _counted(descendants, invited)
        return f"{done}, with {counted} that descended from it." if counted else f"{done}."
    counted = _counted(descendants, invited)
    if not counted:
        return f"{done}."
    verb = "descends" if len(descendants) + len(invited) == 1 else "descend"
    return f"{done}. Still valid: {counted} that {verb} from it."


def _counted(keys: Sequence[ApiKey], invited: Sequence[Person]) -> str:
    counts = [(len(keys), "key", "keys"), (len(invited), "person", "people")]
    return " and ".join(
        f"{count} {one if count == 1 else several}" for count, one, several in counts if count
    )


def _name(key: ApiKey) -> str:
    return key.prefix if key.description is None else f"{key.prefix} ({key.description})"
