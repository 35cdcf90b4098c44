"""Arguments and options that several commands share. Each command's docstring has the rest of their help."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter, Token

from mercato_tools.cli import UnusableError


def group(name: str, text: str) -> App:
    """Return a group of commands, whose flags have no --no-… form."""
    return App(name=name, help=text, default_parameter=Parameter(negative=()))


def between(option: str, minimum: float, maximum: float, unit: str = "") -> Parameter:
    """Return a parameter that refuses other numbers and NaN."""

    def check(_type: Any, value: float | None) -> None:
        if value is not None and not minimum <= value <= maximum:
            raise UnusableError(f"{option} is from {minimum:g} to {maximum:g}{unit}.")

    return Parameter(validator=check)


def _directory(_type: Any, tokens: Sequence[Token]) -> Path:
    # An empty Path is the current directory, and an unset variable must not put a database there.
    if not tokens[0].value:
        raise ValueError("it is empty, leave it out for the default")
    return Path(tokens[0].value)


def _token(_type: Any, tokens: Sequence[Token]) -> str:
    """Return a token; `@-` keeps it out of the shell's history and the list of processes."""
    text = tokens[0].value
    return sys.stdin.readline().strip() if text == "@-" else text


DataDir = Annotated[
    Path | None, Parameter(converter=_directory, help="Where the embedded database lives (./data).")
]
Json = Annotated[bool, Parameter(name="--json", help="JSON on standard output, for programs.")]
Port = Annotated[int, between("--port", 0, 65_535)]
Source = Annotated[str, Parameter(help="A file, a URL, or - for standard input.", allow_leading_hyphen=True)]
Secrets = Annotated[
    list[str] | None,
    Parameter(help="A signing secret, @FILE, or @- for the first line of standard input; newest first."),
]
BearerToken = Annotated[str | None, Parameter(converter=_token)]
