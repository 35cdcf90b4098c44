"""The command `mercato`: one line for each command here, imported when it is called and not before."""

import os
import sys
from collections.abc import Sequence
from contextvars import ContextVar
from importlib.metadata import version
from typing import Final

from cyclopts import App, CycloptsError

FAILED: Final = 1
UNUSABLE: Final = 2
INTERRUPTED: Final = 130
"""What shells report of a program that Ctrl-C ended."""

_arguments: ContextVar[tuple[str, ...]] = ContextVar("arguments", default=())

app = App(
    name="mercato",
    help="The commerce network you can run yourself.",
    version=lambda: version("mercato"),
    suppress_keyboard_interrupt=False,
)
app.command("mercato.cli.serve:serve", name="serve", help="Serve the API and do the background work.")
app.command("mercato.cli.serve:serve_one", name="serve-one", show=False)
app.command("mercato.cli.serve:worker", name="worker", help="Do background work alone.")
app.command("mercato.cli.serve:migrate", name="migrate", help="Bring the database to this version's schema.")
app.command("mercato.cli.partners:partner", name="partner", help="Partners: create, list, update.")
app.command("mercato.cli.keys:key", name="key", help="API keys: create, list, roll, revoke.")
app.command("mercato.cli.secrets:secret", name="secret", help="Signing secrets: rotate, list.")
app.command(
    "mercato.cli.webhooks:webhooks", name="webhooks", help="Webhooks: list, show, replay, explain, enable."
)
app.command("mercato.cli.listen:listen", name="listen", help="Receive webhooks, verify and forward them.")
app.command("mercato.cli.jobs:job", name="job", help="Background work: list, revive.")
app.command("mercato.cli.catalog:catalog", name="catalog", help="Catalogs: lint, diff, show.")
app.command("mercato.cli.customers:customer", name="customer", help="Customers: erase.")
app.command("mercato.cli.doctor:doctor", name="doctor", help="What is wrong, and what to do about it.")
app.command("mercato.cli.audit:audit", name="audit", help="Who changed what, newest first.")
app.command("mercato.cli.backup:backup", name="backup", help="Copy the embedded database while it is in use.")
app.command("mercato.cli.backup:restore", name="restore", help="Put such a copy in its place.")
app.command("mercato.cli.sandbox:sandbox", name="sandbox", help="Simulated partners: merchant, storefront.")
app.command("mercato.cli.demo:demo", name="demo", help="Tell the whole story in one process, and prove it.")


def main() -> None:
    """Run the command of `sys.argv` and exit with its code."""
    sys.exit(run(sys.argv[1:]))


def command_name() -> str:
    """Return the command that runs, as `key revoke`: what its arguments are is nobody's business."""
    return " ".join(app.parse_commands(_arguments.get())[0]) or "mercato"


def run(arguments: Sequence[str]) -> int:
    """Return the exit code: 0 done, 1 failed, 2 wrongly asked for. Why is told on standard error."""
    _arguments.set(tuple(arguments))
    try:
        code = app(arguments, exit_on_error=False, result_action="return_value")
        sys.stdout.flush()
    except CycloptsError:
        return UNUSABLE  # it has been told already
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has seen enough. What is still to be flushed at exit goes nowhere, without complaint.
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
