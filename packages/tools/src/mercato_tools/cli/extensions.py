"""What other distributions add to the command `mercato`, by an entry point of the group `mercato.commands`.

The service adds its commands, and what only its database knows. Without it, the commands that ask for that say so.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct

from mercato_tools.cli import FAILED, UnusableError

if TYPE_CHECKING:  # every command starts without them
    from mercato_contract.certification import Report, SignedReport
    from mercato_contract.debugger.explain import Secret, SentDelivery, Webhook

GROUP: Final = "mercato.commands"


class Command(Struct, frozen=True):
    """A command or group of commands; `function`, as `module:name`, is imported when it is called."""

    name: str
    function: str
    help: str


class Failure(Struct, frozen=True):
    """The text for standard error, and the exit code."""

    message: str
    code: int = FAILED


class Signer(Protocol):
    """Signs reports with the key of an installation; its text says which key that is."""

    def sign(self, report: "Report") -> "SignedReport": ...


@dataclass(frozen=True, kw_only=True)
class Extension:
    """What one distribution adds. Commands replace those of the same name.

    A dataclass, because it names types that are imported later.
    """

    commands: tuple[Command, ...]

    explain: Callable[[Exception], Failure | None]
    """Return the message for an error that its commands raise, None for any other."""

    look_up: Callable[[str, "Webhook | None", Path | None], tuple[list["Secret"], list["SentDelivery"]]]
    """Return a partner's secrets and what was sent under a webhook's id, from the database of a data directory."""

    get_signer: Callable[[Path | None], Signer]
    """Return the signer of a data directory. Raises UnusableError."""


@cache
def extensions() -> tuple[Extension, ...]:
    return tuple(entry.load() for entry in entry_points(group=GROUP))


def get_service(option: str, instead: str) -> Extension:
    """Return what the service adds. Raises UnusableError, which names the option and what to do without."""
    for extension in extensions():
        return extension
    raise UnusableError(
        f"{option} needs the service, which isn't installed here. {instead} Or install it: pip install mercato"
    )
