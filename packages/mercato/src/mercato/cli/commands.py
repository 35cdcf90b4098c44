"""The commands of `mercato`: one line each, imported only when it is called.

Apart from the package, because worker processes don't need cyclopts.
"""

from importlib.metadata import version

from cyclopts import App, Parameter

app = App(
    name="mercato",
    help="The commerce network you can run yourself.",
    version=lambda: version("mercato"),
    suppress_keyboard_interrupt=False,
    # Flags have no --no-… form.
    default_parameter=Parameter(negative=()),
)
for name, function, text in (
    ("serve", "serve:serve", "Serve the API and do the background work."),
    ("worker", "serve:worker", "Do background work alone."),
    ("migrate", "serve:migrate", "Bring the database to this version's schema."),
    ("partner", "partners:partner", "Partners: create, list, suspend, delete…"),
    ("key", "credentials:key", "API keys: create, list, roll, revoke."),
    ("secret", "credentials:secret", "Signing secrets: rotate, list, reseal."),
    ("order", "orders:order", "Orders: list, show, cancel."),
    ("store", "stores:store", "Stores: list, show, pause, resume."),
    ("request", "history:request", "Refused requests: list."),
    ("webhooks", "webhooks:webhooks", "Webhooks: list, show, replay, explain, enable."),
    ("notification", "notifications:notification", "Operators' webhooks about partners that fail."),
    ("listen", "listen:listen", "Receive webhooks, verify and forward them."),
    ("job", "jobs:job", "Background work: list, revive."),
    ("catalog", "catalog:catalog", "Catalogs: lint, diff, show, import."),
    ("price", "verify:price", "Prices: verify an order's."),
    ("url", "verify:url", "URLs: doctor."),
    ("certify", "certify:certify", "Certify a merchant or a storefront."),
    ("customer", "orders:customer", "Customers: erase."),
    ("console", "console:console", "The console: sign in, invite people, end sessions."),
    ("doctor", "doctor:doctor", "Find what is wrong, and how to fix it."),
    ("audit", "history:audit", "List who changed what, newest first."),
    ("backup", "copies:backup", "Copy the embedded database while it is in use."),
    ("restore", "copies:restore", "Restore a backup made by `mercato backup`."),
    ("db", "copies:db", "The database: copy it to another."),
    ("sandbox", "sandbox:sandbox", "Simulated partners: merchant, storefront."),
    ("demo", "demo:demo", "Run a whole network in one process, and prove each step."),
):
    app.command(f"mercato.cli.{function}", name=name, help=text)


def describe_in_full(command: App) -> None:
    """Let a command's own help be all of its docstring: the line in its group's list is only for that list."""
    if command.default_command is not None and command is not app:
        command.help = None
