"""`mercato request`: the refused requests of all partners."""

from functools import partial
from uuid import UUID

from mercato.cli.options import PAGE, DataDir, Json, Limit, OnlyPartner, Since, group
from mercato.cli.output import Column, print_objects, print_page, view
from mercato.cli.session import find_partner_id, opened
from mercato.features.partners.queries import find_names
from mercato.features.requests.queries import Filter, list_refused
from mercato.features.stores.operators import get_store_id
from mercato_contract.requests import RefusedRequest

request = group("request", "Refused requests: list.")


class Entry(RefusedRequest):
    """A refused request in a list. `partnerId` and `keyId` are null without a valid key."""

    id: UUID
    partner_id: UUID | None
    store_id: UUID | None


@request.command(name="list")
async def list_(
    *,
    code: str | None = None,
    partner: OnlyPartner = None,
    store: str | None = None,
    since: Since | None = None,
    before: UUID | None = None,
    limit: Limit = PAGE,
    json: Json = False,
    data_dir: DataDir = None,
) -> None:
    """List the requests of the last 7 days that were refused, of all partners and without a valid key, newest first.

    Args:
        code: Only requests refused with this errorCode, such as VALIDATION_FAILED.
        store: Only requests that name this store: its id, or the beginning of it.
        since: Only requests of the last 2h, 3d, …, or since an instant.
        before: Only requests before this one: an `id` of --json.
        limit: How many requests to list (50; at most 1000).

    """
    async with opened(data_dir) as core, core.db.read() as tx:
        wanted = Filter(
            partner_id=await find_partner_id(tx, partner),
            error_code=None if code is None else code.upper(),
            since=since,
            store_id=None if store is None else await get_store_id(tx, store),
        )
        found = await list_refused(tx, wanted, before=before, limit=limit + 1)
        names = await find_names(
            tx, {refusal.partner_id for refusal in found if refusal.partner_id is not None}
        )
    columns: dict[str, Column] = {
        "At": "at",
        "Status": "status",
        "Code": "error_code",
        "Operation": lambda refusal: refusal.operation or f"{refusal.method} {refusal.path}",
        "ms": "milliseconds",
        "Partner": lambda refusal: names.get(refusal.partner_id, refusal.partner_id),
    }
    show = partial(
        print_objects,
        columns,
        empty="No matching requests.",
        cut=("Code", "Operation", "Partner"),
    )
    print_page("requests", found, limit=limit, as_json=json, entry=partial(view, Entry), show=show)
