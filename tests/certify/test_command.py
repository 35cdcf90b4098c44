"""`mercato certify`: wrong arguments, an unreachable target, a wrong secret, Ctrl-C, a pipe, and its reports."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.certify.menu import GONE, menu
from tests.certify.merchant_mutants import MUTANTS, CorrectMerchant
from tests.certify.receiver_mutants import SECRET
from tests.certify.storefront_mutants import CorrectStorefront
from tests.forks import inherited, program
from tests.waiting import PATIENCE

from mercato.cli import certify
from mercato.features.certification.report import fingerprint
from mercato_tools.cli import main as cli

OTHER = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

BUYER = """
import asyncio, os
from mercato_client.testing import StorefrontDouble

async def buy():
    async with StorefrontDouble(api=os.environ["MERCATO_URL"], key=os.environ["MERCATO_KEY"]) as shop:
        await shop.buy(store_id=os.environ["MERCATO_STORE_ID"] or None)

asyncio.run(buy())
"""


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("MERCATO_") and "TEST" not in name]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "80")
    # A busy machine is no reason for a check to end early.
    monkeypatch.setattr(certify, "SECONDS", 10 * PATIENCE)
    monkeypatch.setattr(certify, "COMMAND_SECONDS", 10 * PATIENCE)


@pytest.fixture
def merchant() -> Iterator[CorrectMerchant]:
    with CorrectMerchant(secret=SECRET, catalog=menu()) as here:
        yield here


@pytest.fixture
def buyer(tmp_path: Path) -> str:
    file = tmp_path / "buyer.py"
    file.write_text(BUYER)
    return f"{sys.executable} {file}"


def of(merchant: CorrectMerchant, *more: str) -> list[str]:
    options = ["--webhook-url", merchant.webhook_url, "--secret", SECRET, "--catalog", merchant.catalog_url]
    return ["certify", "merchant", *options, *more]


# --- the table ------------------------------------------------------------------------------------


def test_a_good_merchant_gets_a_table_of_eighty_columns_without_colour(
    merchant: CorrectMerchant, capsys: pytest.CaptureFixture[str]
):
    assert cli.run(of(merchant, "--sold-out", GONE)) == 0
    out = capsys.readouterr().out
    assert all(len(line) <= 80 for line in out.splitlines())
    assert out.isprintable() or "\x1b" not in out
    assert "  pass  wrong-key-refused           A signature with another key is refused" in out
    assert out.splitlines()[-1] == "85 passed, 0 failed, 2 skipped."


def test_a_path_that_the_receiver_does_not_know_is_not_called_a_wrong_secret(
    merchant: CorrectMerchant, capsys: pytest.CaptureFixture[str]
):
    url = merchant.webhook_url.replace("/hooks", "/elsewhere")
    options = ["--webhook-url", url, "--secret", SECRET, "--only", "signature.accepted"]
    assert cli.run(["certify", "merchant", *options]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "as a server does at a path that it doesn't know. Is the address right?" in out


def test_a_failure_is_shown_with_its_request_and_advice(capsys: pytest.CaptureFixture[str]):
    with MUTANTS["merchant.place.repeat-one-order"](secret=SECRET, catalog=menu()) as merchant:
        assert cli.run(of(merchant, "--only", "place.repeat-one")) == 1
    out = capsys.readouterr().out
    printed = out[out.index("What failed") :]
    for words in (
        "merchant.place.repeat-one-order",
        "It became 2 orders: A-",
        "-> Store the webhook-id",
        "sent      POST http://127.0.0.1",
        "received  200",
        "(Guide:",
    ):
        assert words.lower() in printed.lower()
    assert all(len(line) <= 80 for line in out.splitlines())


def test_the_list_needs_no_target(capsys: pytest.CaptureFixture[str]):
    counts = []
    for kind in ("merchant", "storefront"):
        assert cli.run(["certify", kind, "--list"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert all(len(line) <= 80 for line in lines)
        counts.append(int(lines[-1].split()[0]))
    assert min(counts) > 60
    assert (
        cli.run(["certify", "merchant", "--list", "--only", "*.transport.*", "--only", "many-at-once"]) == 0
    )
    out = capsys.readouterr().out
    assert "merchant.transport.head\n" in out
    assert "merchant.validate.many-at-once" in out
    assert "merchant.validate.unicode-names" not in out


@pytest.mark.parametrize("kind", ["merchant", "storefront"])
def test_the_json_list_is_only_json(kind: str, capsys: pytest.CaptureFixture[str]):
    assert cli.run(["certify", kind, "--list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["checks"]
    assert len(listed) > 60
    assert all(one["id"].startswith(f"{kind}.") and one["title"] for one in listed)


# --- asked for wrongly ----------------------------------------------------------------------------

NOBODY = ["--webhook-url", "http://127.0.0.1:9/hooks"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["merchant"], "Give --webhook-url."),
        (["merchant", "--webhook-url", "pos"], "absolute http or https URI"),
        (["merchant", *NOBODY], "Give the signing secret with --secret"),
        (["merchant", *NOBODY, "--secret", "hush"], "A signing secret is whsec_"),
        (["merchant", *NOBODY, "--secret", "@nowhere.txt"], "There is no file nowhere.txt"),
        (["merchant", *NOBODY, "--secret", OTHER, "--only", "nothing.like.it"], "No check matches"),
        (["merchant", *NOBODY, "--secret", OTHER, "--timezone", "Mars"], "--timezone must be"),
        (["merchant", *NOBODY, "--secret", OTHER, "--catalog", "none.json"], "There is no file none.json"),
        (["merchant", *NOBODY, "--secret", OTHER, "--report", "no/such/place.json"], "There is no directory"),
        (["storefront"], "Say how to drive the storefront"),
        (["storefront", "--command", "true", "--listen", "8000"], "not both"),
        (["storefront", "--command", " "], "--command is empty"),
        (["storefront", "--listen", "99999"], "--listen is from 0 to 65535"),
        (["storefront", "--event-url", "http://127.0.0.1:9/e"], "Give the signing secret"),
        (
            [
                "storefront",
                "--event-url",
                "http://127.0.0.1:9/e",
                "--secret",
                OTHER,
                "--order-url",
                "http://x/1",
            ],
            "--order-url needs {orderId}",
        ),
        (["verify", "nowhere.json"], "There is no file nowhere.json"),
    ],
    ids=lambda value: " ".join(value).replace("/", "|") if isinstance(value, list) else "",
)
def test_wrong_options_are_reported_with_exit_code_2(
    arguments: list[str],
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
):
    monkeypatch.chdir(tmp_path)
    assert cli.run(["certify", *arguments]) == 2
    printed = capsys.readouterr()
    assert words in printed.err
    assert list(tmp_path.iterdir()) == []


def test_an_unreachable_target_has_exit_code_2(merchant: CorrectMerchant, capsys: pytest.CaptureFixture[str]):
    options = of(merchant)
    merchant.do(merchant.stop())
    assert cli.run(options) == 2
    printed = capsys.readouterr().err
    assert "Nothing answers at http://127.0.0.1:" in printed
    assert "Is it running" in printed


def test_an_invalid_catalog_is_reported_with_advice(
    merchant: CorrectMerchant, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    (tmp_path / "bad.json").write_text("{}")
    options = [
        "--webhook-url",
        merchant.webhook_url,
        "--secret",
        SECRET,
        "--catalog",
        str(tmp_path / "bad.json"),
    ]
    assert cli.run(["certify", "merchant", *options]) == 2
    assert "mercato catalog lint" in capsys.readouterr().err


def test_a_wrong_secret_fails_one_check_with_advice(
    merchant: CorrectMerchant, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    (tmp_path / "secret").write_text(OTHER + "\n")
    options = ["--webhook-url", merchant.webhook_url, "--secret", f"@{tmp_path / 'secret'}"]
    assert cli.run(["certify", "merchant", *options]) == 1
    out = capsys.readouterr().out
    assert "Check that --secret is the signing secret" in out
    assert "0 passed, 1 failed, " in out
    assert out.count("It needs merchant.signature.accepted to pass first") == 1


# --- reports --------------------------------------------------------------------------------------


def test_a_report_is_signed_and_verified_and_a_changed_one_is_rejected(
    merchant: CorrectMerchant, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    report, data, other = tmp_path / "report.json", str(tmp_path / "data"), str(tmp_path / "other")
    assert cli.run(of(merchant, "--only", "events", "--report", str(report), "--data-dir", data)) == 0
    made = capsys.readouterr()
    assert f"The signed report is in {report}.\nIt is signed with the key " in made.out
    assert made.err == f"Created a new encryption key, {data}/encryption.key, to sign the report.\n"
    assert cli.run(["certify", "verify", str(report), "--data-dir", data]) == 0
    assert capsys.readouterr().out.startswith("VALID\n")
    document = json.loads(report.read_bytes())
    assert "It proves no more" in document["signature"]["proves"]
    key = document["signature"]["publicKey"]
    assert cli.run(["certify", "verify", str(report), "--public-key", key, "--data-dir", other]) == 0
    capsys.readouterr()
    assert cli.run(["certify", "verify", str(report), "--data-dir", other]) == 1
    assert capsys.readouterr().out.startswith("NOT TRUSTED\n")
    assert not Path(other).exists(), "verifying creates nothing"
    report.write_text(json.dumps(document))
    assert cli.run(["certify", "verify", str(report), "--data-dir", data]) == 0, (
        "laid out anew, it is the same"
    )
    document["report"]["counts"]["failed"] = 7
    report.write_text(json.dumps(document))
    capsys.readouterr()
    assert cli.run(["certify", "verify", str(report), "--data-dir", data]) == 1
    assert capsys.readouterr().out.startswith("NOT VALID\n")


@pytest.mark.parametrize("output", [["--json"], ["--report", "report.json"]], ids=["json", "report"])
def test_without_an_installation_no_key_is_made_and_the_options_are_named(
    merchant: CorrectMerchant,
    output: list[str],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.chdir(tmp_path)
    assert cli.run(of(merchant, "--only", "events", *output)) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "data/encryption.key doesn't exist" in said
    assert "--data-dir, or give --unsigned" in said
    assert list(tmp_path.iterdir()) == []


def test_an_unsigned_report_needs_no_key_and_is_not_taken_for_a_signed_one(
    merchant: CorrectMerchant,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.chdir(tmp_path)
    report = ["--report", "report.json", "--unsigned"]
    assert cli.run(of(merchant, "--only", "events", *report)) == 0
    assert capsys.readouterr().out.endswith("The report is in report.json. It isn't signed.\n")
    assert [file.name for file in tmp_path.iterdir()] == ["report.json"]
    assert json.loads(Path("report.json").read_bytes()).keys() == {"report"}
    assert cli.run(["certify", "verify", "report.json"]) == 2
    assert "It isn't signed" in capsys.readouterr().err


def test_the_report_of_an_installation_says_which_key_signed_it(
    merchant: CorrectMerchant,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.chdir(tmp_path)
    assert cli.run(["partner", "create", "POS", "--kind", "commerce", "--data-dir", "data"]) == 0
    capsys.readouterr()
    assert cli.run(of(merchant, "--only", "events", "--report", "report.json")) == 0
    said = " ".join(capsys.readouterr().out.split())
    key = json.loads(Path("report.json").read_bytes())["signature"]["publicKey"]
    assert said.endswith(f"It is signed with the key {fingerprint(key)} of data/encryption.key.")


def test_verifying_a_report_with_a_failed_check_has_exit_code_1(
    merchant: CorrectMerchant, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    (tmp_path / "secret").write_text(OTHER + "\n")
    report, data = str(tmp_path / "report.json"), str(tmp_path / "data")
    options = ["--webhook-url", merchant.webhook_url, "--secret", f"@{tmp_path / 'secret'}"]
    assert cli.run(["certify", "merchant", *options, "--report", report, "--data-dir", data]) == 1
    capsys.readouterr()
    assert cli.run(["certify", "verify", report, "--data-dir", data]) == 1
    out = capsys.readouterr().out
    assert out.startswith("NOT CERTIFIED\n")
    assert "But 1 check failed." in out
    assert "Nothing was changed since this installation signed it." in out


def test_no_key_is_made_beside_a_database_that_lost_its_own(
    merchant: CorrectMerchant, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    data = tmp_path / "data"
    assert cli.run(["partner", "create", "POS", "--kind", "commerce", "--data-dir", str(data)]) == 0
    (data / "encryption.key").unlink()
    capsys.readouterr()
    report = tmp_path / "report.json"
    assert cli.run(of(merchant, "--only", "https", "--report", str(report), "--data-dir", str(data))) == 1
    assert "restore the file encryption.key" in capsys.readouterr().err
    assert not (data / "encryption.key").exists()


@pytest.mark.parametrize(
    "text", ["", "[1]", "{}", '{"report": {}, "signature": {}}', "\xff", "[" * 9999], ids=range(6)
)
def test_a_file_that_is_not_a_report_has_exit_code_2(
    text: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    file = tmp_path / "report.json"
    file.write_bytes(text.encode("latin-1"))
    assert cli.run(["certify", "verify", str(file), "--data-dir", str(tmp_path / "data")]) == 2
    assert "It isn't a report" in capsys.readouterr().err


def test_json_output_is_only_the_signed_report(
    merchant: CorrectMerchant,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("MERCATO_URL", "http://127.0.0.1:8000")
    monkeypatch.setenv("MERCATO_KEY", "the storefront's, and not a setting")
    options = of(merchant, "--only", "catalog", "--json", "--data-dir", str(tmp_path / "data"))
    assert cli.run(options) == 0
    printed = capsys.readouterr()
    document: Any = json.loads(printed.out)
    assert printed.err.startswith("Created a new encryption key, ")
    assert (document["report"]["kind"], document["report"]["counts"]["failed"]) == ("merchant", 0)
    assert all(one["proves"] and one["section"] for one in document["report"]["checks"])
    assert SECRET not in printed.out


# --- storefronts ----------------------------------------------------------------------------------


def test_a_storefront_is_started_for_each_purchase(buyer: str, capsys: pytest.CaptureFixture[str]):
    only = ["--only", "order.once", "--only", "refusal.declined"]
    assert cli.run(["certify", "storefront", "--command", buyer, *only]) == 0
    out = capsys.readouterr().out
    assert all(len(line) <= 80 for line in out.splitlines())
    assert "pass  declined-not-repeated" in out


# Opens as many stores as pages take. The mutants go through them without a process.
@pytest.mark.long
def test_a_storefront_that_is_started_reads_every_page(buyer: str, capsys: pytest.CaptureFixture[str]):
    assert cli.run(["certify", "storefront", "--command", buyer, "--only", "cart.pages"]) == 0
    assert "pass  pages" in capsys.readouterr().out


def test_a_receiver_alone_can_be_certified(capsys: pytest.CaptureFixture[str]):
    with CorrectStorefront(secret=SECRET) as shop:
        options = ["--event-url", shop.event_url, "--secret", SECRET, "--order-url", shop.order_url]
        assert cli.run(["certify", "storefront", *options, "--only", "events"]) == 0
    assert "14 passed, 0 failed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("no-such-program-anywhere", "nothing was requested"),
        (f"{sys.executable} -c 'raise SystemExit(3)'", "The command ended with 3"),
    ],
    ids=["no program", "fails"],
)
def test_a_command_that_does_not_buy_is_reported(
    command: str, words: str, capsys: pytest.CaptureFixture[str]
):
    assert cli.run(["certify", "storefront", "--command", command, "--only", "order.once"]) == 1
    assert words in " ".join(capsys.readouterr().out.split())


def test_a_report_with_only_skipped_checks_is_a_failure(capsys: pytest.CaptureFixture[str]):
    assert cli.run(["certify", "storefront", "--command", "true", "--only", "storefront.events"]) == 2
    out = capsys.readouterr().out
    assert "  skip  all 13" in out
    assert "Give the receiver of order events" in out


def test_a_port_in_use_is_reported(capsys: pytest.CaptureFixture[str]):
    with CorrectStorefront(secret=SECRET) as shop:
        port = shop.url.rpartition(":")[2]
        assert cli.run(["certify", "storefront", "--listen", port]) == 2
    assert "Take another one with --listen" in capsys.readouterr().err


# --- Ctrl-C and pipes -----------------------------------------------------------------------------


def test_ctrl_c_ends_it_and_a_closed_pipe_is_silent():
    command = [program(), "certify", "storefront", "--listen", "0"]
    waiting = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **inherited())
    assert waiting.stderr is not None
    printed = waiting.stderr.readline() + waiting.stderr.readline()
    assert b"The service is at http://127.0.0.1:" in printed
    assert b"Place an order now" in printed
    # It is in its loop by now, so the first is seen; a second one would disturb its end.
    waiting.send_signal(signal.SIGINT)
    _, rest = waiting.communicate(timeout=60)
    assert (waiting.returncode, rest) == (130, b"Interrupted.\n")
    pipe = f"{program()} certify merchant --list | head -1"
    shown = subprocess.run(
        ["bash", "-c", pipe], capture_output=True, text=True, timeout=60, check=True, **inherited()
    )
    assert shown.stderr == ""
