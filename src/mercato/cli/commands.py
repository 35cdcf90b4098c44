"""The commands of `mercato`: one line for each, imported when it is called and not before."""

from importlib.metadata import version

from cyclopts import App

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
app.command(
    "mercato.cli.partners:partner",
    name="partner",
    help="Partners: create, list, suspend, delete…",
)
app.command("mercato.cli.keys:key", name="key", help="API keys: create, list, roll, revoke.")
app.command("mercato.cli.secrets:secret", name="secret", help="Signing secrets: rotate, list, reseal.")
app.command(
    "mercato.cli.webhooks:webhooks", name="webhooks", help="Webhooks: list, show, replay, explain, enable."
)
app.command("mercato.cli.listen:listen", name="listen", help="Receive webhooks, verify and forward them.")
app.command("mercato.cli.jobs:job", name="job", help="Background work: list, revive.")
app.command("mercato.cli.catalog:catalog", name="catalog", help="Catalogs: lint, diff, show, import.")
app.command("mercato.cli.url:url", name="url", help="URLs: doctor.")
app.command("mercato.cli.certify:certify", name="certify", help="Certify a merchant or a storefront.")
app.command("mercato.cli.customers:customer", name="customer", help="Customers: erase.")
app.command("mercato.cli.doctor:doctor", name="doctor", help="What is wrong, and what to do about it.")
app.command("mercato.cli.audit:audit", name="audit", help="Who changed what, newest first.")
app.command("mercato.cli.backup:backup", name="backup", help="Copy the embedded database while it is in use.")
app.command("mercato.cli.backup:restore", name="restore", help="Put such a copy in its place.")
app.command("mercato.cli.sandbox:sandbox", name="sandbox", help="Simulated partners: merchant, storefront.")
app.command("mercato.cli.demo:demo", name="demo", help="Tell the whole story in one process, and prove it.")
