"""`make start-here`, in small: a page of a repository is followed in a clone of what is committed."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs import follow_start_here
from tests.docs.documents import ROOT
from tests.docs.follow_start_here import follow
from tests.docs.reader import tools

pytestmark = pytest.mark.skipif(
    tools() is not None, reason=f"a reader needs {tools()}, which is not installed"
)

PAGE = Path("page.md")


def committed(root: Path, text: str) -> Path:
    (root / PAGE).write_text(text)
    who = ("-c", "user.name=Reader", "-c", "user.email=reader@example.com", "-c", "commit.gpgsign=false")
    for command in (("init", "--quiet"), ("add", "."), (*who, "commit", "--quiet", "-m", "A page")):
        subprocess.run(["git", *command], cwd=root, check=True)
    (root / "uncommitted.txt").touch()
    return root


def test_a_page_is_followed_in_a_clone_and_timed(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    page = "```sh\ntest ! -e uncommitted.txt\nexport WORD=here\n```\n\n```sh\necho $WORD\n```\n\n```text\nhere\n```\n"
    assert follow(committed(tmp_path, page), PAGE) == 0
    out = capsys.readouterr().out
    assert "page.md does what it says, in a clean clone, in" in out
    assert "test ! -e uncommitted.txt" in out
    assert not (tmp_path / ".state").exists()


def test_a_wrong_statement_on_a_page_is_reported_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert follow(committed(tmp_path, "# Page\n\n```sh\nmkdir a && false\n```\n"), PAGE) == 1
    assert "page.md:3: exit code 1" in capsys.readouterr().err


def test_without_the_tools_nothing_is_begun(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(follow_start_here, "tools", lambda: "curl")
    assert follow_start_here.main() == 2


def test_it_needs_nothing_that_is_installed():
    program = "import tests.docs.follow_start_here"
    subprocess.run([sys.executable, "-S", "-c", program], cwd=ROOT, check=True)
