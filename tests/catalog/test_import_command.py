"""`mercato catalog import`: a file or a pipe in, a CatalogSet out, what was lost beside it."""

import errno
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.catalog.test_imports import SAMPLES, hubrise, uber
from tests.catalog.test_lint import interrupted, read_by, written
from tests.forks import inherited, program

from mercato_tools.cli import main as cli


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("MERCATO_") and "TEST" not in name]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize("name", SAMPLES)
def test_the_result_passes_the_linter_and_can_be_drawn(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    source, out = written(tmp_path, SAMPLES[name]()), str(tmp_path / "out.json")
    assert cli.run(["catalog", "import", "--from", name, source, "-o", out]) == 0
    assert capsys.readouterr().out == ""
    assert cli.run(["catalog", "lint", out]) == 0
    assert cli.run(["catalog", "show", out]) == 0
    assert list(tmp_path.glob(".*")) == []


@pytest.mark.parametrize("name", SAMPLES)
def test_a_format_is_named_as_a_spreadsheets_is_or_by_an_option(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    source, made = written(tmp_path, SAMPLES[name]()), []
    for spelling in ([name], ["--from", name]):
        assert cli.run(["catalog", "import", *spelling, source, "--currency", "EUR"]) == 0
        made.append(capsys.readouterr())
    assert made[0] == made[1]


def test_a_full_disk_leaves_what_was_there_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    source, out = written(tmp_path, uber()), tmp_path / "out.json"
    out.write_text("the menu before")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    # Where space is only promised when a file is written, this is when it is missing.
    monkeypatch.setattr(os, "fsync", full)
    assert cli.run(["catalog", "import", "--from", "uber", source, "-o", str(out)]) == 2
    assert "cannot be written: No space left on device." in capsys.readouterr().err
    assert out.read_text() == "the menu before"
    assert list(tmp_path.glob(".*")) == []


def test_a_device_is_written_to_and_not_replaced(tmp_path: Path):
    source, pipe = written(tmp_path, uber()), tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert cli.run(["catalog", "import", "--from", "uber", source, "-o", str(pipe)]) == 0
        assert os.read(reader, 1) == b"{"
    finally:
        os.close(reader)
    assert pipe.is_fifo()


def test_the_report_names_every_loss_by_pointer(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    source, report = written(tmp_path, uber()), tmp_path / "report.json"
    assert cli.run(["catalog", "import", "--from", "uber", source, "--report", str(report)]) == 0
    out = capsys.readouterr()
    told = json.loads(report.read_bytes())
    assert told["count"] == len(told["losses"]) > 5
    assert {
        "path": "/items/0/tax_info",
        "kind": "dropped",
        "message": "tax_info has no counterpart.",
    } in told["losses"]
    assert json.loads(out.out)["currency"] == "USD"
    assert f"{told['count']} losses" in out.err


def test_the_output_for_people_fits_into_80_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    document = uber()
    document["items"] = [document["items"][0] | {"id": f"i{index}"} for index in range(20)]
    document["\x1b[2J"] = "evil"
    assert cli.run(["catalog", "import", "--from", "uber", written(tmp_path, document)]) == 0
    err = capsys.readouterr().err
    assert all(len(line) <= 80 for line in err.splitlines())
    assert "tax_info has no counterpart. (20 times)" in err
    assert "\x1b" not in err


def test_standard_input_currency_and_language(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    typed = io.TextIOWrapper(io.BytesIO(json.dumps(uber()).encode()))
    monkeypatch.setattr(sys, "stdin", typed)
    assert cli.run(["catalog", "import", "--from", "uber", "-", "--currency", "eur", "--language", "fr"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["currency"] == "EUR"
    assert "Café" in {item["name"] for item in made["items"].values()}


@pytest.mark.parametrize(
    ("document", "options"),
    [
        (uber(), []),
        (uber(), ["--from", "grubhub"]),
        (uber(), ["--from", "square"]),
        (uber(), ["--from", "uber", "--currency", "XXX"]),
        (uber(), ["--from", "uber", "-o", "/nowhere/at/all.json"]),
        (uber(), ["--from", "uber", "-o", "."]),
        (uber(), ["--from", "uber", "--report", "/nowhere/at/all.json"]),
        (uber(), ["--from", "uber", "--bogus"]),
        (b"", ["--from", "hubrise"]),
        (b"<html>", ["--from", "hubrise"]),
    ],
    ids=["none", "unknown", "other", "currency", "output", "directory", "report", "option", "empty", "html"],
)
def test_an_unusable_document_ends_with_2_and_the_reason(
    document: Any, options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert cli.run(["catalog", "import", written(tmp_path, document), *options]) == 2
    assert capsys.readouterr().err.strip()
    assert cli.run(["catalog", "import", "--from", "uber", str(tmp_path / "none")]) == 2


def test_faults_of_a_document_are_reported_by_pointer(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    document = hubrise()
    document["data"]["products"][0]["skus"] = "none"
    assert cli.run(["catalog", "import", "--from", "hubrise", written(tmp_path, document)]) == 2
    assert "at /data/products/0/skus" in capsys.readouterr().err


def test_a_catalogset_is_not_a_menu_to_import_and_its_reader_learns_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    document = {"items": {"tea": {"name": "Tea", "basePrice": "3.25"}}}
    assert cli.run(["catalog", "import", "--from", "uber", written(tmp_path, document)]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "items must be a list, not an object." in said
    assert "A CatalogSet needs no import: mercato catalog lint checks it." in said


def test_ctrl_c_ends_it_and_a_closed_pipe_is_silent(tmp_path: Path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    command = [program(), "catalog", "import", "--from", "uber", str(fifo)]
    waiting = subprocess.Popen(command, stderr=subprocess.PIPE, **inherited())
    with read_by(fifo, waiting) as writer:
        _, told = interrupted(waiting, writer)
    assert (waiting.returncode, told) == (130, b"Interrupted.\n")
    document = uber()
    document["items"] += [{"id": f"i{index}", "price_info": {"price": 1}} for index in range(5000)]
    source = written(tmp_path, document)
    pipe = f"{program()} catalog import --from uber {source} --report {tmp_path / 'r'} | head -1"
    done = subprocess.run(
        ["bash", "-c", pipe], capture_output=True, text=True, timeout=60, check=True, **inherited()
    )
    assert (done.stdout, "Traceback" in done.stderr) == ("{\n", False)
