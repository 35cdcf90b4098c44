"""Whether a receiver believes what the service has signed, and nothing else. For receivers of either side."""

import json
import os
from collections.abc import Callable
from typing import Final

from mercato.certify.model import Failed
from mercato.certify.sending import Message, Reply, Sender
from mercato.certify.statuses import no_crash, not_believed
from mercato.certify.suite import Group
from mercato.clock import new_id
from mercato.orders.replies import REFUSALS
from mercato.outbound.signing import new_secret
from mercato.wire import as_json

ACCEPTED: Final = "signature.accepted"
COMPARED: Final = "signature.wrong-key-refused"

HOUR: Final = 3600
"""Seconds: far outside any tolerance that verifiers of Standard Webhooks have."""

signatures: Final = Group[Sender](
    "signature",
    heading="Signatures: only what the service signed is believed",
    section="Specification 5.3; decisions 9",
    needs=ACCEPTED,
)

_VERIFY: Final = (
    "Verify webhook-signature with a Standard Webhooks library before anything else is read, and answer 401 when it "
    "does not verify. `mercato webhooks explain` tells what is wrong with a given one."
)
_EVERY: Final = (
    "A receiver may hold either secret while they are rotated: accept if any one signature verifies."
)


@signatures.check(
    "accepted",
    "A signed webhook is believed",
    proves="the secret is the right one, and the signature is computed over id, timestamp and body",
    advice="Check that --secret is the signing secret this receiver has. " + _VERIFY,
)
async def accepted(bench: Sender) -> str:
    """Send what is right in every way."""
    reply = await bench.send(bench.sample())
    if 400 <= reply.status < 500 and reply.status not in REFUSALS:  # noqa: PLR2004  # what 4xx means
        # What is no answer to an order says what the receiver thinks of the request.
        raise Failed(f"It answered {reply.status} to a webhook that is signed with the given secret.")
    return no_crash(reply)


def another_secret() -> str:
    """Return a secret that nobody has."""
    return new_secret(os.urandom)


@signatures.check(
    "missing-refused",
    "One without a signature is refused",
    needs=COMPARED,
    proves="the header is required, not only looked at when it is there",
    advice=_VERIFY,
)
async def missing(bench: Sender) -> str:
    """Leave the header out."""
    return not_believed(await bench.send(bench.sample().but(change={"webhook-signature": None})))


@signatures.check(
    "wrong-key-refused",
    "One signed with another key is refused",
    proves="the signature is computed and compared, with this receiver's own secret",
    advice=_VERIFY,
)
async def wrong_key(bench: Sender) -> str:
    """Sign with a secret that nobody has."""
    return not_believed(await bench.send(bench.sample().but(secrets=(another_secret(),))))


@signatures.check(
    "altered-body-refused",
    "One whose body was altered is refused",
    needs=COMPARED,
    proves="the whole body is part of what is verified",
    advice="Verify over the raw bytes of the request's body, all of them. " + _VERIFY,
)
async def altered_body(bench: Sender) -> str:
    """Change the body after signing."""
    message = bench.sample()
    document = json.loads(message.body)
    document["timestamp"] = "2030-01-01T00:00:00.000Z"
    return not_believed(await bench.send(message.but(sent=as_json(document))))


@signatures.check(
    "altered-id-refused",
    "One whose webhook-id was altered is refused",
    needs=COMPARED,
    proves="an old webhook can't be sent again under a new id, past the list of those that came",
    advice="The signed text is `webhook-id.webhook-timestamp.body`: take the id from the header. " + _VERIFY,
)
async def altered_id(bench: Sender) -> str:
    """Send another id than was signed."""
    other = str(new_id())
    change = {"webhook-id": other, "Idempotency-Key": other}
    return not_believed(await bench.send(bench.sample().but(change=change)))


@signatures.check(
    "altered-timestamp-refused",
    "One whose timestamp was altered is refused",
    needs=COMPARED,
    proves="an old webhook can't be made to look new",
    advice="The signed text is `webhook-id.webhook-timestamp.body`: take the timestamp from the header. "
    + _VERIFY,
)
async def altered_timestamp(bench: Sender) -> str:
    """Send a timestamp of now with a signature of a minute ago."""
    now = bench.headers(bench.sample())["webhook-timestamp"]
    message = bench.sample().but(late=60, change={"webhook-timestamp": now})
    return not_believed(await bench.send(message))


@signatures.check(
    "stale-refused",
    "One from an hour ago is refused",
    needs=COMPARED,
    proves="who records a webhook can't send it again later",
    advice="Refuse a webhook-timestamp that is more than 5 minutes old. If the clock here is wrong, set it.",
)
async def stale(bench: Sender) -> str:
    """Sign rightly, an hour ago."""
    return not_believed(await bench.send(bench.sample().but(late=HOUR)))


@signatures.check(
    "future-refused",
    "One from an hour ahead is refused",
    needs=COMPARED,
    proves="the tolerance for clocks has two ends",
    advice="Refuse a webhook-timestamp that is more than 5 minutes ahead, too.",
)
async def future(bench: Sender) -> str:
    """Sign rightly, in an hour."""
    return not_believed(await bench.send(bench.sample().but(late=-HOUR)))


@signatures.check(
    "no-timestamp-refused",
    "One without a timestamp is refused",
    needs=COMPARED,
    proves="a missing timestamp is not taken for now, or for none at all",
    advice="Require webhook-id, webhook-timestamp and webhook-signature, all three. " + _VERIFY,
)
async def no_timestamp(bench: Sender) -> str:
    """Leave the timestamp out."""
    return not_believed(await bench.send(bench.sample().but(change={"webhook-timestamp": None})))


@signatures.check(
    "other-version-refused",
    "A signature of another version is refused",
    needs=COMPARED,
    proves="only v1 is compared as v1",
    advice="Compare only the entries that begin with `v1,`; ignore the others. " + _VERIFY,
)
async def other_version(bench: Sender) -> str:
    """Send the right digest under a version that does not exist."""
    return not_believed(await _signed_as(bench, lambda right: right.replace("v1,", "v9,")))


@signatures.check(
    "bare-refused",
    "A signature without its prefix is refused",
    needs=COMPARED,
    proves="the header's form is checked, not searched",
    advice="An entry is `v1,` and base64: what has no prefix is no signature. " + _VERIFY,
)
async def bare(bench: Sender) -> str:
    """Send the right digest without `v1,`."""
    return not_believed(await _signed_as(bench, lambda right: right.removeprefix("v1,")))


@signatures.check(
    "shortened-refused",
    "The beginning of a signature is refused",
    needs=COMPARED,
    proves="signatures are compared whole",
    advice="Compare digests of equal length in constant time (hmac.compare_digest, timingSafeEqual). "
    + _VERIFY,
)
async def shortened(bench: Sender) -> str:
    """Send the first bytes of the right signature."""
    return not_believed(await _signed_as(bench, lambda right: right[:11]))


@signatures.check(
    "empty-refused",
    "An empty signature is refused",
    needs=COMPARED,
    proves="nothing is not taken for something that fits",
    advice="Compare digests of equal length. " + _VERIFY,
)
async def empty(bench: Sender) -> str:
    """Send `v1,` and nothing."""
    return not_believed(await _signed_as(bench, lambda _: "v1,"))


@signatures.check(
    "several-wrong-refused",
    "Several signatures, none right, are refused",
    needs=COMPARED,
    proves="having many is not enough",
    advice=_VERIFY,
)
async def several_wrong(bench: Sender) -> str:
    """Sign with two secrets that nobody has."""
    secrets = another_secret(), another_secret()
    return not_believed(await bench.send(bench.sample().but(secrets=secrets)))


@signatures.check(
    "rotation-first",
    "In a rotation, the first may be right",
    proves="a rotated secret interrupts nothing when this receiver already has the new one",
    advice=_EVERY,
)
async def rotation_first(bench: Sender) -> str:
    """Sign with ours, then with another."""
    return await _believed(bench, bench.sample().but(secrets=(bench.receiver.secret, another_secret())))


@signatures.check(
    "rotation-second",
    "In a rotation, the second may be right",
    proves="a rotated secret interrupts nothing while this receiver still has the old one",
    advice=_EVERY,
)
async def rotation_second(bench: Sender) -> str:
    """Sign with another, then with ours."""
    return await _believed(bench, bench.sample().but(secrets=(another_secret(), bench.receiver.secret)))


@signatures.check(
    "unknown-version-ignored",
    "An unknown version beside v1 is ignored",
    proves="a later kind of signature can be added without breaking this receiver",
    advice="Skip entries of webhook-signature with a version that you do not know. " + _EVERY,
)
async def unknown_version(bench: Sender) -> str:
    """Send a version of the future first."""
    message = bench.sample()
    right = bench.headers(message)["webhook-signature"]
    return await _believed(bench, message.but(change={"webhook-signature": f"v9,AAAA {right}"}))


@signatures.check(
    "bytes-as-sent",
    "The bytes are verified, not what they mean",
    proves="white space and escapes of the body make no difference to the verification",
    advice="Verify over the raw bytes, before any JSON parser: a body that is written anew is another one.",
)
async def bytes_as_sent(bench: Sender) -> str:
    """Sign a body that is laid out in an unusual way."""
    message = bench.sample()
    document = json.loads(message.body)
    document["x-note"] = "Ad\u00e9le / \U0001f355"
    body = json.dumps(document, indent=3, sort_keys=True).replace("/", "\\/").encode()
    return await _believed(bench, message.but(body=body))


async def _signed_as(bench: Sender, change: Callable[[str], str]) -> Reply:
    message = bench.sample()
    right = bench.headers(message)["webhook-signature"]
    return await bench.send(message.but(change={"webhook-signature": change(right)}))


async def _believed(bench: Sender, message: Message) -> str:
    """Send what has to be believed. Raises Failed when it is not."""
    return bench.believed(await bench.send(message))
