"""`mercato certify merchant`, and what every certification shares: its options, its run, and its report."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

from cyclopts import Parameter

from mercato_catalog.model import NO_ONBOARDING
from mercato_contract import clock
from mercato_contract.certification import CheckOutcome, UnsignedReport
from mercato_contract.decoding.checks import uri_fault
from mercato_contract.stores import timezone_fault
from mercato_tools.certify.merchant.certification import MERCHANT, certify_merchant
from mercato_tools.certify.merchant.context import MerchantOptions
from mercato_tools.certify.suite import Check, Suite, UnusableTargetError, without_credentials
from mercato_tools.cli import FAILED, UNUSABLE, UnusableError
from mercato_tools.cli.certify_report import (
    CheckDisplay,
    check_writable,
    print_checks,
    report_of,
    write_report,
)
from mercato_tools.cli.extensions import Signer, get_service
from mercato_tools.cli.inputs import check_secrets, read_secret, read_valid_document, settings
from mercato_tools.cli.options import BearerToken, DataDir, Json, group
from mercato_tools.cli.output import print_json, say, wrap

certify = group("certify", "Certify an implementation: merchant.")

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
    checks = select_checks(MERCHANT, only)
    if list_:
        print_checks(MERCHANT, checks, json=json)
        return 0
    url = get_url(webhook_url, "--webhook-url")
    fault = timezone_fault(timezone)
    if fault is not None:
        raise UnusableError(fault.replace("timezone", "--timezone", 1))
    from_url = catalog is not None and catalog.lower().startswith(("http://", "https://"))
    options = MerchantOptions(
        webhook_url=url,
        secret=get_secret(secret),
        token=token,
        catalog_url=get_url(catalog, "--catalog") if from_url else None,
        document=None if catalog is None or from_url else read_valid_document(catalog, settings()).body,
        partner_store_id=partner_store_id,
        store_id=store_id or clock.new_id(),
        onboarding_id=onboarding,
        timezone=timezone,
        sold_out=tuple(sold_out or ()),
        declined_card=declined_card,
    )
    work = partial(certify_merchant, options, checks)
    return run_checks(
        MERCHANT,
        "merchant",
        without_credentials(url),
        work,
        json=json,
        report=report,
        unsigned=unsigned,
        data_dir=data_dir,
    )


def run_checks(
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
    signer = None
    if (json or report is not None) and not unsigned:
        signer = get_service("A signed report", "Give --unsigned.").get_signer(data_dir)
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


def select_checks(suite: Suite[Any], only: Sequence[str] | None) -> tuple[Check[Any], ...]:
    """Return the selected checks. Raises UnusableError when there are none."""
    checks = suite.select(only or ())
    if not checks:
        raise UnusableError(f"No check matches {', '.join(only or ())}. List them all with --list.")
    return checks


def get_url(text: str | None, option: str) -> str:
    """Return an absolute URL. Raises UnusableError."""
    fault = f"Give {option}." if text is None else uri_fault(text, option)
    if text is None or fault is not None:
        raise UnusableError(fault)
    return text


def get_secret(text: str | None) -> str:
    """Return a signing secret, read from where it is. Raises UnusableError."""
    if text is None:
        raise UnusableError(
            "Give the signing secret with --secret: whsec_…, @FILE, or @- for standard input."
        )
    secret = read_secret(text)
    check_secrets([secret])
    return secret
