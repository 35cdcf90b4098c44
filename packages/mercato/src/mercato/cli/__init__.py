"""The command `mercato`: from arguments to an exit code. `commands` declares what there is."""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Final

FAILED: Final = 1
UNUSABLE: Final = 2
INTERRUPTED: Final = 130
"""The exit code that shells report for a program that Ctrl-C ended."""

_arguments: ContextVar[tuple[str, ...]] = ContextVar("arguments", default=())


def main() -> None:
    """Run the command of `sys.argv` and exit with its code."""
    _open_closed_streams()
    _replace_unencodable()
    code = run(sys.argv[1:])
    if code == INTERRUPTED:
        # A second Ctrl-C while Python exits must not turn the exit code into a signal's.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)


def _open_closed_streams() -> None:
    """Open /dev/null in place of standard streams that the caller has closed, as `>&-` does.

    Otherwise their numbers would go to the next files that are opened, the database among them.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123  # until the end


def _replace_unencodable() -> None:
    """Print question marks for characters that the output's encoding lacks, such as `…` in ASCII."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def command_name() -> str:
    """Return the command that runs, as `key revoke`, without its arguments."""
    from mercato.cli.commands import app

    return " ".join(app.parse_commands(_arguments.get())[0]) or "mercato"


def run(arguments: Sequence[str]) -> int:
    """Return the exit code: 0 done, 1 failed, 2 wrong usage. Standard error says why."""
    _arguments.set(tuple(arguments))
    try:
        plain = find_plain(arguments)
        code = plain() if plain is not None else _parsed(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader closed the pipe: discard what is still to be flushed at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        from mercato.cli.failures import explain

        failure = explain(error)
        if failure is None:
            raise
        print(failure.message, file=sys.stderr)
        return failure.code
    return code if isinstance(code, int) else 0


def _parsed(arguments: Sequence[str]) -> Any:
    """Return what the command returned."""
    from cyclopts import CycloptsError, UnusedCliTokensError

    from mercato.cli.commands import app

    try:
        return app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        what = str(error)
        if isinstance(error, UnusedCliTokensError):
            what = f"Unexpected argument: {' '.join(error.unused_tokens or ())}."
        print(f"{what}\nSee: {' '.join(('mercato', *(error.command_chain or ())))} --help", file=sys.stderr)
        return UNUSABLE


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(text)
    return int(text)


_OPTIONS: Final[dict[str, dict[str, Callable[[str], Any]]]] = {
    "serve": {"--host": str, "--port": _number, "--data-dir": Path, "--workers": _number},
    "worker": {"--data-dir": Path},
}


def find_plain(arguments: Sequence[str]) -> Callable[[], int] | None:
    """Return the function of a `serve` or `worker` with simple arguments, or of the internal `serve-one`.

    They start without the command parser, whose import is a tenth of their start. Return None for anything else, such
    as a mistake, `--help` or `--port=1`: the parser handles it.
    """
    name, *rest = arguments or [""]
    try:
        given = _numbers(rest) if name == "serve-one" else _options(_OPTIONS[name], rest)
    except (KeyError, ValueError):
        return None
    from mercato.cli.processes import start

    what: dict[str, Callable[..., int]] = {
        "serve": start.serve,
        "serve-one": start.serve_one,
        "worker": start.worker,
    }
    return partial(what[name], **given)


def _numbers(rest: Sequence[str]) -> dict[str, int]:
    return dict(zip(("handle", "parent", "place"), map(_number, rest), strict=True))


def _options(known: dict[str, Callable[[str], Any]], rest: Sequence[str]) -> dict[str, Any]:
    """Return the values by parameter. Raises KeyError or ValueError for arguments that aren't simple."""
    given: dict[str, Any] = {}
    for option, value in zip(rest[::2], rest[1::2], strict=True):
        parameter = option.removeprefix("--").replace("-", "_")
        if parameter in given or not value or value.startswith("-"):
            raise ValueError(option)
        given[parameter] = known[option](value)
    return given
