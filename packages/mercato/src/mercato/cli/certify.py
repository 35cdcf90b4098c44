"""`mercato certify`: a merchant, as the tools do it; a storefront, against a service of its own; and reports."""

from functools import partial
from typing import Annotated, Final

from cyclopts import Parameter

from mercato.local.storefront.certification import (
    SECONDS,
    STOREFRONT,
    StorefrontOptions,
    certify_storefront,
)
from mercato.local.storefront.drivers import CommandDriver, Driver, ManualDriver
from mercato_tools.certify.suite import without_credentials
from mercato_tools.cli import UnusableError
from mercato_tools.cli.certify import (
    ListOption,
    Only,
    ReportFile,
    Secret,
    Unsigned,
    get_secret,
    get_url,
    run_checks,
    select_checks,
)
from mercato_tools.cli.certify_report import print_checks
from mercato_tools.cli.options import BearerToken, DataDir, Json, between, group
from mercato_tools.cli.output import note

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
    "mercato_tools.cli.certify:merchant",
    name="merchant",
    help="Send correct and forged webhooks to a merchant's receiver, and check what it answers.",
)
certify.command(
    "mercato.cli.reports:verify",
    name="verify",
    help="Check the signature of a report, and say who signed it.",
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
    checks = select_checks(STOREFRONT, only)
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
        event_url=None if event_url is None else get_url(event_url, "--event-url"),
        secret=None if event_url is None else get_secret(secret),
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
    return run_checks(
        STOREFRONT,
        "storefront",
        ", ".join(targets),
        work,
        json=json,
        report=report,
        unsigned=unsigned,
        data_dir=data_dir,
    )


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


def _order_url(text: str) -> str:
    if "{orderId}" not in text:
        raise UnusableError("--order-url needs {orderId} in place of the order's id.")
    get_url(text.replace("{orderId}", "0"), "--order-url")
    return text
