"""`mercato certify`: checks an implementation, explains what fails, and signs the report."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final
from uuid import UUID

from cyclopts import Parameter

from mercato.cli import FAILED, UNUSABLE, UnusableError
from mercato.cli.certify_report import (
    CheckDisplay,
    Signer,
    check_writable,
    get_signer,
    print_checks,
    report_of,
    write_report,
)
from mercato.cli.inputs import check_secrets, read_secret, read_valid_document, settings
from mercato.cli.options import BearerToken, DataDir, Json, between, group
from mercato.cli.output import note, print_json, say, wrap
from mercato.tools.certify.merchant.certification import MERCHANT, certify_merchant
from mercato.tools.certify.merchant.context import MerchantOptions
from mercato.tools.certify.storefront.certification import (
    SECONDS,
    STOREFRONT,
    StorefrontOptions,
    certify_storefront,
)
from mercato.tools.certify.storefront.drivers import CommandDriver, Driver, ManualDriver
from mercato.tools.certify.suite import Check, Suite, UnusableTargetError, without_credentials
from mercato_catalog.model import NO_ONBOARDING
from mercato_contract import clock
from mercato_contract.certification import CheckOutcome, UnsignedReport
from mercato_contract.decoding.checks import uri_fault
from mercato_contract.stores import timezone_fault

KEY: Final = "mk_marketfront_certify"
"""Valid only at the service that this command runs."""

COMMAND_SECONDS: Final = 40.0
"""How long one purchase by a command may take."""

FIRST_SECONDS: Final = 60.0
"""How long to wait for the first order."""

IDLE_SECONDS: Final = 3.0
"""Seconds without a request after which a purchase has ended."""

MANUAL_SECONDS: Final = 3600.0

certify = group("certify", "Certify an implementation: merchant, storefront; verify a report.")
certify.command(
    "mercato.cli.certify_report:verify",
    name="verify",
    help="Check the signature of a report, and say who signed it.",
)

Only = Annotated[
    list[str] | None,
    Parameter(help="Run the checks whose id contains this, or matches it with * and ?; may be repeated."),
]
ListOption = Annotated[bool, Parameter(name="--list", help="List the checks and stop.")]
ReportFile = Annotated[Path | None, Parameter(help="Write the signed report to this file.")]
Unsigned = Annotated[bool, Parameter(negative="", help="Don't sign the report: no key is needed.")]
Secret = Annotated[
    str | None, Parameter(help="The signing secret: whsec_…, @FILE, or @- for standard input's first line.")
]


@certify.command
def merchant(
    *,
    webhook_url: str | None = None,
    secret: Secret = None,
    catalog: str | None = None,
    token: BearerToken = None,
    partner_store_id: str = "certify-1",
    store_id: UUID | None = None,
    onboarding: Annotated[UUID, Parameter(show_default=False)] = NO_ONBOARDING,
    timezone: str = "UTC",
    sold_out: list[UUID] | None = None,
    declined_card: str | None = None,
    only: Only = None,
    list_: ListOption = False,
    json: Json = False,
    report: ReportFile = None,
    unsigned: Unsigned = False,
    data_dir: DataDir = None,
) -> int:
    """Send correct and forged webhooks to a merchant's receiver, and check what it answers.

    This places orders: use a test system. Exit code 0: no check failed; 1: some failed; 2: there is nothing to check.

    Args:
        webhook_url: The webhookUrl of your registration.
        catalog: Your catalog: its URL, which is checked too, or a file.
        token: Bearer token of webhooks; @- reads it from standard input.
        partner_store_id: The store of the orders.
        store_id: Its id in the network, if your receiver checks that.
        onboarding: Its onboardingId, if the catalog has ids that aren't UUIDs.
        timezone: The store's time zone: orders have only items that are on sale now.
        sold_out: An item that is sold out now; may be repeated.
        declined_card: A card token that the bank declines.

    """
    checks = _select(MERCHANT, only)
    if list_:
        print_checks(MERCHANT, checks, json=json)
        return 0
    url = _url(webhook_url, "--webhook-url")
    fault = timezone_fault(timezone)
    if fault is not None:
        raise UnusableError(fault.replace("timezone", "--timezone", 1))
    from_url = catalog is not None and catalog.lower().startswith(("http://", "https://"))
    options = MerchantOptions(
        webhook_url=url,
        secret=_secret(secret),
        token=token,
        catalog_url=_url(catalog, "--catalog") if from_url else None,
        document=None if catalog is None or from_url else read_valid_document(catalog, settings()).body,
        partner_store_id=partner_store_id,
        store_id=store_id or clock.new_id(),
        onboarding_id=onboarding,
        timezone=timezone,
        sold_out=tuple(sold_out or ()),
        declined_card=declined_card,
    )
    work = partial(certify_merchant, options, checks)
    return _run(
        MERCHANT,
        "merchant",
        without_credentials(url),
        work,
        json=json,
        report=report,
        unsigned=unsigned,
        data_dir=data_dir,
    )


@certify.command
def storefront(
    *,
    command: str | None = None,
    listen: Annotated[int | None, between("--listen", 0, 65_535)] = None,
    event_url: str | None = None,
    secret: Secret = None,
    token: BearerToken = None,
    order_url: str | None = None,
    key: Annotated[str, Parameter(show_default=False)] = KEY,
    only: Only = None,
    list_: ListOption = False,
    json: Json = False,
    report: ReportFile = None,
    unsigned: Unsigned = False,
    data_dir: DataDir = None,
) -> int:
    """Run a storefront against a service that injects faults, send it events, and check its behaviour.

    The orders reach no real store: this command is the service. With --command it takes less than a minute, with
    --listen as long as orders come in. Exit code 0: no check failed; 1: some failed; 2: there is nothing to
    check.

    Args:
        command: Starts your storefront, which places one order at MERCATO_URL with MERCATO_KEY, and ends with 0 or 1.
        listen: Listen on this port as the service instead, and wait for orders; 0 takes a free one.
        event_url: Your receiver of order events.
        token: Bearer token of events; @- reads it from standard input.
        order_url: Where your storefront shows an order as JSON with `status`: http://…/{orderId}
        key: The API key for your storefront.

    """
    checks = _select(STOREFRONT, only)
    if list_:
        print_checks(STOREFRONT, checks, json=json)
        return 0
    if command is not None and listen is not None:
        raise UnusableError("Give --command or --listen, not both.")
    if command is None and listen is None and event_url is None:
        raise UnusableError(
            "Say how to drive the storefront (--command '…' or --listen 8000), where it receives events (--event-url), "
            "or both."
        )
    options = StorefrontOptions(
        key=key,
        driver=_driver(command, listen),
        event_url=None if event_url is None else _url(event_url, "--event-url"),
        secret=None if event_url is None else _secret(secret),
        token=token,
        order_url=None if order_url is None else _order_url(order_url),
        seconds=SECONDS if listen is None else MANUAL_SECONDS,
    )
    targets = ["the requests of its command"] if command is not None else []
    targets += ["the requests to this port"] if listen is not None else []
    targets += [without_credentials(event_url)] if event_url is not None else []
    from mercato.platform.telemetry import configure_logs

    # The service that runs in this process logs nothing unless it fails.
    configure_logs(level="error", form="console")
    work = partial(certify_storefront, options, checks)
    return _run(
        STOREFRONT,
        "storefront",
        ", ".join(targets),
        work,
        json=json,
        report=report,
        unsigned=unsigned,
        data_dir=data_dir,
    )


def _run(
    suite: Suite[Any],
    kind: str,
    target: str,
    work: Callable[[Callable[[CheckOutcome], None]], Coroutine[Any, Any, tuple[CheckOutcome, ...]]],
    *,
    json: bool,
    report: Path | None,
    unsigned: bool,
    data_dir: Path | None,
) -> int:
    """Run the checks, which report each outcome to a callback; show, sign and write the results.

    Returns the exit code.
    """
    if report is not None:
        check_writable(report)
    # Opened first: a missing key must not show only after all the checks.
    signer = get_signer(data_dir) if (json or report is not None) and not unsigned else None
    display, began = None if json else CheckDisplay(suite), clock.now()
    if display is not None:
        say(*wrap(f"Certifying the {kind}: {target}"))
    try:
        outcomes = asyncio.run(work(_ignore if display is None else display.show))
    except UnusableTargetError as error:
        raise UnusableError(str(error)) from None
    found = report_of(kind, target, began, outcomes)
    if display is not None:
        display.end(outcomes)
    final = UnsignedReport(report=found) if signer is None else signer.sign(found)
    if report is not None:
        write_report(final, report)
    if display is None:
        print_json(final)
    elif report is not None:
        say(*_written(report, signer))
    if found.counts.failed:
        return FAILED
    return 0 if found.counts.passed else UNUSABLE


def _written(report: Path, signer: Signer | None) -> list[str]:
    if signer is None:
        return [f"The report is in {report}. It isn't signed."]
    return [f"The signed report is in {report}.", *wrap(f"It is signed with {signer}.")]


def _ignore(_outcome: CheckOutcome) -> None:
    """With --json only the report is printed."""


def _driver(command: str | None, listen: int | None) -> Driver | None:
    if command is not None:
        if not command.strip():
            raise UnusableError("--command is empty: give the command that starts the storefront.")
        return CommandDriver(command, seconds=COMMAND_SECONDS)
    return (
        None
        if listen is None
        else ManualDriver(listen, note, first_seconds=FIRST_SECONDS, idle_seconds=IDLE_SECONDS)
    )


def _select(suite: Suite[Any], only: Sequence[str] | None) -> tuple[Check[Any], ...]:
    """Return the selected checks. Raises UnusableError when there are none."""
    checks = suite.select(only or ())
    if not checks:
        raise UnusableError(f"No check matches {', '.join(only or ())}. List them all with --list.")
    return checks


def _url(text: str | None, option: str) -> str:
    """Return an absolute URL. Raises UnusableError."""
    fault = f"Give {option}." if text is None else uri_fault(text, option)
    if text is None or fault is not None:
        raise UnusableError(fault)
    return text


def _order_url(text: str) -> str:
    if "{orderId}" not in text:
        raise UnusableError("--order-url needs {orderId} in place of the order's id.")
    _url(text.replace("{orderId}", "0"), "--order-url")
    return text


def _secret(text: str | None) -> str:
    """Return a signing secret, read from where it is. Raises UnusableError."""
    if text is None:
        raise UnusableError(
            "Give the signing secret with --secret: whsec_…, @FILE, or @- for standard input."
        )
    secret = read_secret(text)
    check_secrets([secret])
    return secret
