"""A reader that runs the commands of a document in one shell, with real servers, and compares the output.

    ```sh                      runs in the reader's shell; a `json` or `text` block right below is its output
    ```sh keeps-running 9000   runs in a terminal of its own, which knows nothing of the shell, until the page is read;
                               listens on that port
    ```python receiver.py      is saved under that name; without a name it is run
    ```ts receiver.ts          is saved under that name, as is ```go; tests/docs/test_receivers.py runs them

Ports are replaced by free ones, so that several readers don't collide.
"""

import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

from tests.docs.documents import ROOT, Block, blocks, shown
from tests.docs.expected import difference
from tests.ports import free_port

PATIENCE = 40.0
"""Seconds until something that takes a moment has happened."""

OUTPUT = ("json", "text")
SAVED = ("ts", "go")

NOT_RUN = {"make test\n"}
"""Commands that would run this test again; only whether make knows the target is checked."""

_PORT = re.compile(r"(?<![\w-])(8000|8001|8002|9000|9100|9200|9300)(?![\w-])")
_CHANGES = re.compile(r"-X |-d |mercato |sed |mkdir ")

_PROLOGUE = "set -eu -o pipefail -a\n. ./.state\nset +a\nset -a\n"
_EPILOGUE = "\n{ export -p; declare -f; } > .state\n"


@dataclass
class Reader:
    """One reader with a directory like a fresh clone's, with what `make` would have installed.

    In a real `clone` `make` still has to install everything. The pages that are read apart have `mercato` started by
    forks, where that is the same; the others have the installed program.
    """

    desk: Path
    clone: bool = False
    patience: float = PATIENCE
    replaced: dict[str, str] = field(default_factory=dict)
    read: list[str] = field(default_factory=list)
    _ports: dict[str, str] = field(default_factory=dict)
    _running: list[tuple[subprocess.Popen[bytes], int]] = field(default_factory=list)
    """What keeps running, and a pipe that ends when the last process of it has ended."""
    _inherited: tuple[int, ...] = ()
    """What all of its processes have of the tests': the connection with the process that forks, if any."""

    def __post_init__(self) -> None:
        (self.desk / ".state").touch()
        if not self.clone:
            self._furnish()

    def _furnish(self) -> None:
        for name in ("Makefile", "pyproject.toml", "requirements.lock", "examples", "packages"):
            (self.desk / name).symlink_to(ROOT / name)
        venv = self.desk / ".venv"
        venv.mkdir()
        for part in Path(sys.prefix).iterdir():
            if part.name not in {".run", ".dev"}:
                (venv / part.name).symlink_to(part)
        # make finds everything installed, and newer than what it is made from.
        for stamp in (".run", ".dev"):
            (venv / stamp).touch()

    def reads(self, page: Path) -> None:
        """Run a page from its first line to its last; fail where it is wrong."""
        parts = list(blocks(page))
        for block, after in zip_longest(parts, parts[1:]):
            where = f"{shown(page)}:{block.line}"
            if block.language == "sh" and "keeps-running" in block.words:
                self._start(block, where)
            elif block.language == "sh":
                self._type(block, after if after is not None and after.language in OUTPUT else None, where)
            elif block.language == "python":
                self._python(block, where)
            elif block.language in SAVED:
                (self.desk / block.words[0]).write_text(self._local(block.text))
            elif block.language not in OUTPUT:
                raise AssertionError(f"{where}: there is no way to run a block of {block.language!r}")
        self.read.append(page.name)

    def reads_apart(self, page: Path) -> None:
        """Read a page in a new shell; undo what it starts, sets and writes."""
        running = list(self._running)
        there = {path: path.read_bytes() if path.is_file() else None for path in self.desk.iterdir()}
        (self.desk / ".state").write_bytes(b"")
        self._start_by_forks()
        try:
            self.reads(page)
        finally:
            self._stop([one for one in self._running if one not in running])
            self._restore(there)

    def _start_by_forks(self) -> None:
        """Let `mercato` be started by the process that forks: a hundred starts are most of what pages cost."""
        if self._inherited or sys.platform != "linux":
            return
        # Not where this is imported, which a reader of a real clone does before anything is installed.
        from tests.forks import ASKS, forker

        programs = self.desk / ".venv/bin"
        programs.unlink()
        programs.mkdir()
        for program in Path(sys.prefix, "bin").iterdir():
            (programs / program.name).symlink_to(program)
        asks = programs / "mercato"
        asks.unlink()
        asks.write_text(ASKS)
        asks.chmod(0o755)
        self._inherited = (forker().fileno(),)

    def _restore(self, there: dict[Path, bytes | None]) -> None:
        """Remove new files from the directory, and restore those that have changed."""
        for path in set(self.desk.iterdir()) - set(there):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        for path, content in there.items():
            if content is not None and not (path.is_file() and path.read_bytes() == content):
                path.write_bytes(content)

    def says(self, text: str) -> str:
        """Run commands in the reader's shell, and return what they print."""
        done = self._run(text)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def leaves(self) -> None:
        """Stop everything that runs."""
        self._stop(list(self._running))

    def _type(self, block: Block, output: Block | None, where: str) -> None:
        text = self._local(block.text)
        if block.text in NOT_RUN:
            assert self._run(f"make -n {block.text.split()[1]}").returncode == 0, where
            return
        until = time.monotonic() + self.patience
        while True:
            done = self._run(text)
            fault = None if done.returncode == 0 else f"exit code {done.returncode}\n{done.stdout}"
            if fault is None and output is not None:
                fault = difference(output.language, self._local(output.text), done.stdout)
            if fault is None:
                return
            # A read may be repeated; a write is sent once.
            if output is None or _CHANGES.search(block.text) or time.monotonic() > until:
                raise AssertionError(f"{where}: {fault}\n{done.stderr}")
            time.sleep(0.1)

    def _run(self, text: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", _PROLOGUE + text + _EPILOGUE],
            cwd=self.desk, env=self._environment(), capture_output=True, text=True, timeout=120, check=False,
            pass_fds=self._inherited,
        )  # fmt: skip

    def _python(self, block: Block, where: str) -> None:
        name = block.words[0] if block.words else "block.py"
        (self.desk / name).write_text(self._local(block.text))
        if not block.words:
            done = self._run(".venv/bin/python block.py")
            assert done.returncode == 0, f"{where}: {done.stderr}"

    def _start(self, block: Block, where: str) -> None:
        words = [word for word in block.words if word != "keeps-running"]
        log = self.desk / f"running-{len(self._running)}.log"
        end, held = os.pipe()
        with log.open("wb") as file:
            process = subprocess.Popen(
                ["bash", "-c", "set -eu -o pipefail\n" + self._local(block.text)],
                cwd=self.desk, env=self._environment(), stdout=file, stderr=file, start_new_session=True,
                pass_fds=[held, *self._inherited],
            )  # fmt: skip
        os.close(held)
        self._running.append((process, end))
        until = time.monotonic() + self.patience
        while not (_listens(int(self._port(words[0]))) if words else log.stat().st_size):
            if process.poll() is not None or time.monotonic() > until:
                raise AssertionError(f"{where} does not run:\n{log.read_text()}")
            time.sleep(0.05)

    def _stop(self, running: list[tuple[subprocess.Popen[bytes], int]]) -> None:
        """Return when the shells have ended and what they ran, which frees its port only then."""
        for process, _ in running:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        for process, end in running:
            process.wait(self.patience)
            ended, _, _ = select.select([end], [], [], self.patience)
            os.close(end)
            self._running.remove((process, end))
            assert ended, f"It goes on after SIGTERM: {process.args!r}"

    def _environment(self) -> dict[str, str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("MERCATO_")}
        if self._inherited:
            clean["FORKER"] = str(self._inherited[0])
        # `make run` says the port in its documentation, not in its command.
        return clean | {"MERCATO_PORT": self._port("8000"), "MERCATO_LOG_LEVEL": "warning", "NO_COLOR": "1"}

    def _local(self, text: str) -> str:
        for documented, real in self.replaced.items():
            text = text.replace(documented, real)
        return _PORT.sub(lambda match: self._port(match[0]), text)

    def _port(self, documented: str) -> str:
        if documented not in self._ports:
            self._ports[documented] = str(free_port())
        return self._ports[documented]


def _listens(port: int) -> bool:
    with socket.socket() as plug:
        return plug.connect_ex(("127.0.0.1", port)) == 0


def tools() -> str | None:
    """Return which of a reader's tools is not on this machine, or None."""
    return next((name for name in ("bash", "curl", "make", "sed") if shutil.which(name) is None), None)
