"""Messages of commands that fail: what happened and what to do. Only bugs show a traceback."""

import errno

from mercato_contract.refusals import Problem
from mercato_tools.cli import UNUSABLE, CommandFailedError, UnusableError
from mercato_tools.cli.extensions import Failure, extensions
from mercato_tools.settings import SettingsError


def explain(error: Exception) -> Failure | None:
    """Return the message for an error; None for a bug, which should show its traceback."""
    match error:
        case UnusableError() | SettingsError():
            return Failure(str(error), UNUSABLE)
        case CommandFailedError():
            return Failure(str(error))
        case Problem():
            return Failure("\n".join(said_by(error)))
    for extension in extensions():
        failure = extension.explain(error)
        if failure is not None:
            return failure
    if isinstance(error, OSError):
        cause = error.strerror or str(error) or type(error).__name__
        return Failure(sentence(f"{error.filename}: {cause}" if error.filename else cause))
    return None


def said_by(problem: Problem) -> list[str]:
    """Return the message of each fault, for a reader who sees no `errors`, or else the detail."""
    return list(dict.fromkeys(fault.message for fault in problem.errors)) or [problem.detail]


def sentence(text: str) -> str:
    """Return the text with a capital letter and a full stop."""
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def cannot_listen(error: OSError | UnicodeError, host: str, port: int) -> UnusableError:
    """Return the error for an address that can't be bound; it names the host or the port."""
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.EADDRINUSE:
        return UnusableError(
            f"Port {port} is taken. Choose another one with --port; --port 0 takes a free one."
        )
    if number in {errno.EACCES, errno.EPERM}:
        return UnusableError(f"This user may not listen on port {port}. Choose one above 1023 with --port.")
    return UnusableError(
        f"{host} isn't an address of this machine to listen on. Use 127.0.0.1, or 0.0.0.0 for all."
    )
