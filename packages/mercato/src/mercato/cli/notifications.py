"""`mercato notification`: where operators are told by webhook that a partner fails, or an address was disabled."""

from collections.abc import Sequence
from typing import Annotated, Any
from uuid import UUID

import msgspec
from cyclopts import Parameter

from mercato.app import address_policy
from mercato.cli.output import print_facts, print_table
from mercato.cli.session import opened
from mercato.features.webhooks.endpoints import WebhookEndpoints, list_endpoints
from mercato.features.webhooks.model import AS_OPERATORS
from mercato.platform.db.engine import Write
from mercato.platform.telemetry import tracing
from mercato.services import Core
from mercato_contract.pages import Page
from mercato_contract.webhooks import MAX_ENDPOINTS, WebhookEndpoint, WebhookEndpointRequest
from mercato_outbound.guard import AddressPolicy, call_fault
from mercato_tools.cli import UnusableError
from mercato_tools.cli.options import DataDir, Json, group
from mercato_tools.cli.output import note, print_json

notification = group("notification", "Operators' webhooks about partners that fail: add, list, test, remove.")

Types = Annotated[
    list[str] | None, Parameter(name="--type", help="Only events of this type; by default of every type.")
]
EndpointId = Annotated[UUID, Parameter(help="The endpoint's id, as the list shows it.")]


@notification.command
async def add(
    url: str,
    /,
    *,
    types: Types = None,
    description: str | None = None,
    json: Json = False,
    data_dir: DataDir = None,
) -> None:
    """Send operators' events to a URL, and print the secret that signs them, once.

    Args:
        url: Where they are posted.
        description: What it is, for the list.

    """
    request = WebhookEndpointRequest(url=url, types=types, description=description)
    async with opened(data_dir) as core, core.db.write() as tx:
        _check_url(core, url)
        made = await (await _endpoints(core, tx)).create(tx, AS_OPERATORS, request)
    if json:
        print_json(_members(made) | {"secret": made.secret})
        return
    print_facts(("Endpoint", made.endpoint_id), ("URL", made.url), ("Signing secret", made.secret))
    note("Keep the secret now: it isn't shown again. Try it: mercato notification test ID")


def _check_url(core: Core, url: str) -> None:
    """Raise UnusableError for a URL that only a server for development calls.

    This command doesn't know how its server was started: it has settings of its own.
    """
    if core.settings.allow_private_networks:
        return
    fault = call_fault(url, "The URL", AddressPolicy())
    if fault is not None and call_fault(url, "The URL", AddressPolicy(allow_private=True)) is None:
        raise UnusableError(
            f"{fault} If the server is one for development (mercato serve --dev), tell this command, too: "
            "MERCATO_ALLOW_PRIVATE_NETWORKS=true mercato notification add URL"
        )


@notification.command(name="list")
async def list_(*, json: Json = False, data_dir: DataDir = None) -> None:
    """List where operators' events go."""
    async with opened(data_dir) as core, core.db.read() as tx:
        vault = await core.open_vault(tx)
        page = await list_endpoints(tx, vault, AS_OPERATORS, Page(limit=MAX_ENDPOINTS))
    if json:
        print_json({"endpoints": [_members(endpoint) for endpoint in page.endpoints]})
        return
    rows = [(one.endpoint_id, _state(one), one.url, _types(one), one.description) for one in page.endpoints]
    print_table(
        ("Id", "State", "URL", "Types", "Description"),
        rows,
        empty="Operators' events go nowhere. Add a URL: mercato notification add URL",
    )


@notification.command(name="test")
async def send_test(endpoint: EndpointId, /, *, data_dir: DataDir = None) -> None:
    """Send a signed `ping` to an endpoint."""
    async with opened(data_dir) as core, core.db.write() as tx:
        endpoints = await _endpoints(core, tx)
        delivery_id = await endpoints.send_test(tx, AS_OPERATORS, endpoint, traceparent=tracing.new_trace())
    note(f"A ping is sent. See what was answered: mercato webhooks show {delivery_id}")


@notification.command
async def enable(endpoint: EndpointId, /, *, data_dir: DataDir = None) -> None:
    """Send to an endpoint again that was disabled after failures."""
    async with opened(data_dir) as core, core.db.write() as tx:
        await (await _endpoints(core, tx)).set_enabled(tx, AS_OPERATORS, endpoint, enabled=True)
    note("Operators' events are sent to the endpoint again.")


@notification.command
async def remove(endpoint: EndpointId, /, *, data_dir: DataDir = None) -> None:
    """Delete an endpoint: nothing is sent to it any more, and its secret is gone."""
    async with opened(data_dir) as core, core.db.write() as tx:
        await (await _endpoints(core, tx)).delete(tx, AS_OPERATORS, endpoint)
    note("The endpoint is deleted.")


async def _endpoints(core: Core, tx: Write) -> WebhookEndpoints:
    vault = await core.bind_vault(tx)
    return WebhookEndpoints(vault, core.clock, core.new_id, address_policy(core.settings))


def _members(endpoint: WebhookEndpoint) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(endpoint)
    return {name: found[name] for name in _SHOWN}


_SHOWN: Sequence[str] = (
    "endpointId",
    "url",
    "types",
    "description",
    "enabled",
    "disabledReason",
    "createdAt",
)


def _state(endpoint: WebhookEndpoint) -> str:
    if endpoint.enabled:
        return "enabled"
    return "disabled" if endpoint.disabled_reason is None else f"disabled: {endpoint.disabled_reason}"


def _types(endpoint: WebhookEndpoint) -> str:
    return "all" if endpoint.types is None else ", ".join(endpoint.types)
