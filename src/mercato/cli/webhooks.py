"""`mercato webhooks`: addresses that webhooks go to."""

from typing import Annotated
from urllib.parse import urlsplit

from cyclopts import App, Parameter

from mercato.cli.console import note
from mercato.cli.options import DataDir, PartnerName
from mercato.cli.session import opened
from mercato.db.audit import audit
from mercato.partners import accounts
from mercato.webhooks.deliveries import enable_below, enable_endpoint

webhooks = App(name="webhooks", help="Webhooks: let a disabled address be called again.")


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
