"""Checks of webhook receivers of either side: signatures, and HTTP that is unusual or no webhook at all."""

import json
import os
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

from mercato.features.orders.store_replies import REFUSALS
from mercato.platform import clock
from mercato.tools.certify.receiver import ReceiverContext, Reply, client_error, no_server_error, rejected
from mercato.tools.certify.suite import Failed, Run, Skipped
from mercato_contract.signing import new_secret
from mercato_contract.wire import as_json

WRONG_SECRET: Final = new_secret(os.urandom)
OTHER_WRONG_SECRET: Final = new_secret(os.urandom)
OTHER_ID: Final = str(clock.new_id())

HOUR: Final = 3600
"""Seconds: far outside the tolerance of any Standard Webhooks library."""

LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


def sample(
    expect: Callable[[Reply], str] | None = None, *, rewrite: Callable[[bytes], bytes] = bytes, **changes: Any
) -> Run[ReceiverContext]:
    """Return a check that sends the sample with one change and judges the reply; by default it must be accepted.

    `rewrite` changes the body before it is signed.
    """

    async def run(context: ReceiverContext) -> str:
        message = context.sample()
        reply = await context.send(message.but(body=rewrite(message.body), **changes))
        return (expect or context.accepted)(reply)

    return run


def probe(method: str) -> Run[ReceiverContext]:
    """Return a check that sends a request which isn't a webhook."""

    async def run(context: ReceiverContext) -> str:
        return no_server_error(await context.request(method, context.url(context.sample())))

    return run


def _signature_accepted(reply: Reply) -> str:
    is_client_error = HTTPStatus.BAD_REQUEST <= reply.status < HTTPStatus.INTERNAL_SERVER_ERROR
    if is_client_error and reply.status not in REFUSALS:
        # A 4xx that isn't an answer to an order is about the request itself.
        raise Failed(f"It answered {reply.status} to a webhook that is signed with the secret you gave.")
    return no_server_error(reply)


async def _altered_timestamp(context: ReceiverContext) -> str:
    now = context.headers(context.sample())["webhook-timestamp"]
    return rejected(await context.send(context.sample().but(age=60, headers={"webhook-timestamp": now})))


def _altered(body: bytes) -> bytes:
    return as_json(json.loads(body) | {"timestamp": "2030-01-01T00:00:00.000Z"})


def _reformatted(body: bytes) -> bytes:
    document = json.loads(body) | {"x-note": "Ad\u00e9le / \U0001f355"}
    return json.dumps(document, indent=3, sort_keys=True).replace("/", "\\/").encode()


async def _https(context: ReceiverContext) -> str:
    parts = urlsplit(context.receiver.url)
    if parts.hostname in LOOPBACK:
        raise Skipped("On this machine http is as good. Register an https URL for the network.")
    if parts.scheme != "https":
        raise Failed("The URL is http.")
    return "https"


async def _upper_case_headers(context: ReceiverContext) -> str:
    message = context.sample()
    headers = {name.upper(): text for name, text in context.headers(message).items()}
    return context.accepted(await context.send(message.but(headers=headers)))


SIGNATURE: Final[Mapping[str, Run[ReceiverContext]]] = {
    "accepted": sample(_signature_accepted),
    "missing-refused": sample(rejected, headers={"webhook-signature": None}),
    "wrong-key-refused": sample(rejected, secrets=(WRONG_SECRET,)),
    "altered-body-refused": sample(rejected, sent=_altered),
    "altered-id-refused": sample(rejected, headers={"webhook-id": OTHER_ID, "Idempotency-Key": OTHER_ID}),
    "altered-timestamp-refused": _altered_timestamp,
    "stale-refused": sample(rejected, age=HOUR),
    "future-refused": sample(rejected, age=-HOUR),
    "no-timestamp-refused": sample(rejected, headers={"webhook-timestamp": None}),
    "other-version-refused": sample(rejected, signature=lambda correct: correct.replace("v1,", "v9,")),
    "bare-refused": sample(rejected, signature=lambda correct: correct.removeprefix("v1,")),
    "shortened-refused": sample(rejected, signature=lambda correct: correct[:11]),
    "empty-refused": sample(rejected, signature=lambda _: "v1,"),
    "several-wrong-refused": sample(rejected, secrets=(WRONG_SECRET, OTHER_WRONG_SECRET)),
    "rotation-first": sample(secrets=(None, WRONG_SECRET)),
    "rotation-second": sample(secrets=(WRONG_SECRET, None)),
    "unknown-version-ignored": sample(signature=lambda correct: f"v9,AAAA {correct}"),
    "bytes-as-sent": sample(rewrite=_reformatted),
}
"""What is sent in place of the sample, and what must come back."""

TRANSPORT: Final[Mapping[str, Run[ReceiverContext]]] = {
    "https": _https,
    "charset": sample(headers={"Content-Type": "application/json; charset=utf-8"}),
    "header-case": _upper_case_headers,
    "no-json": sample(client_error, rewrite=lambda body: body[: len(body) // 2]),
    "other-json": sample(client_error, rewrite=lambda _: b"[1, null]"),
    "empty-body": sample(client_error, rewrite=lambda _: b""),
    "get": probe("GET"),
    "head": probe("HEAD"),
}
