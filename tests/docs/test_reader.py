"""The reader notices when a document is wrong: without that, reading it would prove nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.docs.reader import PATIENCE, Reader


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    monkeypatch.setattr("tests.docs.reader.shown", str)
    desk = tmp_path / "desk"
    desk.mkdir()
    someone = Reader(desk, patience=0.3)
    yield someone
    someone.leaves()


def page(directory: Path, text: str) -> Path:
    written = directory / "page.md"
    written.write_text(text)
    return written


@pytest.mark.parametrize(
    "text",
    [
        "```sh\nfalse\n```\n",
        "```sh\nnothing | cat\n```\n",
        "```sh\necho $UNSET\n```\n",
        "```sh\necho 1\n```\n\n```text\n2\n```\n",
        "```sh\necho '{}'\n```\n\n```json\n{\"a\": 1}\n```\n",
        "```sh keeps-running 9000\ntrue\n```\n",
        "```sh keeps-running 9000\nsleep 9\n```\n",
        "```python\nraise ValueError\n```\n",
        "```perl\nprint 1\n```\n",
    ],
    ids=["fails", "fails in a pipe", "unset", "text", "json", "ends", "does not listen", "raises", "unknown"],
)
def test_a_wrong_page_is_noticed(reader: Reader, tmp_path: Path, text: str) -> None:
    with pytest.raises(AssertionError, match=r"page\.md:1"):
        reader.reads(page(tmp_path, text))


def test_variables_of_one_block_are_set_in_the_next(reader: Reader, tmp_path: Path) -> None:
    reader.reads(
        page(tmp_path, '```sh\nA=1\nf() { echo "$A$1"; }\n```\n\n```sh\nf 2\n```\n\n```text\n12\n```\n'),
    )


def test_a_terminal_of_its_own_knows_no_variable_of_the_shell(reader: Reader, tmp_path: Path) -> None:
    text = '```sh\nexport A=1\n```\n\n```sh keeps-running\necho "A is ${A-not set}"; sleep 9\n```\n'
    reader.patience = PATIENCE
    reader.reads(page(tmp_path, text))
    assert (reader.desk / "running-0.log").read_text() == "A is not set\n"


def test_a_page_read_apart_begins_with_an_empty_shell_and_leaves_nothing(
    reader: Reader, tmp_path: Path
) -> None:
    reader.reads(page(tmp_path, "```sh\nexport A=1; echo a > kept.txt\n```\n"))
    with pytest.raises(AssertionError, match="A: unbound variable"):
        reader.reads_apart(
            page(tmp_path, "```sh\necho b > kept.txt; mkdir -p d; touch d/new.txt; echo $A\n```\n")
        )
    reader.reads(page(tmp_path, "```sh\necho $A; cat kept.txt; ls -d d || true\n```\n\n```text\n1\na\n```\n"))


def test_a_read_is_repeated_and_an_order_is_not(reader: Reader, tmp_path: Path) -> None:
    reader.patience = 20
    counting = "echo x >> asked; wc -l < asked | xargs"
    reader.reads(page(tmp_path, f"```sh\n{counting}\n```\n\n```text\n3\n```\n"))
    with pytest.raises(AssertionError, match="printed '4"):
        reader.reads(page(tmp_path, f"```sh\nmkdir -p d; {counting}\n```\n\n```text\n6\n```\n"))
