"""What the service adds to the command `mercato`: its commands, its errors, and what its database knows.

The tools read it at every start: imported later is what a call needs.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from mercato_tools.cli.extensions import Command, Extension, Failure, Signer

if TYPE_CHECKING:
    from mercato_contract.debugger.explain import Secret, SentDelivery, Webhook


def _explain(error: Exception) -> Failure | None:
    from mercato.cli.failures import explain

    return explain(error)


def _look_up(
    partner: str, webhook: "Webhook | None", data_dir: Path | None
) -> tuple[list["Secret"], list["SentDelivery"]]:
    from mercato.cli.partner_secrets import look_up

    return look_up(partner, webhook, data_dir)


def _get_signer(data_dir: Path | None) -> Signer:
    from mercato.cli.reports import get_signer

    return get_signer(data_dir)


SERVICE: Final = Extension(
    commands=tuple(
        Command(name, f"mercato.cli.{function}", text)
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
            ("job", "jobs:job", "Background work: list, revive."),
            ("certify", "certify:certify", "Certify a merchant or a storefront."),
            ("customer", "orders:customer", "Customers: erase."),
            ("console", "console:console", "The console: sign in, invite people, end sessions."),
            ("doctor", "doctor:doctor", "Find what is wrong, and how to fix it."),
            ("audit", "history:audit", "List who changed what, newest first."),
            ("backup", "copies:backup", "Copy the embedded database while it is in use."),
            ("restore", "copies:restore", "Restore a backup made by `mercato backup`."),
            ("db", "copies:db", "The database: copy it to another."),
            ("demo", "demo:demo", "Run a whole network in one process, and prove each step."),
        )
    ),
    explain=_explain,
    look_up=_look_up,
    get_signer=_get_signer,
)
