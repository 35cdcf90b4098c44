"""The command `mercato`: exit codes and errors here, the way from arguments to a code in `main`."""

from typing import Final

FAILED: Final = 1
UNUSABLE: Final = 2
INTERRUPTED: Final = 130
"""The exit code that shells report for a program that Ctrl-C ended."""


class CommandFailedError(Exception):
    """The command can't do what it should; the message says why: exit code 1."""


class UnusableError(Exception):
    """The arguments, input or environment can't be used: exit code 2."""
