"""Files that hold keys and secrets: readable by their owner alone, and ignored by git."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import msgspec
from cyclopts import Parameter

from mercato.cli.console import note
from mercato.cli.failures import UnusableError
from mercato.wire import Wire

OutFile = Annotated[
    Path | None,
    Parameter(name="--out", help="Write the JSON to this new file, which only you can read and git ignores."),
]

_SPECIAL: Final = re.compile(r"([\\*?\[\]!# ])")
"""What a line of git's exclude file reads as a pattern."""


@contextmanager
def private_file(path: Path | None) -> Iterator[Callable[[Wire], None] | None]:
    """Make the file before the secret is made, and yield what writes it; nothing without a path.

    The file is removed if the block raises. Raises UnusableError where it can't be made, or is there already.
    """
    if path is None:
        yield None
        return
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise UnusableError(
            f"{path} exists already, and may hold keys that are shown nowhere else. Name another file."
        ) from None
    except OSError as error:
        raise UnusableError(f"{path} cannot be written: {error.strerror}.") from None
    with os.fdopen(handle, "wb") as file:
        try:
            yield lambda value: _write(file.write, value)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
    ignored = _ignore(path.absolute())
    note(f"Written to {path}: only you can read it{', and git ignores it' if ignored else ''}.")


def _write(write: Callable[[bytes], int], value: Wire) -> None:
    write(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")


def _ignore(path: Path) -> bool:
    """Have git ignore the file in this clone alone; return whether there is a clone and it does."""
    root = next((one for one in path.parents if (one / ".git").is_dir()), None)
    if root is None:
        return False
    exclude = root / ".git/info/exclude"
    line = "/" + _SPECIAL.sub(r"\\\1", path.relative_to(root).as_posix())
    try:
        exclude.parent.mkdir(exist_ok=True)
        known = exclude.read_text() if exclude.exists() else ""
        if line not in known.splitlines():
            with exclude.open("a") as file:
                file.write(f"{'' if known.endswith(chr(10)) or not known else chr(10)}{line}\n")
    except OSError:
        return False
    return True
