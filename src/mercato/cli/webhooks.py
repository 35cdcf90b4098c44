"""`mercato webhooks`: what was sent, addresses that it goes to, and why a signature fails."""

import asyncio
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from cyclopts import App, Parameter

from mercato import clock
from mercato.cli import FAILED
from mercato.cli.console import note, print_json
from mercato.cli.failures import UnusableError
from mercato.cli.failures import explain as failure_of
from mercato.cli.options import DataDir, Json, PartnerName
from mercato.cli.pasted import read_secrets, read_webhook
from mercato.cli.plain import folded, say
from mercato.cli.session import opened
from mercato.db.audit import audit
from mercato.partners import accounts
from mercato.partners.model import Caller
from mercato.webhooks.clinic import copies_of, own_secrets
from mercato.webhooks.deliveries import enable_below, enable_endpoint
from mercato.webhooks.explain import Secret, Sent, SignatureExplanation, Webhook, Whose
from mercato.webhooks.explain import explain as explained
from mercato.webhooks.findings import ERROR
from mercato.webhooks.wire import MOST_SECRETS
from mercato.wire import parse_instant

webhooks = App(name="webhooks", help="Webhooks: list, show, replay; explain a signature, enable an address.")
webhooks.command(
    "mercato.cli.deliveries:list_", name="list", help="List webhooks of every partner, newest first."
)
webhooks.command(
    "mercato.cli.deliveries:show", name="show", help="Show one, with every attempt and its answer."
)
webhooks.command("mercato.cli.deliveries:replay", name="replay", help="Send webhooks again.")


@webhooks.command
async def enable(
    partner: PartnerName,
    url: Annotated[str, Parameter(help="A webhookUrl, an event URL, or one address with its suffix.")],
    /,
    *,
    data_dir: DataDir = None,
) -> None:
    """Let an address be called again that was disabled after days of failures, or by its own 410."""
    async with opened(data_dir) as session, session.db.write() as tx:
        owner = await accounts.get_partner_named(tx, partner)
        enabled = [await enable_endpoint(tx, owner.id, url), await enable_below(tx, owner.id, url)]
        if any(enabled):
            # Not the address: what it has after its host may be what grants access.
            detail = {"enabled": True, "host": urlsplit(url).hostname}
            await audit(tx, "endpoint", partner_id=owner.id, detail=detail)
    note(f"{url} is called again." if any(enabled) else f"{url} was not disabled; nothing changed.")


@webhooks.command
def explain(
    message: Annotated[
        str | None,
        Parameter(
            help="A file with the webhook as HTTP: headers, an empty line, body; - or nothing: standard input.",
            allow_leading_hyphen=True,
        ),
    ] = None,
    /,
    *,
    secret: Annotated[
        list[str] | None,
        Parameter(
            help="A signing secret, @FILE, or @- for the first line of standard input; newest first.",
            negative=(),
        ),
    ] = None,
    partner: Annotated[str | None, Parameter(help="Verify with this partner's own secrets.")] = None,
    headers: Annotated[str | None, Parameter(help="A file with the headers alone.")] = None,
    body: Annotated[str | None, Parameter(help="A file with the body alone; - is standard input.")] = None,
    computed: Annotated[str | None, Parameter(help="The signature that your own code came to.")] = None,
    received: Annotated[
        str | None, Parameter(help="When it was received, as 2026-01-31T18:30:00Z (now).")
    ] = None,
    json: Json = False,
    data_dir: DataDir = None,
) -> int:
    """Say what is wrong with a webhook's signature: key, body, headers or clock. No server is needed.

    Exit code 0: the signature is valid; 1: it is not; 2: there is nothing to look at.
    """
    given = read_secrets(secret or ())
    if len(given) > MOST_SECRETS:
        raise UnusableError(f"At most {MOST_SECRETS} secrets are tried.")
    received_at = None if received is None else parse_instant(received)
    if received is not None and received_at is None:
        raise UnusableError("--received must be an instant with an offset, as 2026-01-31T18:30:00Z.")
    if not given and partner is None:
        raise UnusableError(
            "Give the signing secret with --secret, or name a partner of this service with --partner."
        )
    webhook = read_webhook(message, headers=headers, body=body, computed=computed, received_at=received_at)
    own, copies = ([], []) if partner is None else _looked_up(partner, webhook, data_dir)
    tried = [Secret(text, Whose.GIVEN, index) for index, text in enumerate(given)]
    told = explained(webhook, secrets=tried or own, others=own if tried else (), sent=copies, now=clock.now())
    if json:
        print_json(told)
    else:
        _print(told)
    return 0 if told.valid else FAILED


def _looked_up(partner: str, webhook: Webhook, data_dir: Path | None) -> tuple[list[Secret], list[Sent]]:
    """Return what is known of the partner. Raises UnusableError: a signature is not wrong for a database's sake."""
    try:
        return asyncio.run(_known(partner, webhook, data_dir))
    except Exception as error:
        failure = failure_of(error)
        if failure is None:
            raise
        raise UnusableError(failure.message) from None


async def _known(partner: str, webhook: Webhook, data_dir: Path | None) -> tuple[list[Secret], list[Sent]]:
    """Return the partner's secrets, and what it was sent under the webhook's id."""
    async with opened(data_dir) as session, session.db.read() as tx:
        owner = await accounts.get_partner_named(tx, partner)
        secrets = await own_secrets(tx, await session.vault(tx), owner.id, now=clock.now)
        callers = (Caller(owner.id, owner.id, surface, owner.limits) for surface in owner.kind.surfaces)
        copies = [one for caller in callers for one in await copies_of(tx, caller, webhook)]
        return secrets, copies


def _print(told: SignatureExplanation) -> None:
    say("VALID" if told.valid else f"NOT VALID: {told.code}", "")
    if told.valid:
        say(*folded(told.message))
    for one in told.findings:
        mark = "error" if one.level == ERROR else "note"
        say(*folded(one.message, first=f"{mark} [{one.code}] ", indent="  "))
        if one.advice:
            say(*folded(one.advice, first="  -> ", indent="     "))
    if told.difference is not None:
        found = told.difference
        say(
            "",
            f"The bodies differ from byte {found.offset} on (line {found.line}, column {found.column}):",
            f"  signed    {found.signed_bytes:>7} bytes: {found.signed}",
            f"  received  {found.received_bytes:>7} bytes: {found.received}",
        )
