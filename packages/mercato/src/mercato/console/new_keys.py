"""Making keys in the console: whose descendants they are, and how many an account makes.

The pages Keys and Agents have it: apart from both, since screens don't import each other.
"""

from mercato.console.screen import Visit
from mercato.console.times import say
from mercato.features.partners import credentials, queries
from mercato.features.partners.credentials import MAX_ACTIVE_KEYS, NewKey
from mercato.features.partners.model import AccountError, ApiKey
from mercato.platform.db.engine import Read, Write
from mercato.platform.errors import Forbidden


async def get_parent(tx: Write, visit: Visit) -> ApiKey | None:
    """Return the key of the session, locked, from which the keys that it makes descend. Raises Forbidden."""
    key_id = visit.session.grant.key_id
    if key_id is None:
        return None
    key = await credentials.lock_parent(tx, key_id, now=visit.app.clock())
    if key is None:
        raise Forbidden("The key that began this session has ended. Sign in with a link of another key.")
    return key


def expiry_note(visit: Visit, made: NewKey, parent: ApiKey | None) -> tuple[str, ...]:
    """Return the note for a key that expires with its parent."""
    if parent is None or made.expires_at is None:
        return ()
    at = say(made.expires_at, visit.timezone)
    return (f"It expires on {at}, no later than {parent.prefix}, which began this session.",)


async def check_room(tx: Read, visit: Visit) -> None:
    """Raise AccountError if the partner has as many active keys as the console makes."""
    count = await queries.count_active_keys(tx, visit.partner.id, now=visit.app.clock())
    if count >= MAX_ACTIVE_KEYS:
        raise AccountError(
            f"This account has {count} active keys; the console makes at most {MAX_ACTIVE_KEYS}. "
            "Revoke unused ones."
        )
