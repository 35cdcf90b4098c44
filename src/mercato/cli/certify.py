"""`mercato certify`: checks another's implementation, says what fails and what to do, and signs what it found."""

from typing import Annotated, Final
from uuid import UUID

from cyclopts import App, Parameter

from mercato import clock
from mercato.catalog.ids import NOWHERE
from mercato.certify.merchant.certification import MERCHANT, certify_merchant
from mercato.certify.merchant.context import MerchantOptions
from mercato.certify.redaction import without_credentials
from mercato.certify.storefront.certification import (
    SECONDS,
    STOREFRONT,
    StorefrontOptions,
    certify_storefront,
)
from mercato.certify.storefront.drivers import CommandDriver, Driver, ManualDriver
from mercato.cli.certified import list_checks
from mercato.cli.certifying import (
    Listed,
    Only,
    Progress,
    ReportFile,
    Secret,
    document_of,
    secret_of,
    selected,
    url_of,
)
from mercato.cli.console import note
from mercato.cli.failures import UnusableError
from mercato.cli.options import DataDir, Json, typed
from mercato.cli.reports import look_at
from mercato.wire.checks import timezone_fault

KEY: Final = "mk_marketfront_certify"
"""Grants access to this command's own service alone."""

COMMAND_SECONDS: Final = 40.0
"""How long one purchase by a command may take."""

FIRST_SECONDS: Final = 60.0
"""How long to wait for somebody to place an order."""

IDLE_SECONDS: Final = 3.0
"""Seconds without a request that end a purchase."""

MANUAL_SECONDS: Final = 3600.0

MOST_PORT: Final = 65_535

certify = App(name="certify", help="Certify an implementation: merchant, storefront; verify a report.")


@certify.command
def merchant(
    *,
    webhook_url: Annotated[str | None, Parameter(help="The webhookUrl of your registration.")] = None,
    secret: Secret = None,
    catalog: Annotated[
        str | None, Parameter(help="Your catalog: its URL, which is checked too, or a file.")
    ] = None,
    token: Annotated[
        str | None, Parameter(help="Bearer token of webhooks; @- reads it from standard input.")
    ] = None,
    partner_store_id: Annotated[str, Parameter(help="The store of the orders.")] = "certify-1",
    store_id: Annotated[
        UUID | None, Parameter(help="Its id in the network, if your receiver checks that.")
    ] = None,
    onboarding: Annotated[
        UUID,
        Parameter(help="Its onboardingId, if the catalog has ids that aren't UUIDs.", show_default=False),
    ] = NOWHERE,
    timezone: Annotated[
        str, Parameter(help="The store's time zone: orders have only items that are on sale now.")
    ] = "UTC",
    sold_out: Annotated[
        list[UUID] | None, Parameter(help="An item that is sold out now; may be repeated.", negative=())
    ] = None,
    declined_card: Annotated[str | None, Parameter(help="A card token that the bank declines.")] = None,
    only: Only = None,
    list_: Listed = False,
    json: Json = False,
    report: ReportFile = None,
    data_dir: DataDir = None,
) -> int:
    """Send correct and forged webhooks to a merchant's receiver, and check what it answers.

    This places orders: use a test system. Exit code 0: no check failed; 1: some failed; 2: there is nothing to check.
    """
    checks = selected(MERCHANT, only)
    if list_:
        list_checks(MERCHANT, checks, json=json)
        return 0
    url = url_of(webhook_url, "--webhook-url")
    fault = timezone_fault(timezone)
    if fault is not None:
        raise UnusableError(fault.replace("timezone", "--timezone", 1))
    from_url = catalog is not None and catalog.lower().startswith(("http://", "https://"))
    options = MerchantOptions(
        webhook_url=url,
        secret=secret_of(secret),
        token=typed(token),
        catalog_url=url_of(catalog, "--catalog") if from_url else None,
        document=None if catalog is None or from_url else document_of(catalog),
        partner_store_id=partner_store_id,
        store_id=store_id or clock.new_id(),
        onboarding_id=onboarding,
        timezone=timezone,
        sold_out=tuple(sold_out or ()),
        declined_card=declined_card,
    )
    progress = Progress(
        MERCHANT, "merchant", without_credentials(url), json=json, report=report, data_dir=data_dir
    )
    return progress.run(certify_merchant(options, checks, progress.report))


@certify.command
def storefront(
    *,
    command: Annotated[
        str | None,
        Parameter(
            help="Starts your storefront, which places one order at MERCATO_URL with MERCATO_KEY, and ends with 0 or 1."
        ),
    ] = None,
    listen: Annotated[
        int | None,
        Parameter(
            help="Listen on this port as the service instead, and wait for orders; 0 takes a free one."
        ),
    ] = None,
    event_url: Annotated[str | None, Parameter(help="Your receiver of order events.")] = None,
    secret: Secret = None,
    token: Annotated[
        str | None, Parameter(help="Bearer token of events; @- reads it from standard input.")
    ] = None,
    order_url: Annotated[
        str | None,
        Parameter(help="Where your storefront shows an order as JSON with `status`: http://…/{orderId}"),
    ] = None,
    key: Annotated[str, Parameter(help="The key that your storefront gets.", show_default=False)] = KEY,
    only: Only = None,
    list_: Listed = False,
    json: Json = False,
    report: ReportFile = None,
    data_dir: DataDir = None,
) -> int:
    """Let a storefront buy at a service that injects faults, send it events, and check what it does.

    The orders reach no real store: this command is the service. With --command it takes less than a minute, with
    --listen as long as somebody places orders. Exit code 0: no check failed; 1: some failed; 2: there is nothing to
    check.
    """
    checks = selected(STOREFRONT, only)
    if list_:
        list_checks(STOREFRONT, checks, json=json)
        return 0
    if command is not None and listen is not None:
        raise UnusableError("Give --command or --listen, not both.")
    if command is None and listen is None and event_url is None:
        raise UnusableError(
            "Say how to drive the storefront (--command '…' or --listen 8000), where it receives events (--event-url), "
            "or both."
        )
    if listen is not None and not 0 <= listen <= MOST_PORT:
        raise UnusableError(f"--listen must be a port: 0 to {MOST_PORT}.")
    options = StorefrontOptions(
        key=key,
        driver=_driver(command, listen),
        event_url=None if event_url is None else url_of(event_url, "--event-url"),
        secret=None if event_url is None else secret_of(secret),
        token=typed(token),
        order_url=None if order_url is None else _template(order_url),
        seconds=SECONDS if listen is None else MANUAL_SECONDS,
    )
    target = "the requests of its command" if command is not None else "the requests to this port"
    if event_url is not None:
        target = (
            without_credentials(event_url)
            if command is None and listen is None
            else f"{target}, {without_credentials(event_url)}"
        )
    from mercato.telemetry import configure_logs

    # The service that runs in this process logs nothing unless it fails.
    configure_logs(level="error", form="console")
    progress = Progress(STOREFRONT, "storefront", target, json=json, report=report, data_dir=data_dir)
    return progress.run(certify_storefront(options, checks, progress.report))


def _driver(command: str | None, listen: int | None) -> Driver | None:
    if command is not None:
        if not command.strip():
            raise UnusableError("--command is empty: give the command that starts the storefront.")
        return CommandDriver(command, seconds=COMMAND_SECONDS)
    if listen is not None:
        return ManualDriver(listen, note, first_seconds=FIRST_SECONDS, idle_seconds=IDLE_SECONDS)
    return None


def _template(text: str) -> str:
    if "{orderId}" not in text:
        raise UnusableError("--order-url needs {orderId} in place of the order's id.")
    url_of(text.replace("{orderId}", "0"), "--order-url")
    return text


@certify.command
def verify(
    file: Annotated[
        str, Parameter(help="A signed report, or - for standard input.", allow_leading_hyphen=True)
    ],
    /,
    *,
    public_key: Annotated[
        str | None,
        Parameter(help="The public key of the signer, as reports show it; else this installation's."),
    ] = None,
    data_dir: DataDir = None,
) -> int:
    """Check the signature of a report, and say who signed it.

    Exit code 0: this installation or the given key signed it, and no check failed; 1: another key signed it, it was
    changed, or a check failed; 2: the file isn't a report.
    """
    return look_at(file, public_key=public_key, data_dir=data_dir)
