"""`mercato certify`: checks another's implementation, says what fails and what to do, and signs what it found."""

from typing import Annotated
from uuid import UUID

from cyclopts import App, Parameter

from mercato import clock
from mercato.catalog.lint import NOWHERE
from mercato.certify.merchant.suite import MERCHANT
from mercato.certify.merchant.visit import MerchantOptions, certify_merchant
from mercato.certify.shown import address
from mercato.cli.certified import list_checks
from mercato.cli.certifying import (
    Listed,
    Only,
    ReportFile,
    Secret,
    Telling,
    document_of,
    secret_of,
    selected,
    url_of,
)
from mercato.cli.failures import UnusableError
from mercato.cli.options import DataDir, Json, typed
from mercato.cli.reports import look_at
from mercato.wire.checks import timezone_fault

certify = App(name="certify", help="Certify an implementation: merchant, storefront; verify a report.")


@certify.command
def merchant(
    *,
    webhook_url: Annotated[str | None, Parameter(help="What is registered as webhookUrl.")] = None,
    secret: Secret = None,
    catalog: Annotated[
        str | None, Parameter(help="The catalog: its URL, which is looked at too, or a file.")
    ] = None,
    token: Annotated[
        str | None, Parameter(help="Bearer token that webhooks carry; @- reads it from standard input.")
    ] = None,
    partner_store_id: Annotated[str, Parameter(help="The store that the orders are for.")] = "certify-1",
    store_id: Annotated[
        UUID | None, Parameter(help="Its id in the network, if the receiver looks at that.")
    ] = None,
    onboarding: Annotated[
        UUID,
        Parameter(help="Its onboardingId, if the catalog has ids that are no UUIDs.", show_default=False),
    ] = NOWHERE,
    timezone: Annotated[
        str, Parameter(help="The store's time zone: only what is on offer is ordered.")
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
    """Call a merchant's webhook receiver as the service does, and as it never would, and judge what it answers.

    Orders are placed: use a system for tests. Exit code 0: all passed; 1: some failed; 2: there is nothing to look at.
    """
    checks = selected(MERCHANT, only)
    if list_:
        list_checks(MERCHANT, checks)
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
    telling = Telling(MERCHANT, "merchant", address(url), json=json, report=report, data_dir=data_dir)
    return telling.of(certify_merchant(options, checks, telling.told))


@certify.command
def verify(
    file: Annotated[
        str, Parameter(help="A signed report, or - for standard input.", allow_leading_hyphen=True)
    ],
    /,
    *,
    public_key: Annotated[
        str | None,
        Parameter(help="Whose signature it has to be, as reports show it; else this installation's."),
    ] = None,
    data_dir: DataDir = None,
) -> int:
    """Say whether a report is as it was signed, and by whom.

    Exit code 0: it is, by this installation or by the given key; 1: it is not; 2: it is no report.
    """
    return look_at(file, public_key=public_key, data_dir=data_dir)
