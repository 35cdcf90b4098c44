"""`mercato catalog lint` reports what an ingest reports, and where; exit codes that scripts rely on."""

import errno
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from uuid import uuid4, uuid5

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.catalog.documents import CAKE, EXTRAS, LEMON, MILK, NOWHERE, TEA, cafe, outcome
from tests.catalog.test_catalog_published import MENUS, by_size
from tests.forks import inherited, program
from tests.waiting import PATIENCE

from mercato_catalog.model import BuildFailed
from mercato_catalog.validation.findings import Rule
from mercato_tools.cli import main as cli
from mercato_tools.lint import LintReport, lint


def linted(document: bytes) -> LintReport:
    return lint(document, default_currency="USD", max_bytes=32 << 20)[0]


def broken() -> dict[str, Any]:
    """Return a document with faults and warnings of several rules."""
    document = cafe()
    document["items"][TEA]["modifierGroupIds"].append(NOWHERE)
    document["items"][CAKE]["basePrice"] = "four"
    document["items"][MILK]["tags"] = "no list"
    del document["items"][LEMON]["name"]
    return document


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("MERCATO_") and "TEST" not in name]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "80")


def written(tmp_path: Path, document: Any, name: str = "menu.json") -> str:
    path = tmp_path / name
    path.write_bytes(document if isinstance(document, bytes) else json.dumps(document).encode())
    return str(path)


# --- the core ---------------------------------------------------------------------------------------


def test_rules_have_ids_of_their_own_and_advice():
    assert len({rule.id for rule in Rule}) == len(list(Rule))
    assert all(rule.advice.endswith(".") for rule in Rule)
    page = (Path(__file__).parents[2] / "docs/how-to/check-a-catalog.md").read_text()
    assert page.endswith("".join(f"| `{rule.id}` | {rule.advice} |\n" for rule in Rule))


def test_a_price_that_is_a_json_number_is_a_warning_at_its_place():
    [warning] = linted(b'{"items": {"a": {"name": "A",\n "basePrice": 11.1}}}').warnings[1:]
    assert (warning.rule, warning.line, warning.column) == ("number-price", 2, 15)


def test_it_reports_what_an_ingest_reports():
    text = json.dumps(broken()).encode()
    made, report = outcome(text), linted(text)
    assert isinstance(made, BuildFailed)
    assert [(one.message, one.path) for one in report.errors] == [
        (one.message, one.path) for one in made.faults
    ]
    assert {one.rule for one in report.errors} == {"unresolved-reference", "invalid-price", "wrong-type"}
    assert {one.rule for one in report.warnings} == {"no-name"}
    assert linted(json.dumps(cafe()).encode()).summary is not None


def value_at(text: str, line: int, column: int) -> Any:
    """Return the JSON value that begins there; lines end at line feeds, as in an editor."""
    lines = text.split("\n")
    rest = "\n".join(lines[line - 1 :])[column - 1 :]
    return json.JSONDecoder(parse_float=str).raw_decode(rest)[0]


def found_by(document: Any, pointer: str) -> Any:
    for step in pointer.split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")  # noqa: PLW2901  # unescaped
        document = document[int(step) if isinstance(document, list) else step]
    return document


@given(
    indent=st.sampled_from([None, 1, "\t"]),
    crlf=st.booleans(),
    bom=st.booleans(),
    name=st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=8),
    escaped=st.booleans(),
)
def test_line_and_column_are_those_of_the_value_however_it_is_written(
    indent: Any, crlf: bool, bom: bool, name: str, escaped: bool
):
    document = broken()
    document["items"][TEA] = {"name": name} | document["items"][TEA]
    document["items"]["é" + name] = {"basePrice": [1], "name": "x"}
    text = json.dumps(document, indent=indent, ensure_ascii=escaped)
    text = text.replace("\n", "\r\n") if crlf else text
    report = linted(b"\xef\xbb\xbf" * bom + text.encode())
    assert len(report.errors) == 4
    for one in (*report.errors, *report.warnings):
        if "\N{REPLACEMENT CHARACTER}" not in one.path:
            assert value_at(text, one.line, one.column) == found_by(document, one.path), one


def test_a_repeated_key_has_the_position_of_the_last_value_which_is_the_one_in_use():
    text = '{"items": {"a": 1,\n "b": {},\n "a": {"basePrice": "x"}}}'
    report = linted(text.encode())
    assert {(one.rule, one.line, one.column) for one in report.errors} == {
        ("duplicate-key", 3, 7),
        ("invalid-price", 3, 21),
    }


def test_a_key_with_a_control_character_is_found_all_the_same():
    text = '{"items": {"a\\u0007b": {"basePrice": "x"}}}'
    [fault] = linted(text.encode()).errors
    assert (fault.line, fault.column) == (1, text.index('"x"') + 1)


@pytest.mark.parametrize(
    ("document", "rule", "line", "column"),
    [
        (b"", "empty", 1, 1),
        (b" \n", "empty", 2, 1),
        (b"[" * 100_000, "too-deep", 1, 20_001),
        (b'{"items":{"a":{"basePrice":NaN}}}', "not-json", 1, 28),
        (b'{"items"\r\n: {"\xc3\xa9": "\xff"}}', "not-utf-8", 2, 10),
        (b"\xef\xbb\xbf{]", "not-json", 1, 2),
        (b"<html>", "not-json", 1, 1),
        (b"[]", "wrong-type", 1, 1),
        (b"{}", "items-missing", 1, 1),
    ],
    ids=["empty", "blank", "deep", "nan", "utf-8", "bom", "html", "list", "nothing"],
)
def test_a_document_that_is_not_a_catalog_has_a_rule_and_a_position(
    document: bytes, rule: str, line: int, column: int
):
    [fault] = linted(document).errors
    assert (fault.rule, fault.line, fault.column) == (rule, line, column)


def test_a_document_that_must_be_sent_compressed_is_noted():
    text = json.dumps(cafe()).encode()
    report, _ = lint(text, default_currency="USD", max_bytes=10)
    assert [(one.rule, report.valid) for one in report.warnings] == [("needs-compression", True)]


@pytest.mark.skipif(not MENUS.is_dir(), reason="no published menus: set MERCATO_TEST_MENUS")
@pytest.mark.parametrize("path", by_size(sorted(MENUS.glob("*.json"))))
def test_published_menus_are_checked_and_shown(path: Path, capsys: pytest.CaptureFixture[str]):
    bad = "-broken" in path.name
    assert cli.run(["catalog", "lint", str(path), "--json"]) == int(bad)
    report = json.loads(capsys.readouterr().out)
    assert (report["valid"], bool(report["errors"]), report["summary"] is None) == (not bad, bad, bad)
    text = path.read_text()
    document = json.loads(text)
    for one in report["errors"]:
        if one["rule"] == "unresolved-reference":
            assert value_at(text, one["line"], one["column"]) == found_by(document, one["path"])
    assert cli.run(["catalog", "show", str(path)]) == (2 if bad else 0)
    assert cli.run(["catalog", "diff", str(path), str(path)]) == (2 if bad else 0)


# --- the command ------------------------------------------------------------------------------------


def test_exit_codes_mean_valid_errors_or_unusable(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert cli.run(["catalog", "lint", written(tmp_path, cafe())]) == 0
    assert cli.run(["catalog", "lint", written(tmp_path, broken())]) == 1
    assert cli.run(["catalog", "lint", written(tmp_path, b"")]) == 1
    assert capsys.readouterr().err == ""
    for wrong in (
        [str(tmp_path / "none.json")], [str(tmp_path)], [], ["x", "y"], ["--bogus"], ["http://"],
        [written(tmp_path, cafe()), "--json", "--sarif"], ["a\0b"],
    ):  # fmt: skip
        assert cli.run(["catalog", "lint", *wrong]) == 2, wrong
        assert capsys.readouterr().err


def test_json_output_is_only_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert cli.run(["catalog", "lint", written(tmp_path, broken()), "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert list(report) == ["valid", "errors", "warnings", "summary"]
    assert set(report["errors"][0]) == {"code", "message", "path", "line", "column", "rule", "advice"}
    assert (report["valid"], report["summary"]) == (False, None)


def test_text_output_fits_into_80_columns_and_has_positions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, broken())
    assert cli.run(["catalog", "lint", "menu.json"]) == 1
    out = capsys.readouterr().out
    assert all(len(line) <= 80 for line in out.splitlines() if not line.startswith("  at /"))
    assert f"  at /items/{CAKE}/basePrice\n" in out
    assert "[invalid-price]" in out
    assert out.endswith("menu.json is not valid: 3 errors, 1 warning.\n")
    assert "\x1b" not in out


def test_ids_that_are_not_uuids_are_one_line_with_their_count_and_all_of_them_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    items: Any = {f"item-{number}": {"name": "x", "basePrice": "1.00"} for number in range(30)}
    path = written(tmp_path, {"items": items})
    assert cli.run(["catalog", "lint", path]) == 0
    out = capsys.readouterr().out
    told = "Ids that are not UUIDs: 30. No action needed [id-not-uuid]: --all shows them."
    assert [line for line in out.splitlines() if "UUID" in line or "[" in line] == [told]
    assert "What to do" not in out
    assert cli.run(["catalog", "lint", path, "--all"]) == 0
    out = capsys.readouterr().out
    assert out.count("warning [id-not-uuid]") == 30
    assert "What to do" in out
    many: Any = {f"item-{number}": {"name": "x", "basePrice": 1} for number in range(300)}
    path = written(tmp_path, {"items": many})
    assert cli.run(["catalog", "lint", path]) == 0
    out = capsys.readouterr().out
    assert "Ids that are not UUIDs: more than 200." in out
    assert out.count("warning [number-price]") == 10
    assert "--all shows them" in out
    assert cli.run(["catalog", "lint", path, "--all"]) == 0
    assert capsys.readouterr().out.count("warning [number-price]") == 201


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    text = json.dumps(cafe()).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert cli.run(["catalog", "lint", "-"]) == 0
    assert "standard input is valid" in capsys.readouterr().out


def test_endless_input_is_read_up_to_the_limit_of_an_ingest(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("MERCATO_PULL_DECODED_BYTES", "1000000")
    assert cli.run(["catalog", "lint", "/dev/zero", "--json"]) == 1
    assert [one["rule"] for one in json.loads(capsys.readouterr().out)["errors"]] == ["too-large"]


def test_sarif_has_the_same_findings(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    name = written(tmp_path, broken(), "a menu é.json")
    assert cli.run(["catalog", "lint", name, "--sarif"]) == 1
    log = json.loads(capsys.readouterr().out)
    [run] = log["runs"]
    assert (log["version"], run["columnKind"]) == ("2.1.0", "unicodeCodePoints")
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    report = linted(json.dumps(broken()).encode())
    assert len(run["results"]) == len(report.errors) + len(report.warnings)
    for result, one in zip(run["results"], (*report.errors, *report.warnings), strict=True):
        assert (result["ruleId"], rules[result["ruleIndex"]]) == (one.rule, one.rule)
        place = result["locations"][0]["physicalLocation"]
        assert place["region"] == {"startLine": one.line, "startColumn": one.column}
        assert place["artifactLocation"]["uri"].startswith("file:///")
        assert place["artifactLocation"]["uri"].endswith("/a%20menu%20%C3%A9.json")
    assert {result["level"] for result in run["results"]} == {"error", "warning"}


def read_by(fifo: Path, reader: subprocess.Popen[bytes]) -> Any:
    """Return the FIFO opened for writing, once the process reads it; a process that has ended never will."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return os.fdopen(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK), "wb")
        except OSError as error:
            if error.errno != errno.ENXIO or reader.poll() is not None or time.monotonic() > until:
                raise
            time.sleep(0.02)


def interrupted(process: subprocess.Popen[bytes], writer: Any = None) -> tuple[bytes, bytes]:
    """Return its output once Ctrl-C has ended it; a signal just before a read of a FIFO is handled when that ends."""
    process.send_signal(signal.SIGINT)
    try:
        return process.communicate(timeout=2)
    except subprocess.TimeoutExpired:
        if writer is not None:
            writer.close()
        return process.communicate(timeout=PATIENCE)


def test_a_fifo_is_read_ctrl_c_ends_it_and_a_closed_pipe_is_quiet(tmp_path: Path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    waiting = subprocess.Popen([program(), "catalog", "lint", fifo], stderr=subprocess.PIPE, **inherited())
    with read_by(fifo, waiting) as writer:
        _, printed = interrupted(waiting, writer)
    assert (waiting.returncode, printed) == (130, b"Interrupted.\n")
    many = cafe()
    many["items"] |= {f"0190f5fe-7e3b-7ccc-8000-{i:012}": {"name": "x" * 50} for i in range(5000)}
    pipe = f"{program()} catalog show {written(tmp_path, many)} | head -1"
    shown = subprocess.run(
        ["bash", "-c", pipe], capture_output=True, text=True, timeout=60, check=True, **inherited()
    )
    assert (shown.stdout.count("\n"), shown.stderr) == (1, "")


class Host(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(cafe()).encode())

    def log_message(self, *_args: Any) -> None:
        pass


def test_a_url_is_pulled_behind_the_guard(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    with HTTPServer(("127.0.0.1", 0), Host) as host:
        threading.Thread(target=host.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{host.server_port}/catalog.json"
        assert cli.run(["catalog", "lint", url]) == 1
        assert "[not-fetched]" in capsys.readouterr().out
        monkeypatch.setenv("MERCATO_ALLOW_PRIVATE_NETWORKS", "true")
        assert cli.run(["catalog", "lint", url]) == 0
        host.shutdown()


# --- show and diff ----------------------------------------------------------------------------------


def test_the_menu_is_drawn_with_prices(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert cli.run(["catalog", "show", written(tmp_path, cafe())]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 80 for line in lines[1:])
    assert [" ".join(line.split()) for line in lines[1:]] == [
        "└─ All day (always)",
        "└─ Drinks",
        "└─ Hot",
        "├─ Tea 2.50",
        "│ └─ Extras (choose 0 to 2)",
        "│ ├─ Milk +0.30",
        "│ └─ Lemon +0.10",
        "└─ Cake 4.00",
    ]


def test_a_menu_whose_parts_are_shared_again_and_again_is_drawn_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    sections = {f"s{i}": {"name": f"S{i}", "sectionIds": [f"s{i + 1}"] * 2} for i in range(60)}
    document = {"items": {}, "sections": sections | {"s60": {"name": "end"}}}
    assert cli.run(["catalog", "show", written(tmp_path, document)]) == 0
    assert len(capsys.readouterr().out.splitlines()) < 200


def test_names_cannot_control_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    document = cafe()
    document["items"][TEA]["name"] = "\x1b[2J\u202eevil"
    document["items"][CAKE]["modifierGroupIds"] = ["\x1b[31m"]
    for command in ("show", "lint"):
        cli.run(["catalog", command, written(tmp_path, document)])
        out = capsys.readouterr()
        assert "\x1b" not in out.out + out.err
        assert "\u202e" not in out.out + out.err
        del document["items"][CAKE]["modifierGroupIds"]
        document["items"][CAKE]["modifierGroupIds"] = []


def test_a_diff_counts_and_names_what_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    old, new = cafe(), cafe()
    new["items"][TEA]["basePrice"] = "2.80"
    new["items"][CAKE]["modifierGroupIds"] = [EXTRAS]
    new["items"]["new"] = {"name": "Juice", "basePrice": "3.00"}
    names = [written(tmp_path, old, "old.json"), written(tmp_path, new, "new.json")]
    assert cli.run(["catalog", "diff", *names, "--json"]) == 0
    items = json.loads(capsys.readouterr().out)["catalog"]["items"]
    assert [items[kind]["count"] for kind in ("added", "removed", "repriced", "reoptioned", "changed")] == [
        1, 0, 1, 1, 0,
    ]  # fmt: skip
    assert cli.run(["catalog", "diff", *names]) == 0
    out = capsys.readouterr().out
    assert "2.50 → 2.80" in out
    assert "+ Juice" in out
    assert cli.run(["catalog", "diff", names[0], names[0]]) == 0
    assert capsys.readouterr().out == "No difference that pricing or browsing would show.\n"


def test_a_diff_shows_the_new_prices_of_carts_and_those_that_would_fail(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    old, new = cafe(), cafe()
    new["items"][TEA]["basePrice"] = "2.80"
    new["sections"]["33333333-3333-5333-8333-333333333333"]["itemIds"] = [TEA]
    del new["items"][CAKE]
    names = [written(tmp_path, old, "old.json"), written(tmp_path, new, "new.json")]
    carts = [
        written(
            tmp_path, {"lineItems": [{"itemId": key, "quantity": 2, "modifierGroups": []}]}, f"{key[0]}.json"
        )
        for key in (TEA, CAKE, MILK)
    ]
    requested = [word for cart in carts for word in ("--cart", cart)]
    assert cli.run(["catalog", "diff", *names, *requested, "--json"]) == 1
    printed = json.loads(capsys.readouterr().out)["carts"]
    assert [(one["before"], one["after"]) for one in printed] == [
        ("5.00 USD", "5.60 USD"),
        ("8.00 USD", None),
        ("0.60 USD", "0.60 USD"),
    ]
    assert printed[1]["errors"][0]["code"] == "ITEM_UNAVAILABLE"
    assert cli.run(["catalog", "diff", *names, "--cart", carts[0]]) == 0
    assert "5.00 USD → 5.60 USD" in capsys.readouterr().out
    assert cli.run(["catalog", "diff", *names, "--cart", written(tmp_path, b"[", "bad.json")]) == 2
    assert cli.run(["catalog", "diff", names[0], written(tmp_path, broken())]) == 2


def test_ids_are_printed_as_they_are_served_where_the_store_is_known_and_not_at_all_where_it_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = written(tmp_path, {"items": {"tea": {"name": "Tea", "basePrice": "1.00"}}})
    onboarding = uuid4()
    assert cli.run(["catalog", "lint", path, "--json"]) == 0
    [warning] = json.loads(capsys.readouterr().out)["warnings"]
    assert warning["message"].endswith(
        "one is derived for each store that serves it, so no two stores have the same."
    )
    assert cli.run(["catalog", "lint", path, "--json", "--onboarding", str(onboarding)]) == 0
    [warning] = json.loads(capsys.readouterr().out)["warnings"]
    assert warning["message"].endswith(f"it is served as {uuid5(onboarding, 'tea')}.")


def test_a_list_that_was_cut_is_counted_as_at_least_so_many(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    items = {str(number): {"name": f"Item {number}", "basePrice": "x"} for number in range(500)}
    file = written(tmp_path, {"items": items})
    assert cli.run(["catalog", "lint", file]) == 1
    assert "is not valid: at least 100 errors, at least 201 warnings." in " ".join(
        capsys.readouterr().out.split()
    )
