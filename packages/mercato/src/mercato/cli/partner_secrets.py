"""What the database knows of a partner's webhooks: its secrets, and what was sent."""

import asyncio
from pathlib import Path

from mercato.cli.session import opened
from mercato.features.partners import accounts
from mercato.features.partners.model import Caller
from mercato.features.webhooks.explanations import list_copies, list_own_secrets
from mercato_contract import clock
from mercato_contract.debugger.explain import Secret, SentDelivery, Webhook


def look_up(
    partner: str, webhook: Webhook | None, data_dir: Path | None
) -> tuple[list[Secret], list[SentDelivery]]:
    """Return the partner's secrets, and what was sent under the webhook's id."""
    return asyncio.run(_look_up(partner, webhook, data_dir))


async def _look_up(
    partner: str, webhook: Webhook | None, data_dir: Path | None
) -> tuple[list[Secret], list[SentDelivery]]:
    async with opened(data_dir) as core, core.db.read() as tx:
        owner = await accounts.get_partner_named(tx, partner)
        secrets = await list_own_secrets(tx, await core.open_vault(tx), owner.id, now=clock.now)
        if webhook is None:
            return secrets, []
        callers = (Caller(owner.id, owner.id, surface, owner.limits) for surface in owner.kind.surfaces)
        return secrets, [copy for caller in callers for copy in await list_copies(tx, caller, webhook)]
