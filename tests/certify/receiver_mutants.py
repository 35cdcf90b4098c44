"""Webhook receivers of either side with one bug each: in their verification, or with unusual requests."""

import base64
import hmac
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web
from tests.certify.mutants import Mutants

from mercato_client.testing import Double
from mercato_contract.signing import signing_key

SECRET = "whsec_" + base64.b64encode(b"certify this merchant, 32 bytes!").decode()
TOLERANCE = 300

MUTANTS = Mutants[Double]()
"""By the check that has to find it, without the kind of implementation."""

fails = MUTANTS.fails


class Verifying(Double):
    """Verifies in small steps that mutants replace."""

    def fault_of(self, headers: Mapping[str, str], body: bytes) -> str | None:
        try:
            stamp, given = headers["webhook-timestamp"], headers["webhook-signature"]
            if not self.in_time(int(stamp), time.time()):
                return "too late or too early"
            texts = self.texts(headers["webhook-id"], stamp, body)
        except (KeyError, ValueError):
            return self.incomplete(headers)
        rights = [
            base64.b64encode(hmac.digest(signing_key(SECRET), text, "sha256")).decode() for text in texts
        ]
        good = any(self.same(right, one) for right in rights for one in self.entries(given))
        return None if good else "no signature is right"

    def incomplete(self, headers: Mapping[str, str]) -> str | None:
        return "a header is missing"

    def in_time(self, stamp: int, now: float) -> bool:
        return abs(now - stamp) < TOLERANCE

    def texts(self, webhook_id: str, stamp: str, body: bytes) -> list[bytes]:
        return [f"{webhook_id}.{stamp}.".encode() + self.read_body(body)]

    def read_body(self, body: bytes) -> bytes:
        return body

    def entries(self, header: str) -> list[str]:
        return [part[3:] for part in header.split(" ") if part.startswith("v1,")]

    def same(self, right: str, given: str) -> bool:
        return hmac.compare_digest(right, given)


# --- signatures -----------------------------------------------------------------------------------


@fails("signature.accepted")
class AcceptsNothing(Verifying):
    def fault_of(self, headers: Mapping[str, str], body: bytes) -> str | None:
        return "no"


@fails("signature.missing-refused")
class NeedsNoSignature(Verifying):
    def fault_of(self, headers: Mapping[str, str], body: bytes) -> str | None:
        return super().fault_of(headers, body) if "webhook-signature" in headers else None


@fails("signature.wrong-key-refused")
class ComparesNothing(Verifying):
    def fault_of(self, headers: Mapping[str, str], body: bytes) -> str | None:
        return None if "webhook-signature" in headers else "missing"


@fails("signature.altered-timestamp-refused")
class AcceptsTimestampsNearby(Verifying):
    def texts(self, webhook_id: str, stamp: str, body: bytes) -> list[bytes]:
        around = range(int(stamp) - 65, int(stamp) + 1)
        return [f"{webhook_id}.{second}.".encode() + body for second in around]


@fails("signature.stale-refused")
class AcceptsOldTimestamps(Verifying):
    def in_time(self, stamp: int, now: float) -> bool:
        return stamp < now + TOLERANCE


@fails("signature.future-refused")
class AcceptsFutureTimestamps(Verifying):
    def in_time(self, stamp: int, now: float) -> bool:
        return stamp > now - TOLERANCE


@fails("signature.no-timestamp-refused")
class NeedsNoTimestamp(Verifying):
    def incomplete(self, headers: Mapping[str, str]) -> str | None:
        return None if "webhook-timestamp" not in headers else "incomplete"


@fails("signature.other-version-refused")
class AcceptsAnyVersion(Verifying):
    def entries(self, header: str) -> list[str]:
        return [part.partition(",")[2] for part in header.split(" ") if "," in part]


@fails("signature.bare-refused")
class NeedsNoPrefix(Verifying):
    def entries(self, header: str) -> list[str]:
        return [part.removeprefix("v1,") for part in header.split(" ")]


@fails("signature.shortened-refused")
class ComparesTheStart(Verifying):
    def same(self, right: str, given: str) -> bool:
        return given != "" and right.startswith(given)


@fails("signature.empty-refused")
class AcceptsAnEmptySignature(Verifying):
    def same(self, right: str, given: str) -> bool:
        return given in {right, ""}


@fails("signature.several-wrong-refused")
class CountsSignatures(Verifying):
    def fault_of(self, headers: Mapping[str, str], body: bytes) -> str | None:
        many = len(self.entries(headers.get("webhook-signature", ""))) > 1
        return None if many else super().fault_of(headers, body)


@fails("signature.rotation-first")
class ReadsTheLastSignature(Verifying):
    def entries(self, header: str) -> list[str]:
        return super().entries(header)[-1:]


@fails("signature.rotation-second")
class ReadsTheFirstSignature(Verifying):
    def entries(self, header: str) -> list[str]:
        return super().entries(header)[:1]


@fails("signature.unknown-version-ignored")
class KnowsOneVersion(Verifying):
    def entries(self, header: str) -> list[str]:
        known = all(part.startswith("v1,") for part in header.split(" "))
        return super().entries(header) if known else []


@fails("signature.bytes-as-sent")
class VerifiesWhatItParsed(Verifying):
    def read_body(self, body: bytes) -> bytes:
        try:
            return json.dumps(json.loads(body), separators=(",", ":"), ensure_ascii=False).encode()
        except ValueError:
            return body


# --- transport ------------------------------------------------------------------------------------


class Crashing(Verifying):
    """Answers requests of one kind with a 500."""

    status = 500

    async def take(self, request: web.Request) -> web.StreamResponse:
        if self.is_hit(request, await request.read()):
            return web.Response(status=self.status)
        return await super().take(request)

    def is_hit(self, request: web.Request, body: bytes) -> bool:
        raise NotImplementedError


def crashes(check: str, is_hit: Callable[[Any, web.Request, bytes], bool]) -> None:
    fails(check)(type("Crashing", (Crashing,), {"is_hit": is_hit}))


crashes("transport.charset", lambda _, request, __: "charset" in request.headers["Content-Type"])
crashes(
    "transport.header-case",
    lambda _, request, __: any(name == b"WEBHOOK-ID" for name, _ in request.raw_headers),
)
crashes("transport.no-json", lambda _, __, body: body.startswith(b"{") and not body.endswith(b"}"))
crashes("transport.other-json", lambda _, __, body: body.startswith(b"["))
crashes("transport.empty-body", lambda _, __, body: body == b"")

UNMUTATED = {
    "signature.altered-body-refused": "a receiver that computes signatures without the body accepts nothing at all",
    "signature.altered-id-refused": "a receiver that computes signatures without the id accepts nothing at all",
    "transport.https": "the doubles are on loopback",
}
"""Checks without a mutant, and why."""
