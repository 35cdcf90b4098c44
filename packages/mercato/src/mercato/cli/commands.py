"""The commands of `mercato`: one line each, imported only when it is called."""

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
    ("serve", "processes.serve:serve", "Serve the API and do the background work."),
    ("worker", "processes.serve:worker", "Do background work alone."),
    ("migrate", "processes.serve:migrate", "Bring the database to this version's schema."),
    ("partner", "partners.partners:partner", "Partners: create, list, suspend, delete…"),
    ("key", "partners.credentials:key", "API keys: create, list, roll, revoke."),
    ("secret", "partners.credentials:secret", "Signing secrets: rotate, list, reseal."),
    ("order", "operations.orders:order", "Orders: list, show, cancel."),
    ("store", "operations.stores:store", "Stores: list, show, pause, resume."),
    ("request", "operations.history:request", "Refused requests: list."),
    ("webhooks", "webhooks.commands:webhooks", "Webhooks: list, show, replay, explain, enable."),
    ("listen", "webhooks.listen:listen", "Receive webhooks, verify and forward them."),
    ("job", "operations.jobs:job", "Background work: list, revive."),
    ("catalog", "catalog.commands:catalog", "Catalogs: lint, diff, show, import."),
    ("price", "price:price", "Prices: verify an order's."),
    ("url", "catalog.url:url", "URLs: doctor."),
    ("certify", "certify.commands:certify", "Certify a merchant or a storefront."),
    ("customer", "operations.orders:customer", "Customers: erase."),
    ("console", "operations.console:console", "The console: sign in, end sessions."),
    ("doctor", "operations.doctor:doctor", "Find what is wrong, and how to fix it."),
    ("audit", "operations.history:audit", "List who changed what, newest first."),
    ("backup", "operations.backup:backup", "Copy the embedded database while it is in use."),
    ("restore", "operations.backup:restore", "Restore a backup made by `mercato backup`."),
    ("db", "db:db", "The database: copy it to another."),
    ("sandbox", "sandbox.commands:sandbox", "Simulated partners: merchant, storefront."),
    ("demo", "sandbox.demo:demo", "Run a whole network in one process, and prove each step."),
):
    app.command(f"mercato.cli.{function}", name=name, help=text)
