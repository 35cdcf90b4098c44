"""The commands of `mercato`: one line for each, imported when it is called and not before."""

from importlib.metadata import version

from cyclopts import App, Parameter

app = App(
    name="mercato",
    help="The commerce network you can run yourself.",
    version=lambda: version("mercato"),
    suppress_keyboard_interrupt=False,
    # A flag is given or not: none has a --no-… beside it.
    default_parameter=Parameter(negative=()),
)
for name, function, text in (
    ("serve", "serve:serve", "Serve the API and do the background work."),
    ("worker", "serve:worker", "Do background work alone."),
    ("migrate", "serve:migrate", "Bring the database to this version's schema."),
    ("partner", "partners:partner", "Partners: create, list, suspend, delete…"),
    ("key", "keys:key", "API keys: create, list, roll, revoke."),
    ("secret", "secrets:secret", "Signing secrets: rotate, list, reseal."),
    ("webhooks", "webhooks:webhooks", "Webhooks: list, show, replay, explain, enable."),
    ("listen", "listen:listen", "Receive webhooks, verify and forward them."),
    ("job", "jobs:job", "Background work: list, revive."),
    ("catalog", "catalog:catalog", "Catalogs: lint, diff, show, import."),
    ("url", "url:url", "URLs: doctor."),
    ("certify", "certify:certify", "Certify a merchant or a storefront."),
    ("customer", "customers:customer", "Customers: erase."),
    ("doctor", "doctor:doctor", "What is wrong, and what to do about it."),
    ("audit", "audit:audit", "Who changed what, newest first."),
    ("backup", "backup:backup", "Copy the embedded database while it is in use."),
    ("restore", "backup:restore", "Restore a backup made by `mercato backup`."),
    ("sandbox", "sandbox:sandbox", "Simulated partners: merchant, storefront."),
    ("demo", "demo:demo", "Tell the whole story in one process, and prove it."),
):
    app.command(f"mercato.cli.{function}", name=name, help=text)
app.command("mercato.cli.serve:serve_one", name="serve-one", show=False)
