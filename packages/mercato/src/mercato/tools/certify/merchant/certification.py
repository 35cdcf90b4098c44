"""The certification of a merchant: its options, its checks, and one run of them."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from mercato.features.certification.report import Outcome
from mercato.platform.outbound.results import NotModified, RequestFailed
from mercato.tools.certify.merchant.cancel import CANCEL
from mercato.tools.certify.merchant.catalog import CATALOG, pull
from mercato.tools.certify.merchant.context import CARD, Merchant, MerchantContext, MerchantOptions
from mercato.tools.certify.merchant.events import EVENTS
from mercato.tools.certify.merchant.place import PLACE
from mercato.tools.certify.merchant.validate import VALIDATE
from mercato.tools.certify.receiver import SIGNATURE, TRANSPORT, Receiver, check_reachable, open_session
from mercato.tools.certify.redaction import Redactor
from mercato.tools.certify.sample_store import EXAMPLE, SampleStore, sample_store
from mercato.tools.certify.suite import Check, Report, Runner, Suite, UnusableTargetError

MERCHANT: Final = Suite[MerchantContext](
    "merchant",
    {
        "signature": SIGNATURE,
        "validate": VALIDATE,
        "place": PLACE,
        "cancel": CANCEL,
        "events": EVENTS,
        "transport": TRANSPORT,
        "catalog": CATALOG,
    },
)


async def certify_merchant(
    options: MerchantOptions, checks: Sequence[Check[MerchantContext]], report: Report
) -> tuple[Outcome, ...]:
    """Run the checks; each outcome is reported as soon as it is known. Raises UnusableTargetError."""
    sample = await _sample(options)
    await check_reachable(options.webhook_url)
    secrets = (options.secret, options.token, options.declined_card, CARD)
    async with open_session() as session:
        merchant = Merchant(
            receiver=Receiver(
                url=options.webhook_url,
                secret=options.secret,
                token=options.token,
                session=session,
                redactor=Redactor(tuple(secret for secret in secrets if secret)),
                seconds=options.place_seconds,
            ),
            sample=sample,
            options=options,
        )
        runner = Runner(checks, context=lambda: MerchantContext(merchant), seconds=options.seconds)
        return await runner.run(report)


async def _sample(options: MerchantOptions) -> SampleStore:
    """Return a store that sells the merchant's catalog, or an example if that is unknown or invalid."""
    make = partial(
        sample_store,
        store_id=options.store_id,
        partner_store_id=options.partner_store_id,
        timezone=options.timezone,
        onboarding_id=options.onboarding_id,
        sold_out=options.sold_out,
    )
    document = options.document or await _pulled(options.catalog_url)
    sample = make(document) if document else None
    if sample is None and options.document is not None:
        raise UnusableTargetError("The catalog isn't valid. For the reasons: mercato catalog lint FILE")
    sample = sample or make(EXAMPLE)
    assert sample is not None, "the example is valid"
    try:
        sample.order()
    except LookupError:
        raise UnusableTargetError(
            f"Nothing of the catalog is on sale now (in {options.timezone}). Items need a basePrice, a section and an "
            "open hour. Give the store's time zone with --timezone, or another catalog."
        ) from None
    return sample


async def _pulled(url: str | None) -> bytes | None:
    """Return the catalog, None when it can't be pulled: a check says why."""
    if url is None:
        return None
    try:
        pulled = await pull(url)
    except RequestFailed:
        return None
    assert not isinstance(pulled, NotModified), "no ETag was sent"
    return pulled.body
