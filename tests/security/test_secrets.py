"""Keys, tokens, secrets and payments appear in no representation: not in a repr, a log or a traceback."""

import dataclasses
import importlib
import json
import logging
import pkgutil
import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

import msgspec
import pytest
import structlog
from tests.api.trade import Trade, trade
from tests.databases import only_sqlite
from tests.distributions import PACKAGES
from tests.service import MerchantServer, Service

from mercato.asgi import document
from mercato.features.partners import accounts, credentials
from mercato.features.partners.model import PATTERN, PartnerKind
from mercato.platform.telemetry import configure_logs
from mercato_contract.texts import Secret

SECRET = re.compile(r"(?:\w+_)?(?:keys?|tokens?|secrets?|payment|authorization|headers|password|body)")
"""Names of members that may hold what is secret; `…_id`, `has_…` and the like don't match, or are listed below."""

HARMLESS = {
    "mercato_catalog.model.Built.body": "a catalog, which is public",
    "mercato_catalog.validation.scan._Frame.keys": "names of a document's members",
    "features.discovery.index.SearchColumns.hours_key": "a hash that groups stores by their hours",
    "features.discovery.index.SearchColumns.name_key": "a name to sort by",
    "mercato_contract.certification.Signature.public_key": "the public half of a key",
    "features.sign_in.passkeys.NewPasskey.public_key": "the public half of a key",
    "mercato_tools.cli.inputs.Document.body": "a catalog's file",
    "cli.keys.Entries.keys": "entries without the keys",
    "cli.history.Names.keys": "what keys are called, by their ids",
    "cli.partners.Deletion.keys": "how many there are",
    "platform.gazetteer.Header.keys": "of the index of places: how many there are",
    "features.offboarding.Holdings.keys": "the same",
    "cli.secrets.Entries.secrets": "entries, which hide their own",
    "features.sign_in.sign_on._Known.keys": "public keys",
    "features.sign_in.sign_on._KeySet.keys": "public keys",
    "console.order_form.OrderForm.key": "an Idempotency-Key opens nothing",
    "features.orders.placement.PlacementContext.body": "a request, which hides its payment",
    "features.partners.agents.ListedAgent.key": "a key without its text",
    "mercato_catalog.carts.names.Neighbours.keys": "ids of what a menu names",
    "mercato_catalog.carts.names.KnownGroup.key": "the same",
    "features.orders.idempotency.Claim.key": "an Idempotency-Key opens nothing",
    "features.orders.idempotency.KeyedRequest.key": "the same",
    "features.orders.placement.Placements.tokens": "the signer, which hides its keys",
    "features.orders.validation.Validations.tokens": "the same",
    "platform.jobs.claim.Place.key": "an ordering key",
    "platform.jobs.claim.Rotation.keys": "ordering keys",
    "platform.jobs.maintenance.DeadJob.ordering_key": "an ordering key",
    "platform.jobs.run.Job.ordering_key": "an ordering key",
    "mercato_outbound.results.EndpointResponse.body": "what a partner's server answered",
    "features.partners.accounts.NewPartner.keys": "keys, which hide their own text",
    "features.partners.model.Partner.has_webhook_token": "yes or no",
    "console.guides.Guide.body": "a page of the documentation",
    "http.operations.Operation.request_headers": "names",
    "http.operations.Operation.answer_headers": "names",
    "http.operations.Operation.body_limit": "a number of bytes",
    "http.operations.Operation.body_form": "how a handler gets a body",
    "http.operations.Operation.body_type": "a media type",
    "http.operations.Operation.body_optional": "yes or no",
    "features.webhooks.model.StoreCall.carries_payment": "yes or no",
    "mercato_contract.debugger.mistakes.Match.key": "a Key, of which the secret is hidden",
    "mercato_contract.webhooks.WebhookDeliveryDetail.body": "what its partner may read, without a payment",
}

NOT_SERVED = ("mercato.local.demo", "mercato_client.testing", "mercato.features.schema.env")


def kinds() -> Iterator[type[Any]]:
    """Yield every dataclass and Struct of the packages."""
    walks = (pkgutil.walk_packages(package.__path__, f"{package.__name__}.") for package in PACKAGES)
    for found in chain.from_iterable(walks):
        if found.name.startswith(NOT_SERVED):
            continue
        module = importlib.import_module(found.name)
        for kind in vars(module).values():
            if isinstance(kind, type) and kind.__module__ == module.__name__ and members(kind):
                yield kind


def members(kind: type[Any]) -> dict[str, Any]:
    if dataclasses.is_dataclass(kind):
        return {member.name: member.type for member in dataclasses.fields(kind) if member.init}
    if issubclass(kind, msgspec.Struct):
        return {member.name: member.type for member in msgspec.structs.fields(kind)}
    return {}


def shown(kind: type[Any]) -> set[str]:
    """Return the members that could be secret and that the kind's repr shows."""
    suspects = {name for name in members(kind) if SECRET.fullmatch(name)}
    prefix = f"{kind.__module__.removeprefix('mercato.')}.{kind.__name__}."
    suspects -= {name for name in suspects if prefix + name in HARMLESS}
    if not suspects:
        return set()
    # A member whose type redacts itself gets a value of that type; any other a text to search for.
    values: dict[str, Any] = {
        name: Secret(f"<{name}>") if "Secret" in str(hint) else f"<{name}>"
        for name, hint in members(kind).items()
    }
    one = kind(**values)
    told = f"{one!r} {one}"
    return {prefix + name for name in suspects if f"<{name}>" in told}


def test_no_dataclass_and_no_struct_shows_what_could_be_secret():
    found = list(kinds())
    assert len(found) > 200
    assert set().union(*map(shown, found)) == set()


def test_no_text_form_of_a_secret_shows_it():
    secret = Secret("hush")
    for text in (repr(secret), str(secret), f"{secret}", f"{secret!r}", f"{[secret]}", "%s" % secret):  # noqa: UP031
        assert "hush" not in text
    with pytest.raises(TypeError):
        json.dumps(secret)
    with pytest.raises(TypeError):
        msgspec.json.encode(secret)
    assert not hasattr(secret, "__dict__")


def test_the_api_document_has_examples_and_no_key_that_could_be_one():
    text = document().decode()
    # A scanner for leaked keys finds nothing in it, nor in what is copied from it.
    assert re.search(PATTERN, text) is None
    assert re.search(r"whsec_[0-9A-Za-z+/]{43}=", text) is None
    assert re.search(r"\bmt_[0-9A-Za-z_-]{92}", text) is None
    assert re.search(r"\bvo_[0-9A-Za-z_-]{60}", text) is None


@pytest.fixture
async def here(mercato: Service, shop: MerchantServer) -> Trade:
    return await trade(mercato, shop, event_url=shop.base + "/events")


@only_sqlite
async def test_a_day_of_trade_leaves_no_credential_in_the_logs_nor_in_the_database(
    here: Trade, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
):
    caplog.set_level(
        logging.WARNING
    )  # libraries log values at debug, and the service leaves their level as it is
    configure_logs(level="debug", form="json")
    try:
        secrets = await a_day(here)
    finally:
        structlog.reset_defaults()
    output = capsys.readouterr()
    told = output.out + output.err + caplog.text
    stored = b"".join(
        [
            bytes(value) if isinstance(value, memoryview | bytes) else str(value).encode()
            for value in await rows(here)
        ]
    )
    assert "delivery_id" in told
    for secret in secrets:
        assert secret not in told
        assert secret.encode() not in stored
        assert secret.removeprefix("whsec_").encode() not in stored


async def a_day(here: Trade) -> list[str]:
    """Use every kind of credential, rightly and wrongly; return them."""
    app, front = here.mercato.app, here.front
    assert here.pos.key is not None
    assert front.key is not None
    async with app.db.write() as tx:
        key = await credentials.get_key(tx, front.key)
        rolled = await credentials.roll_key(tx, key)
        secret = await accounts.rotate_signing_secret(tx, app.vault, key.partner_id)
        other = await accounts.create_partner(
            tx, app.vault, name="Other", kind=PartnerKind.BOTH, webhook_token="tok-of-other"
        )
    form = {"grant_type": "client_credentials", "client_id": str(rolled.id), "client_secret": rolled.text}
    token = (await front.call("POST", "/v1/oauth/token", data=form)).json()["access_token"]
    await front.call("POST", "/v1/oauth/token", data=form | {"client_secret": rolled.text[:-1] + "!"})
    order = here.order(payment={"type": "cardOnFile", "cardToken": "card-on-file-1", "processorType": "x"})
    order_token = await here.token(order)
    await here.place(order | {"validatedOrderToken": order_token})
    here.shop.answers["place"] = {
        "errors": [{"code": "PAYMENT_DECLINED", "message": "no"}],
        "accepted": False,
    }
    await here.place(order)
    bearer = {"Authorization": f"Bearer {token}"}
    await here.mercato.anonymous().get("/v1/marketfront/orders/none", headers=bearer)
    await here.mercato.anonymous().get("/metrics", headers={"Authorization": "Bearer the-metrics-token"})
    return [
        here.pos.key, front.key, rolled.text, token, order_token, "card-on-file-1", "from-pos", "tok-of-other",
        other.signing_secret, secret, *(one.text for one in other.keys), "the-metrics-token",
    ]  # fmt: skip


async def rows(here: Trade) -> list[Any]:
    """Return every value that the database holds."""
    from mercato.platform.db.tables import metadata

    found: list[Any] = []
    async with here.mercato.app.db.read() as tx:
        for table in metadata.sorted_tables:
            found += [value for row in await tx.all(table.select()) for value in row]
    return found


@pytest.mark.parametrize(
    "path", ["stores/{}", "orders/{}", "catalog-sets/{}", "webhook-deliveries/{}", "events?types={}"]
)
async def test_a_key_in_the_place_of_an_id_is_not_repeated_in_the_problem(mercato: Service, path: str):
    account, client = await mercato.partner()
    refused = await client.get("/v1/commerce/" + path.format(account.key))
    assert refused.status in {404, 422}
    assert account.key.encode() not in refused.body
    assert b"mk_***" in refused.body
