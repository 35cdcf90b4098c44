"""`mercato catalog import csv` and `mercato catalog template`."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.spreadsheets.sheets import csv_of, ods_of, priced, xlsx_of

from mercato_tools.cli import main as cli


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("MERCATO_") and "TEST" not in name]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)


def test_the_template_is_imported_linted_and_drawn(capsys: pytest.CaptureFixture[str]):
    assert cli.run(["catalog", "template"]) == 0
    assert cli.run(["catalog", "template", "menu.csv"]) == 0
    assert capsys.readouterr().out.split() == [
        "Written:",
        "menu.xlsx",
        "Written:",
        "menu.csv",
        "Written:",
        "choices.csv",
    ]
    assert cli.run(["catalog", "import", "csv", "menu.xlsx", "-o", "a.json", "--currency", "eur"]) == 0
    assert cli.run(["catalog", "import", "csv", "menu.csv", "-o", "b.json", "--currency", "eur"]) == 0
    assert Path("a.json").read_bytes() == Path("b.json").read_bytes()
    assert "Choices: choices.csv" in capsys.readouterr().err
    assert cli.run(["catalog", "lint", "a.json"]) == 0
    assert cli.run(["catalog", "show", "a.json"]) == 0


@pytest.mark.parametrize("name", ["menu.xlsx", "menu.csv", "menu.txt"])
def test_a_template_replaces_no_file_and_has_a_known_kind(name: str, capsys: pytest.CaptureFixture[str]):
    Path("menu.xlsx").write_bytes(b"mine")
    Path("choices.csv").write_bytes(b"mine")
    assert cli.run(["catalog", "template", name]) == 2
    assert Path("menu.xlsx").read_bytes() == Path("choices.csv").read_bytes() == b"mine"
    assert not Path("menu.csv").exists()
    assert "Name another one" in (said := capsys.readouterr().err) or ".xlsx nor with .csv" in said


def test_faults_are_listed_by_cell_and_nothing_is_written(capsys: pytest.CaptureFixture[str]):
    Path("m.csv").write_bytes(csv_of(priced("1,234", "soon", "\x1b[2J", *["?"] * 30)))
    assert cli.run(["catalog", "import", "csv", "m.csv", "-o", "out.json", "--report", "report.json"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "m, row 2, price (B): 1,234\n  This is 1234 or 1.234, and nothing" in said.err
    assert "33 faults, and nothing was written. The first 20 are shown." in said.err
    assert "\x1b" not in said.err
    assert all(len(line) <= 80 for line in said.err.splitlines())
    assert not Path("out.json").exists()
    report = json.loads(Path("report.json").read_bytes())
    assert (report["faultCount"], len(report["faults"])) == (33, 33)
    assert report["faults"][0] | {"message": ""} == {
        "sheet": "m", "row": 2, "column": "price (B)", "found": "1,234", "message": "",
    }  # fmt: skip


def test_the_options_decide(capsys: pytest.CaptureFixture[str]):
    Path("m.csv").write_bytes(
        csv_of([("item", "price"), ("Борщ", "1,234")], delimiter=";", encoding="cp1251")
    )
    options = [
        "--decimal",
        "point",
        "--delimiter",
        "semicolon",
        "--encoding",
        "windows-1251",
        "--currency",
        "RUB",
    ]
    assert cli.run(["catalog", "import", "csv", "m.csv", *options]) == 0
    made = json.loads(capsys.readouterr().out)
    [item] = made["items"].values()
    assert (made["currency"], item["name"], item["basePrice"]) == ("RUB", "Борщ", "1234.00")


@pytest.mark.parametrize("write", [xlsx_of, ods_of])
def test_a_workbook_reads_no_file_beside_it(
    write: Callable[[Any], bytes], capsys: pytest.CaptureFixture[str]
):
    Path("choices.xlsx").write_bytes(b"junk")
    Path("m.xlsx").write_bytes(write({"menu": priced(1)}))
    assert cli.run(["catalog", "import", "csv", "m.xlsx"]) == 0
    assert json.loads(capsys.readouterr().out)["currency"] == "USD"


@pytest.mark.parametrize(
    "arguments", [["gone.csv"], ["."], ["m.csv", "--choices", "gone.csv"], ["m.csv", "--decimal", "dot"]]
)
def test_what_cannot_be_read_ends_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]):
    Path("m.csv").write_bytes(csv_of(priced(1)))
    assert cli.run(["catalog", "import", "csv", *arguments]) == 2
    assert capsys.readouterr().err


@pytest.mark.parametrize("name", ["m.xlsx", "m.XLSX", "m.xlsm", "m.ods"])
def test_a_file_that_only_has_the_name_of_a_workbook_is_told_apart(
    name: str, capsys: pytest.CaptureFixture[str]
):
    Path(name).write_bytes(csv_of(priced(1)))
    assert cli.run(["catalog", "import", "csv", name]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert (
        "but the file isn't such a workbook. Save it again as .xlsx or .ods; if it is text, name it .csv."
        in said
    )


def test_an_import_without_a_format_names_the_formats_and_the_command_for_spreadsheets(
    capsys: pytest.CaptureFixture[str],
):
    Path("m.csv").write_bytes(csv_of(priced(1)))
    for arguments in (["m.csv"], ["--from", "toast", "m.csv"]):
        assert cli.run(["catalog", "import", *arguments]) == 2
        assert "mercato catalog import csv FILE reads a spreadsheet." in " ".join(
            capsys.readouterr().err.split()
        )


def test_an_import_over_the_catalog_before_keeps_its_ids(capsys: pytest.CaptureFixture[str]):
    head = ("section", "item", "price")
    Path("m.csv").write_bytes(csv_of([head, ("Hot", "Small", 1)]))
    assert cli.run(["catalog", "import", "csv", "m.csv", "-o", "a.json", "--currency", "eur"]) == 0
    assert "Ids:" not in capsys.readouterr().err
    [before] = json.loads(Path("a.json").read_bytes())["items"]
    Path("m.csv").write_bytes(csv_of([head, ("Cold", "Small", 2), ("Hot", "Small", 1)]))

    def small_and_hot(arguments: list[str]) -> str:
        assert cli.run(["catalog", "import", "csv", "m.csv", *arguments, "--currency", "eur"]) == 0
        made: Any = json.loads(Path(arguments[1]).read_bytes())
        found: str = next(id_ for id_, item in made["items"].items() if item["basePrice"] == "1.00")
        return found

    assert small_and_hot(["-o", "b.json"]) != before
    assert small_and_hot(["-o", "c.json", "--previous", "a.json"]) == before
    assert "Ids:" not in capsys.readouterr().err
    assert small_and_hot(["-o", "a.json"]) == before
    assert "Ids: a.json" in capsys.readouterr().err


def test_a_file_that_is_replaced_and_no_catalog_is_named_and_one_that_is_named_is_refused(
    capsys: pytest.CaptureFixture[str],
):
    Path("m.csv").write_bytes(csv_of(priced(1)))
    Path("a.json").write_bytes(b"{}")
    Path("empty.json").touch()
    assert cli.run(["catalog", "import", "csv", "m.csv", "-o", "a.json", "--previous", "m.csv"]) == 2
    assert "m.csv is not valid" in capsys.readouterr().err
    assert cli.run(["catalog", "import", "csv", "m.csv", "-o", "a.json"]) == 0
    assert "a.json isn't a valid CatalogSet, so no ids are kept from it." in capsys.readouterr().err
    assert cli.run(["catalog", "import", "csv", "m.csv", "-o", "empty.json"]) == 0
    assert "ids" not in capsys.readouterr().err
