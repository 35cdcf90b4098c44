"""Who did something, in words: the audit trail names actors by texts that programs read."""

from collections.abc import Iterable, Mapping
from typing import Final

from mercato.features.partners.queries import find_prefixes
from mercato.features.sign_in import passkeys
from mercato.features.sign_in.model import ACTOR, PERSON
from mercato.platform.db.engine import Read
from mercato.platform.telemetry.context import SERVICE
from mercato_contract.wire import parse_uuid

_CONSOLE: Final = "console:"
_KEY: Final = "key:"
_PASSKEY: Final = "passkey:"


async def name_actors(tx: Read, actors: Iterable[str]) -> Mapping[str, str]:
    """Return what people read in place of each actor: a person's name, or the beginning of a key."""
    texts = {actor: actor.removeprefix(_CONSOLE) for actor in actors}
    ids = {
        text: parse_uuid(text.partition(":")[2])
        for text in texts.values()
        if text.startswith((_KEY, _PASSKEY))
    }
    keys = {one for text, one in ids.items() if one is not None and text.startswith(_KEY)}
    prefixes = await find_prefixes(tx, keys) if keys else {}
    has_passkeys = any(text.startswith(_PASSKEY) for text in ids)
    names = {one.id: one.name for one in await passkeys.list_all(tx, None)} if has_passkeys else {}

    def words(text: str) -> str:
        known = ids.get(text)
        if known in prefixes:
            return f"key {prefixes[known]}\N{HORIZONTAL ELLIPSIS}"
        if known in names:
            return f"passkey {names[known]}"
        if text.startswith(ACTOR):
            return text.removeprefix(ACTOR).partition(" ")[0]
        return text.removeprefix(PERSON)

    return {actor: named if (named := words(text)) != text else actor for actor, text in texts.items()}


def actor_of(text: str) -> str:
    """Return the actor that somebody means who types a person's name."""
    return text if ":" in text or text == SERVICE else f"{_CONSOLE}{PERSON}{text}"
