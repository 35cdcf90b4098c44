"""Decisions §2: the signature clinic says what a Standard Webhooks verifier says, and why."""

import base64
import hashlib
import hmac
import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from standardwebhooks import Webhook as Verifier

from mercato.domain.webhooks.debugger import findings
from mercato.domain.webhooks.debugger.bodies import candidate_bodies, find_difference
from mercato.domain.webhooks.debugger.explain import (
    Secret,
    SecretOrigin,
    Sent,
    SignatureExplanation,
    Webhook,
    explain,
)
from mercato.kernel.outbound.signing import new_secret, sign
from mercato.kernel.wire import as_json

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECONDS = int(NOW.timestamp())
ID = "01963f5e-7e3b-7ccc-8000-0000000000a1"
DELIVERY = UUID("01963f5e-7e3b-7ccc-8000-0000000000d1")
NEW, OLD, STRANGE = (new_secret(bytes([seed]).__mul__) for seed in (0xFB, 0x3E, 7))
BODY = '{"type":"order.created","data":{"name":"Crème brûlée / <b>","amounts":["2.50",1]}}'.encode()


def headers(body: bytes = BODY, *, secrets: tuple[str, ...] = (NEW,), **changes: str) -> dict[str, str]:
    signature = sign(webhook_id=ID, timestamp=SECONDS, body=body, secrets=secrets)
    made = {"webhook-id": ID, "webhook-timestamp": str(SECONDS), "webhook-signature": signature}
    return made | {name.replace("_", "-"): value for name, value in changes.items()}


def told(
    body: bytes = BODY,
    sent: dict[str, str] | None = None,
    *,
    secrets: tuple[str, ...] = (NEW,),
    own: tuple[str, ...] = (),
    copy: Sent | None = None,
    computed: str | None = None,
    received_at: datetime | None = None,
    now: datetime = NOW,
) -> SignatureExplanation:
    states = (SecretOrigin.CURRENT, SecretOrigin.PREVIOUS)
    return explain(
        Webhook(
            headers=headers() if sent is None else sent,
            body=body,
            received_at=received_at,
            computed=computed,
        ),
        secrets=[Secret(text, SecretOrigin.GIVEN, index) for index, text in enumerate(secrets)],
        others=[
            Secret(text, whose, index) for index, (text, whose) in enumerate(zip(own, states, strict=False))
        ],
        sent=[] if copy is None else [copy],
        now=now,
    )


def codes(made: SignatureExplanation) -> set[str]:
    return {finding.code for finding in made.findings}


def signed_by(key: bytes, content: bytes) -> str:
    return "v1," + base64.b64encode(hmac.digest(key, content, "sha256")).decode()


def raw(secret: str) -> bytes:
    return base64.b64decode(secret.removeprefix("whsec_"))


CONTENT = f"{ID}.{SECONDS}.".encode() + BODY


# --- valid ------------------------------------------------------------------------------------------


def test_a_right_signature_is_valid_and_nothing_is_found():
    made = told()
    assert (made.valid, made.code, made.findings, made.signed_with) == (True, "VALID", [], "given")
    assert (made.skew_seconds, made.difference, made.secret_index) == (0, None, 0)


def test_of_two_signatures_one_has_to_fit():
    made = told(sent=headers(secrets=(STRANGE, NEW)))
    assert (made.valid, codes(made)) == (True, {"SEVERAL_SIGNATURES"})


def test_a_signature_of_another_version_beside_ours_is_of_no_consequence():
    sent = headers()
    sent["webhook-signature"] = "v1a,AAAA " + sent["webhook-signature"]
    made = told(sent=sent)
    assert (made.valid, codes(made)) == (True, {"SIGNATURE_VERSION"})


def test_header_names_have_any_letter_case():
    assert told(sent={name.title(): value for name, value in headers().items()}).valid


# --- keys -------------------------------------------------------------------------------------------


def test_a_wrong_key_is_told_and_whether_it_is_the_accounts_own():
    assert told(secrets=(STRANGE,)).code == "WRONG_KEY"
    made = told(secrets=(STRANGE,), own=(NEW, OLD))
    assert (made.valid, made.code, made.signed_with) == (False, "WRONG_KEY", "current")
    assert "present secret" in made.message


def test_the_old_key_of_a_rotation_is_told():
    made = told(sent=headers(secrets=(OLD,)), own=(NEW, OLD))
    assert (made.valid, made.code, made.signed_with) == (False, "OLD_KEY", "previous")
    both = told(sent=headers(secrets=(OLD,)), secrets=(NEW, OLD))
    assert (both.valid, codes(both), both.secret_index) == (True, {"OLD_KEY"}, 1)


WRONG_KEYS = {
    "prefix kept": (NEW.encode(), "WRONG_PREFIX"),
    "decoded with its prefix": (base64.b64decode(NEW + "=="), "WRONG_PREFIX"),
    "not decoded": (NEW.removeprefix("whsec_").encode(), "KEY_NOT_DECODED"),
    "in hexadecimal": (raw(NEW).hex().encode(), "KEY_NOT_DECODED"),
    "with the line break of a file": (NEW.encode() + b"\n", "WRONG_PREFIX"),
}


@pytest.mark.parametrize("name", WRONG_KEYS)
def test_a_key_wrongly_made_of_the_secret_is_told(name: str):
    key, code = WRONG_KEYS[name]
    sent = headers(webhook_signature=signed_by(key, CONTENT))
    assert told(sent=sent).code == code
    # The same, seen from the signature that somebody's own code came to.
    mine = told(computed=signed_by(key, CONTENT))
    assert (mine.valid, codes(mine)) == (True, {code})


def test_a_secret_without_its_prefix_works_and_is_noted():
    made = told(secrets=(NEW.removeprefix("whsec_"),))
    assert (made.valid, codes(made)) == (True, {"WRONG_PREFIX"})


@pytest.mark.parametrize(
    "text", ["mk_commerce_abc", "whpk_AAAA", "", " ", "whsec_", "whsec_!!", f'"{NEW}"'], ids=repr
)
def test_what_is_no_secret_is_told(text: str):
    made = told(secrets=(text,))
    assert (made.valid, made.code) == (False, "KEY_UNUSABLE")


# --- bodies -----------------------------------------------------------------------------------------

PARSED: Any = json.loads(BODY)
REWRITTEN = {
    "indented": json.dumps(PARSED, indent=2, ensure_ascii=False).encode(),
    "blanks": json.dumps(PARSED, ensure_ascii=False).encode(),
    "escaped": json.dumps(PARSED, separators=(",", ":")).encode(),
    "both": json.dumps(PARSED).encode(),
    "html": BODY.replace(b"<", b"\\u003c").replace(b">", b"\\u003e"),
    "slashes": BODY.replace(b"/", b"\\/"),
    "newline": BODY + b"\n",
    "crlf": BODY + b"\r\n",
    "bom": b"\xef\xbb\xbf" + BODY,
    "blank around": b"  " + BODY + b"  ",
    "latin-1": BODY.decode("latin-1").encode(),
    "base64": base64.b64encode(BODY),
    "json in json": json.dumps(BODY.decode()).encode(),
}


@pytest.mark.parametrize("name", REWRITTEN)
def test_a_body_that_was_written_anew_is_told_with_the_place_where_it_first_differs(name: str):
    received = REWRITTEN[name]
    made = told(received)
    assert (made.valid, made.code, made.signed_with) == (False, "BODY_RESERIALISED", "given")
    assert made.difference is not None
    at = made.difference.offset
    assert BODY[:at] == received[:at]
    assert BODY[at : at + 1] != received[at : at + 1]
    assert f"byte {at} " in made.message


def test_sorted_keys_are_told():
    tidy = b'{"a":1,"b":{"c":"x","d":[2]}}'
    made = told(b'{"b":{"d":[2],"c":"x"},"a":1}', headers(tidy))
    assert made.code == "BODY_RESERIALISED"
    assert "sorted" in made.message


def test_line_ends_are_told():
    made = told(b'{\r\n"a": 1\r\n}', headers(b'{\n"a": 1\n}'))
    assert (made.code, made.difference and made.difference.offset) == ("BODY_RESERIALISED", 1)


def test_an_emptied_body_is_told_by_the_copy():
    copy = Sent(delivery_id=DELIVERY, webhook_id=ID, body=BODY)
    made = told(b"", copy=copy)
    assert (made.code, made.difference and made.difference.offset) == ("BODY_CHANGED", 0)


def test_a_changed_body_is_compared_with_the_copy_of_what_was_sent():
    received = BODY.replace(b"2.50", b"2.5")
    alone = told(received)
    assert (alone.code, alone.difference) == ("WRONG_KEY", None)
    made = told(received, copy=Sent(delivery_id=DELIVERY, webhook_id=ID, body=BODY))
    assert (made.code, made.delivery_id, codes(made)) == ("BODY_CHANGED", DELIVERY, {"BODY_CHANGED"})
    assert made.difference is not None
    assert made.difference.offset == BODY.index(b'0",1')
    assert (made.difference.line, made.difference.column) == (
        1,
        len(BODY[: made.difference.offset].decode()) + 1,
    )
    assert "2.50" in made.difference.signed
    assert "2.50" not in made.difference.received


def test_a_wrong_key_is_certain_when_the_copy_is_the_same():
    made = told(secrets=(STRANGE,), copy=Sent(delivery_id=DELIVERY, webhook_id=ID, body=BODY))
    assert codes(made) == {"WRONG_KEY"}
    assert "are those that were sent" in made.message


def test_a_right_signature_of_another_webhook_than_the_copy_is_still_right():
    copy = Sent(delivery_id=DELIVERY, webhook_id="01963f5e-7e3b-7ccc-8000-0000000000a2", body=b"{}")
    made = told(copy=copy)
    assert (made.valid, codes(made)) == (True, {"BODY_CHANGED", "ID_CHANGED"})


# --- headers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["svix-{}", "x-webhook-{}", "webhook_{}", "HTTP_WEBHOOK_{}"])
def test_headers_under_other_names_are_told(form: str):
    sent = {form.format(part): headers()[f"webhook-{part}"] for part in ("id", "timestamp", "signature")}
    made = told(sent=sent)
    assert (made.valid, made.code, codes(made)) == (False, "WRONG_HEADER", {"WRONG_HEADER"})
    assert made.signed_with == "given"


@pytest.mark.parametrize("part", ["id", "timestamp", "signature"])
def test_a_missing_header_is_named(part: str):
    sent = headers()
    del sent[f"webhook-{part}"]
    made = told(sent=sent)
    assert (made.valid, made.code) == (False, "MISSING_HEADER")
    assert f"webhook-{part}" in made.message
    assert told(sent=sent | {f"webhook-{part}": ""}).code == "MISSING_HEADER"


def test_an_altered_id_is_told_by_the_copy_or_by_the_idempotency_key():
    sent = headers(webhook_id="01963f5e-7e3b-7ccc-8000-0000000000ff")
    made = told(sent=sent, copy=Sent(delivery_id=DELIVERY, webhook_id=ID, body=BODY))
    assert (made.code, codes(made)) == ("ID_CHANGED", {"ID_CHANGED"})
    assert told(sent=sent | {"Idempotency-Key": ID}).code == "ID_CHANGED"
    assert told(sent=headers(webhook_id=ID.upper())).code == "ID_CHANGED"


def test_an_altered_timestamp_is_told_by_the_attempts():
    sent = headers(webhook_timestamp=str(SECONDS + 17))
    copy = Sent(delivery_id=DELIVERY, webhook_id=ID, body=BODY, times=(SECONDS - 40, SECONDS))
    assert told(sent=sent, copy=copy).code == "TIMESTAMP_CHANGED"
    assert told(sent=headers(webhook_timestamp=f"{SECONDS}000")).code == "TIMESTAMP_UNREADABLE"
    assert told(sent=headers(webhook_timestamp="yesterday")).code == "TIMESTAMP_UNREADABLE"


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda digest: "v1," + digest.hex(), "SIGNATURE_HEX"),
        (lambda digest: digest.hex(), "SIGNATURE_HEX"),
        (lambda digest: "v1," + base64.b64encode(digest.hex().encode()).decode(), "SIGNATURE_HEX"),
        (lambda digest: base64.b64encode(digest).decode(), "SIGNATURE_VERSION"),
        (lambda digest: "v2," + base64.b64encode(digest).decode(), "SIGNATURE_VERSION"),
        (lambda digest: "v1a," + base64.b64encode(digest * 2).decode(), "SIGNATURE_VERSION"),
        (lambda digest: "v1," + base64.b64encode(digest).decode().rstrip("="), "SIGNATURE_UNREADABLE"),
        (lambda digest: "v1," + base64.urlsafe_b64encode(digest).decode().rstrip("="), "SIGNATURE_UNREADABLE"),
        (lambda digest: "v1," + base64.b64encode(digest).decode()[:20], "SIGNATURE_UNREADABLE"),
        (lambda digest: ",".join(["v1," + base64.b64encode(digest).decode()] * 2), "SIGNATURE_UNREADABLE"),
        (lambda digest: "v1=" + base64.b64encode(digest).decode(), "SIGNATURE_VERSION"),
        (lambda _digest: "v1,", "SIGNATURE_UNREADABLE"),
    ],
    ids=["hex", "bare-hex", "hex-in-base64", "bare", "v2", "v1a", "unpadded", "urlsafe", "cut", "joined", "=", "none"],
)  # fmt: skip
def test_a_signature_in_another_form_is_told(make: Any, code: str):
    digest = hmac.digest(raw(NEW), CONTENT, "sha256")
    made = told(sent=headers(webhook_signature=make(digest)))
    assert not made.valid
    assert code in codes(made)
    assert made.code == code


@pytest.mark.parametrize(
    "content",
    [
        BODY,
        f"{SECONDS}.".encode() + BODY,
        f"{ID}.".encode() + BODY,
        f"{ID}{SECONDS}".encode() + BODY,
        f"{SECONDS}.{ID}.".encode() + BODY,
        f"{ID}.{SECONDS}.".encode(),
    ],
    ids=["body", "no-id", "no-timestamp", "no-dots", "order", "no-body"],
)
def test_content_put_together_wrongly_is_told(content: bytes):
    made = told(sent=headers(webhook_signature=signed_by(raw(NEW), content)))
    assert made.code in {"WRONG_CONTENT", "BODY_RESERIALISED"}
    assert not made.valid
    mine = told(computed=signed_by(NEW.encode(), content).removeprefix("v1,"))
    assert mine.valid
    assert len(codes(mine)) == 1


def test_a_computed_signature_may_be_right_or_unknown():
    assert codes(told(computed=hmac.new(raw(NEW), CONTENT, hashlib.sha256).hexdigest())) == {"COMPUTED_RIGHT"}
    assert codes(told(computed="what?")) == {"COMPUTED_UNKNOWN"}


# --- time -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("off", [-301, -300, 0, 300, 301, 86_400])
def test_a_clock_may_be_five_minutes_off_and_the_rest_is_told_in_seconds(off: int):
    made = told(now=NOW + timedelta(seconds=off))
    assert made.skew_seconds == -off
    assert made.valid is (abs(off) <= 300)
    if not made.valid:
        assert (made.code, f"{abs(off)} s" in made.message) == ("CLOCK_SKEW", True)


def test_what_was_received_in_time_may_be_asked_about_later():
    later = NOW + timedelta(days=3)
    assert told(now=later).code == "CLOCK_SKEW"
    assert told(now=later, received_at=NOW + timedelta(seconds=2)).valid


# --- and in general ---------------------------------------------------------------------------------

TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=20)
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def verified(body: bytes, sent: dict[str, str], secret: str) -> bool:
    with patch("standardwebhooks.webhooks.datetime", wraps=datetime) as clock:
        clock.now.return_value = NOW
        clock.fromtimestamp = datetime.fromtimestamp
        try:
            Verifier(secret).verify(body, sent, json_parse=False)
        except Exception:  # noqa: BLE001  # whatever it refuses with
            return False
    return True


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    body=DOCUMENTS.map(as_json) | st.binary(max_size=40).filter(lambda b: b.isascii()),
    change=st.sampled_from(
        ["", "body", "id", "timestamp", "signature", "secret", "late", "svix", "hex", "two", "v1a", "joined"]
    ),
)
def test_what_is_valid_here_is_what_the_library_verifies(body: bytes, change: str):
    sent, received, secret = headers(body), body, NEW
    match change:
        case "body":
            received = body + b" "
        case "id":
            sent["webhook-id"] += "x"
        case "timestamp":
            sent["webhook-timestamp"] = str(SECONDS + 1)
        case "signature":
            sent["webhook-signature"] = "v1," + "A" * 43 + "="
        case "secret":
            secret = STRANGE
        case "late":
            sent["webhook-timestamp"] = str(SECONDS - 1000)
        case "svix":
            sent = {name.replace("webhook", "svix"): value for name, value in sent.items()}
        case "hex":
            digest = base64.b64decode(sent["webhook-signature"].removeprefix("v1,"))
            sent["webhook-signature"] = "v1," + digest.hex()
        case "two":
            sent = headers(body, secrets=(STRANGE, NEW))
        case "v1a":
            sent["webhook-signature"] = "v1a,AAAA " + sent["webhook-signature"]
        case "joined":
            sent["webhook-signature"] = ",".join([sent["webhook-signature"]] * 2)
    made = told(received, sent, secrets=(secret,))
    assert made.valid is verified(received, sent, secret)
    assert made.valid is (change in {"", "two", "v1a"})


@settings(max_examples=100, deadline=None)
@given(
    body=st.binary(max_size=60) | TEXTS.map(str.encode),
    sent=st.dictionaries(
        st.sampled_from(["webhook-id", "webhook-timestamp", "webhook-signature", "svix-id", "x", ""]), TEXTS
    ),
    secret=TEXTS | st.just(NEW),
    computed=st.none() | TEXTS,
)
def test_nothing_makes_it_stumble(body: bytes, sent: dict[str, str], secret: str, computed: str | None):
    made = told(body, sent, secrets=(secret,), computed=computed)
    assert not made.valid
    assert made.findings[0].code == made.code


@settings(max_examples=100, deadline=None)
@given(document=DOCUMENTS, indent=st.sampled_from([None, 1, 2, 4]), ascii_only=st.booleans())
def test_whatever_document_is_printed_anew_is_recognised(document: Any, indent: int | None, ascii_only: bool):
    body = as_json(document)
    received = json.dumps(document, indent=indent, ensure_ascii=ascii_only).encode()
    made = told(received, headers(body))
    assert made.code == ("VALID" if received == body else "BODY_RESERIALISED")


@given(body=st.binary(max_size=60), at=st.integers(0, 60), byte=st.integers(0, 255))
def test_the_first_difference_is_where_two_bodies_part(body: bytes, at: int, byte: int):
    other = body[:at] + bytes([byte]) + body[at + 1 :]
    found = find_difference(body, other)
    if found is None:
        assert body == other
    else:
        assert body[: found.offset] == other[: found.offset]
        assert body[found.offset : found.offset + 1] != other[found.offset : found.offset + 1]


def test_no_secret_is_ever_repeated():
    leaky = b'{"a":"' + NEW.encode() + b'","b":[1, 2]}'
    for received in (leaky, leaky + b"\n", leaky.replace(b"[1, 2]", b"[1,2]"), b'{"x":' + leaky):
        for secrets in ((NEW, OLD), (STRANGE,), (NEW[:-1],), (f" {NEW}",)):
            copy = Sent(delivery_id=DELIVERY, webhook_id=ID, body=leaky)
            sent = headers(leaky) | {NEW: NEW, "webhook-id": NEW}
            made = told(received, sent, secrets=secrets, own=(NEW,), copy=copy, computed=NEW)
            text = as_json(made).decode()
            assert not any(part in text for part in (NEW[6:20], OLD[6:20], NEW[-12:], STRANGE[6:20]))


def test_the_work_is_bounded_whatever_the_body():
    big = json.dumps([1] * 43_000).encode()
    began = time.process_time()
    made = told(big, headers(b"{}"), secrets=(NEW, OLD, STRANGE, NEW + "A", OLD + "A"), own=(NEW, OLD))
    assert not made.valid
    assert time.process_time() - began < 2
    deep = b"[" * 100_000
    assert told(deep, headers(b"{}")).code == "WRONG_KEY"
    assert len(list(candidate_bodies(deep))) < 12


# --- texts ------------------------------------------------------------------------------------------


def test_every_text_of_a_finding_is_used():
    package = Path(findings.__file__).parent
    source = "".join(path.read_text() for path in package.glob("*.py"))
    names = findings.texts().keys() - {"shared", "layouts"}
    assert {name for name in names if f'"{name}"' not in source} == set()
