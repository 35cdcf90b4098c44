"""New keys and secrets, shown once: on the screen, as JSON, or in a file that only its owner can read."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final

from cyclopts import Parameter

from mercato.cli import UnusableError
from mercato.cli.output import indented, note, print_facts, print_json
from mercato_contract.wire import Wire

OutFile = Annotated[
    Path | None,
    Parameter(name="--out", help="Write the JSON to this new file, which only you can read and git ignores."),
]

_GIT_PATTERN: Final = re.compile(r"([\\*?\[\]!# ])")
"""Characters that are part of a pattern in git's exclude file."""


class SecretFile:
    """Writes a new secret to a file, to standard output as JSON, or to the screen."""

    def __init__(self, file: BinaryIO | None = None) -> None:
        self._file = file

    def show(self, value: Wire, *facts: tuple[str, Any], json: bool, warning: str = "") -> None:
        """Write or print the secret; `facts` and `warning` are for the screen."""
        if self._file is not None:
            self._file.write(indented(value))
        elif json:
            print_json(value)
        else:
            print_facts(*facts)
            if warning:
                note(warning)


@contextmanager
def secret_file(path: Path | None) -> Iterator[SecretFile]:
    """Create the file before the secret, readable by its owner alone and ignored by git.

    The file is removed if the block raises. Raises UnusableError if it exists or can't be created.
    """
    if path is None:
        yield SecretFile()
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
            yield SecretFile(file)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
    ignored = _exclude_from_git(path.absolute())
    note(f"Written to {path}: only you can read it{', and git ignores it' if ignored else ''}.")


def _exclude_from_git(path: Path) -> bool:
    """Add the file to this clone's exclude file; return whether git ignores it now."""
    root = next((parent for parent in path.parents if (parent / ".git").is_dir()), None)
    if root is None:
        return False
    exclude = root / ".git/info/exclude"
    line = "/" + _GIT_PATTERN.sub(r"\\\1", path.relative_to(root).as_posix())
    try:
        exclude.parent.mkdir(exist_ok=True)
        known = exclude.read_text() if exclude.exists() else ""
        if line not in known.splitlines():
            with exclude.open("a") as file:
                file.write(f"{'' if known.endswith(chr(10)) or not known else chr(10)}{line}\n")
    except OSError:
        return False
    return True
