"""The signature debugger agrees with a Standard Webhooks verifier, and says why."""

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from standardwebhooks import Webhook as Verifier
from tests.calibration import cpu_within

from mercato_contract.debugger import findings
from mercato_contract.debugger.bodies import candidate_bodies, find_difference
from mercato_contract.debugger.explain import (
    Secret,
    SecretOrigin,
    SentDelivery,
    SignatureExplanation,
    Webhook,
    explain,
)
from mercato_contract.signing import new_secret, sign
from mercato_contract.wire import as_json

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


def explained(
    body: bytes = BODY,
    sent: dict[str, str] | None = None,
    *,
    secrets: tuple[str, ...] = (NEW,),
    own: tuple[str, ...] = (),
    copy: SentDelivery | None = None,
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
    made = explained()
    assert (made.valid, made.code, made.findings, made.signed_with) == (True, "VALID", [], "given")
    assert (made.skew_seconds, made.difference, made.secret_index) == (0, None, 0)


def test_one_of_two_signatures_has_to_match():
    made = explained(sent=headers(secrets=(STRANGE, NEW)))
    assert (made.valid, codes(made)) == (True, {"SEVERAL_SIGNATURES"})


def test_a_signature_of_another_version_beside_v1_is_ignored():
    sent = headers()
    sent["webhook-signature"] = "v1a,AAAA " + sent["webhook-signature"]
    made = explained(sent=sent)
    assert (made.valid, codes(made)) == (True, {"SIGNATURE_VERSION"})


def test_header_names_have_any_letter_case():
    assert explained(sent={name.title(): value for name, value in headers().items()}).valid


# --- keys -------------------------------------------------------------------------------------------


def test_a_wrong_key_is_reported_and_whether_it_is_the_accounts_own():
    assert explained(secrets=(STRANGE,)).code == "WRONG_KEY"
    made = explained(secrets=(STRANGE,), own=(NEW, OLD))
    assert (made.valid, made.code, made.signed_with) == (False, "WRONG_KEY", "current")
    assert "present secret" in made.message


def test_the_old_key_of_a_rotation_is_reported():
    made = explained(sent=headers(secrets=(OLD,)), own=(NEW, OLD))
    assert (made.valid, made.code, made.signed_with) == (False, "OLD_KEY", "previous")
    both = explained(sent=headers(secrets=(OLD,)), secrets=(NEW, OLD))
    assert (both.valid, codes(both), both.secret_index) == (True, {"OLD_KEY"}, 1)


WRONG_KEYS = {
    "prefix kept": (NEW.encode(), "WRONG_PREFIX"),
    "decoded with its prefix": (base64.b64decode(NEW + "=="), "WRONG_PREFIX"),
    "not decoded": (NEW.removeprefix("whsec_").encode(), "KEY_NOT_DECODED"),
    "in hexadecimal": (raw(NEW).hex().encode(), "KEY_NOT_DECODED"),
    "with the line break of a file": (NEW.encode() + b"\n", "WRONG_PREFIX"),
}


@pytest.mark.parametrize("name", WRONG_KEYS)
def test_a_key_wrongly_made_of_the_secret_is_reported(name: str):
    key, code = WRONG_KEYS[name]
    sent = headers(webhook_signature=signed_by(key, CONTENT))
    assert explained(sent=sent).code == code
    # The same mistake in the signature that the receiver computed.
    mine = explained(computed=signed_by(key, CONTENT))
    assert (mine.valid, codes(mine)) == (True, {code})


def test_a_secret_without_its_prefix_works_and_is_noted():
    made = explained(secrets=(NEW.removeprefix("whsec_"),))
    assert (made.valid, codes(made)) == (True, {"WRONG_PREFIX"})


@pytest.mark.parametrize(
    "text", ["mk_commerce_abc", "whpk_AAAA", "", " ", "whsec_", "whsec_!!", f'"{NEW}"'], ids=repr
)
def test_a_text_that_is_not_a_secret_is_reported(text: str):
    made = explained(secrets=(text,))
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
def test_a_reserialised_body_is_reported_with_the_first_difference(name: str):
    received = REWRITTEN[name]
    made = explained(received)
    assert (made.valid, made.code, made.signed_with) == (False, "BODY_RESERIALISED", "given")
    assert made.difference is not None
    at = made.difference.offset
    assert BODY[:at] == received[:at]
    assert BODY[at : at + 1] != received[at : at + 1]
    assert f"byte {at} " in made.message


def test_sorted_keys_are_reported():
    tidy = b'{"a":1,"b":{"c":"x","d":[2]}}'
    made = explained(b'{"b":{"d":[2],"c":"x"},"a":1}', headers(tidy))
    assert made.code == "BODY_RESERIALISED"
    assert "sorted" in made.message


def test_changed_line_ends_are_reported():
    made = explained(b'{\r\n"a": 1\r\n}', headers(b'{\n"a": 1\n}'))
    assert (made.code, made.difference and made.difference.offset) == ("BODY_RESERIALISED", 1)


def test_an_empty_body_is_reported_by_the_delivery():
    copy = SentDelivery(delivery_id=DELIVERY, webhook_id=ID, body=BODY)
    made = explained(b"", copy=copy)
    assert (made.code, made.difference and made.difference.offset) == ("BODY_CHANGED", 0)


def test_a_changed_body_is_compared_with_the_delivery():
    received = BODY.replace(b"2.50", b"2.5")
    alone = explained(received)
    assert (alone.code, alone.difference) == ("WRONG_KEY", None)
    made = explained(received, copy=SentDelivery(delivery_id=DELIVERY, webhook_id=ID, body=BODY))
    assert (made.code, made.delivery_id, codes(made)) == ("BODY_CHANGED", DELIVERY, {"BODY_CHANGED"})
    assert made.difference is not None
    assert made.difference.offset == BODY.index(b'0",1')
    assert (made.difference.line, made.difference.column) == (
        1,
        len(BODY[: made.difference.offset].decode()) + 1,
    )
    assert "2.50" in made.difference.signed
    assert "2.50" not in made.difference.received


def test_a_wrong_key_is_certain_if_the_delivery_has_the_same_body():
    made = explained(secrets=(STRANGE,), copy=SentDelivery(delivery_id=DELIVERY, webhook_id=ID, body=BODY))
    assert codes(made) == {"WRONG_KEY"}
    assert "are those that were sent" in made.message


def test_a_right_signature_of_another_webhook_than_the_delivery_is_valid():
    copy = SentDelivery(delivery_id=DELIVERY, webhook_id="01963f5e-7e3b-7ccc-8000-0000000000a2", body=b"{}")
    made = explained(copy=copy)
    assert (made.valid, codes(made)) == (True, {"BODY_CHANGED", "ID_CHANGED"})


# --- headers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["svix-{}", "x-webhook-{}", "webhook_{}", "HTTP_WEBHOOK_{}"])
def test_renamed_headers_are_reported(form: str):
    sent = {form.format(part): headers()[f"webhook-{part}"] for part in ("id", "timestamp", "signature")}
    made = explained(sent=sent)
    assert (made.valid, made.code, codes(made)) == (False, "WRONG_HEADER", {"WRONG_HEADER"})
    assert made.signed_with == "given"


@pytest.mark.parametrize("part", ["id", "timestamp", "signature"])
def test_a_missing_header_is_named(part: str):
    sent = headers()
    del sent[f"webhook-{part}"]
    made = explained(sent=sent)
    assert (made.valid, made.code) == (False, "MISSING_HEADER")
    assert f"webhook-{part}" in made.message
    assert explained(sent=sent | {f"webhook-{part}": ""}).code == "MISSING_HEADER"


def test_an_altered_id_is_found_by_the_delivery_or_the_idempotency_key():
    sent = headers(webhook_id="01963f5e-7e3b-7ccc-8000-0000000000ff")
    made = explained(sent=sent, copy=SentDelivery(delivery_id=DELIVERY, webhook_id=ID, body=BODY))
    assert (made.code, codes(made)) == ("ID_CHANGED", {"ID_CHANGED"})
    assert explained(sent=sent | {"Idempotency-Key": ID}).code == "ID_CHANGED"
    assert explained(sent=headers(webhook_id=ID.upper())).code == "ID_CHANGED"


def test_an_altered_timestamp_is_found_by_the_attempts():
    sent = headers(webhook_timestamp=str(SECONDS + 17))
    copy = SentDelivery(delivery_id=DELIVERY, webhook_id=ID, body=BODY, times=(SECONDS - 40, SECONDS))
    assert explained(sent=sent, copy=copy).code == "TIMESTAMP_CHANGED"
    assert explained(sent=headers(webhook_timestamp=f"{SECONDS}000")).code == "TIMESTAMP_UNREADABLE"
    assert explained(sent=headers(webhook_timestamp="yesterday")).code == "TIMESTAMP_UNREADABLE"


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
def test_a_signature_in_another_form_is_reported(make: Any, code: str):
    digest = hmac.digest(raw(NEW), CONTENT, "sha256")
    made = explained(sent=headers(webhook_signature=make(digest)))
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
def test_content_put_together_wrongly_is_reported(content: bytes):
    made = explained(sent=headers(webhook_signature=signed_by(raw(NEW), content)))
    assert made.code in {"WRONG_CONTENT", "BODY_RESERIALISED"}
    assert not made.valid
    mine = explained(computed=signed_by(NEW.encode(), content).removeprefix("v1,"))
    assert mine.valid
    assert len(codes(mine)) == 1


def test_a_computed_signature_may_be_right_or_unknown():
    assert codes(explained(computed=hmac.new(raw(NEW), CONTENT, hashlib.sha256).hexdigest())) == {
        "COMPUTED_RIGHT"
    }
    assert codes(explained(computed="what?")) == {"COMPUTED_UNKNOWN"}


# --- time -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("off", [-301, -300, 0, 300, 301, 86_400])
def test_a_clock_may_be_five_minutes_off_and_a_larger_skew_is_reported_in_seconds(off: int):
    made = explained(now=NOW + timedelta(seconds=off))
    assert made.skew_seconds == -off
    assert made.valid is (abs(off) <= 300)
    if not made.valid:
        assert (made.code, f"{abs(off)} s" in made.message) == ("CLOCK_SKEW", True)


def test_a_webhook_that_was_received_in_time_is_valid_later():
    later = NOW + timedelta(days=3)
    assert explained(now=later).code == "CLOCK_SKEW"
    assert explained(now=later, received_at=NOW + timedelta(seconds=2)).valid


# --- in general -------------------------------------------------------------------------------------

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


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(
    body=DOCUMENTS.map(as_json) | st.binary(max_size=40).filter(lambda b: b.isascii()),
    change=st.sampled_from(
        ["", "body", "id", "timestamp", "signature", "secret", "late", "svix", "hex", "two", "v1a", "joined"]
    ),
)
def test_the_debugger_and_the_library_agree_on_what_is_valid(body: bytes, change: str):
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
    made = explained(received, sent, secrets=(secret,))
    assert made.valid is verified(received, sent, secret)
    assert made.valid is (change in {"", "two", "v1a"})


@settings(max_examples=100)
@given(
    body=st.binary(max_size=60) | TEXTS.map(str.encode),
    sent=st.dictionaries(
        st.sampled_from(["webhook-id", "webhook-timestamp", "webhook-signature", "svix-id", "x", ""]), TEXTS
    ),
    secret=TEXTS | st.just(NEW),
    computed=st.none() | TEXTS,
)
def test_no_input_makes_the_debugger_fail(
    body: bytes, sent: dict[str, str], secret: str, computed: str | None
):
    made = explained(body, sent, secrets=(secret,), computed=computed)
    assert not made.valid
    assert made.findings[0].code == made.code


@settings(max_examples=100)
@given(document=DOCUMENTS, indent=st.sampled_from([None, 1, 2, 4]), ascii_only=st.booleans())
def test_every_reserialised_document_is_recognised(document: Any, indent: int | None, ascii_only: bool):
    body = as_json(document)
    received = json.dumps(document, indent=indent, ensure_ascii=ascii_only).encode()
    made = explained(received, headers(body))
    assert made.code == ("VALID" if received == body else "BODY_RESERIALISED")


@given(body=st.binary(max_size=60), at=st.integers(0, 60), byte=st.integers(0, 255))
def test_the_first_difference_is_the_end_of_the_common_prefix(body: bytes, at: int, byte: int):
    other = body[:at] + bytes([byte]) + body[at + 1 :]
    found = find_difference(body, other)
    if found is None:
        assert body == other
    else:
        assert body[: found.offset] == other[: found.offset]
        assert body[found.offset : found.offset + 1] != other[found.offset : found.offset + 1]


def test_no_secret_is_repeated():
    leaky = b'{"a":"' + NEW.encode() + b'","b":[1, 2]}'
    for received in (leaky, leaky + b"\n", leaky.replace(b"[1, 2]", b"[1,2]"), b'{"x":' + leaky):
        for secrets in ((NEW, OLD), (STRANGE,), (NEW[:-1],), (f" {NEW}",)):
            copy = SentDelivery(delivery_id=DELIVERY, webhook_id=ID, body=leaky)
            sent = headers(leaky) | {NEW: NEW, "webhook-id": NEW}
            made = explained(received, sent, secrets=secrets, own=(NEW,), copy=copy, computed=NEW)
            text = as_json(made).decode()
            assert not any(part in text for part in (NEW[6:20], OLD[6:20], NEW[-12:], STRANGE[6:20]))


def test_the_work_is_bounded_whatever_the_body():
    big = json.dumps([1] * 43_000).encode()
    secrets = (NEW, OLD, STRANGE, NEW + "A", OLD + "A")
    with cpu_within(50):
        assert not explained(big, headers(b"{}"), secrets=secrets, own=(NEW, OLD)).valid
    deep = b"[" * 100_000
    assert explained(deep, headers(b"{}")).code == "WRONG_KEY"
    assert len(list(candidate_bodies(deep))) < 12


# --- texts ------------------------------------------------------------------------------------------


def test_every_text_of_a_finding_is_used():
    package = Path(findings.__file__).parent
    source = "".join(path.read_text() for path in package.glob("*.py"))
    names = findings.texts().keys() - {"shared", "layouts"}
    assert {name for name in names if f'"{name}"' not in source} == set()
