"""From arguments to an exit code. `commands` declares what there is."""

import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, Final, NoReturn

from mercato_tools.cli import FAILED, INTERRUPTED, UNUSABLE

if TYPE_CHECKING:  # every command starts without it
    from cyclopts import UnknownCommandError

NEW_OBJECTS: Final = 10_000
"""After how many new objects the collector looks for cycles among them: a few megabytes, in a millisecond. A request
makes hundreds and hardly ever a cycle; at Python's own 700 it looked during every third of them, and all the time while
a command was imported."""

_arguments: ContextVar[tuple[str, ...]] = ContextVar("arguments", default=())


def main() -> None:
    """Run the command of `sys.argv` and exit with its code."""
    exit_with(lambda: run(sys.argv[1:]))


def exit_with(command: Callable[[], int]) -> NoReturn:
    """Exit with the code that the command returns."""
    _open_closed_streams()
    _replace_unencodable()
    gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])
    code = command()
    # What the end of the process frees anyway needs no search.
    gc.disable()
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
    from mercato_tools.cli.commands import app

    return " ".join(app.parse_commands(_arguments.get())[0]) or "mercato"


def run(arguments: Sequence[str]) -> int:
    """Return the exit code: 0 done, 1 failed, 2 wrong usage. Standard error says why."""
    _arguments.set(tuple(arguments))
    return report_failure(lambda: _call(arguments))


def report_failure(command: Callable[[], Any]) -> int:
    """Return the exit code of a command, and print why it failed."""
    try:
        code = command()
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader closed the pipe: discard what is still to be flushed at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        from mercato_tools.cli.failures import explain

        failure = explain(error)
        if failure is None:
            raise
        print(failure.message, file=sys.stderr)
        return failure.code
    return code if isinstance(code, int) else 0


def _call(arguments: Sequence[str]) -> Any:
    """Return what the command of the arguments returned."""
    from cyclopts import CycloptsError, UnknownCommandError, UnusedCliTokensError

    from mercato_tools.cli.commands import MORE, app, describe_in_full

    try:
        for command in app.parse_commands(arguments)[1]:
            describe_in_full(command)
        return app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        summary = str(error)
        if isinstance(error, UnusedCliTokensError):
            summary = f"Unexpected argument: {' '.join(error.unused_tokens or ())}."
        elif isinstance(error, UnknownCommandError):
            summary = _in_a_group(error) or summary
            summary += f"\n{MORE}" if MORE is not None else ""
        print(
            f"{summary}\nSee: {' '.join(('mercato', *(error.command_chain or ())))} --help", file=sys.stderr
        )
        return UNUSABLE


def _in_a_group(error: "UnknownCommandError") -> str | None:
    """Return what to write for a command that is in a group, such as `lint` of `catalog`; None if there is none."""
    from mercato_tools.cli.commands import app

    name = (error.unused_tokens or ("",))[0]
    if error.command_chain or name.startswith("-"):
        return None
    found = [f"mercato {group} {name}" for group in app if not group.startswith("-") and name in app[group]]
    return f'Unknown command "{name}". Did you mean {" or ".join(found)}?' if found else None
