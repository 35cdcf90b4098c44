"""Programs in processes of their own, which don't import everything anew: the command `mercato`, and modules of tests.

Importing is most of what a start costs, and hundreds of tests start a command. So each worker of the tests has a
process that has imported what the commands need, and forks: the child has its own arguments, environment, files,
directory and signals, runs the program, and ends as that does.

What Python itself or an import reads comes too late for it: with such a variable, and everywhere but on Linux, the
installed program is started. A test that wants to start that gives it the variables `INSTALLED`.

`ASKS` is a program for a shell, and for a test that doesn't await: it is `mercato` there, and has this worker's
process fork. `program()` is a file of it.
"""

import asyncio
import atexit
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Final

from mercato.platform import processes

MERCATO: Final = Path(sys.executable).with_name("mercato")

READ_EARLY: Final = ("PYTHON", "LC_", "LANG", "TZ")
"""How variables begin that a process reads while it starts, and never again."""

INSTALLED: Final = {"PYTHONHASHSEED": "0"}

IMPORTED: Final = (
    "mercato_tools.cli.commands",
    "mercato_tools.cli.failures",
    "mercato.cli.failures",
    "mercato.cli.serve",
    "mercato.cli.session",
    "mercato.cli.output",
    "mercato.asgi",
    "mercato.http.server",
    "mercato_client.testing",
    "uvloop",
)

MOST_BYTES: Final = 1 << 17
"""Bytes of one task: a command's arguments and environment."""

Target = int | IO[Any] | None
"""Where output goes: PIPE, DEVNULL, a file, or None for where that of the tests goes."""


class Fork:
    """A forked process, with what tests use of `asyncio.subprocess.Process`."""

    def __init__(self, pid: int, life: asyncio.StreamReader) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdout: asyncio.StreamReader | None = None
        self.stderr: asyncio.StreamReader | None = None
        self._end = asyncio.create_task(self._ended(life))

    async def _ended(self, life: asyncio.StreamReader) -> int:
        self.returncode = int(await life.read())
        return self.returncode

    async def wait(self) -> int:
        return await asyncio.shield(self._end)

    async def communicate(self) -> tuple[bytes, bytes]:
        out, err = await asyncio.gather(_rest(self.stdout), _rest(self.stderr))
        await self.wait()
        return out, err

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            # It may have ended, and its code be on the way.
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


async def _rest(stream: asyncio.StreamReader | None) -> bytes:
    return b"" if stream is None else await stream.read()


Running = asyncio.subprocess.Process | Fork


async def start(
    *arguments: Any,
    env: Mapping[str, str],
    stdout: Target = None,
    stderr: Target = None,
    cwd: Path | None = None,
    module: str = "",
) -> Running:
    """Start `mercato` with these arguments and no input; or `python -m` of a module, found from the directory."""
    words = [str(argument) for argument in arguments]
    if sys.platform != "linux" or _early(env) != _early(os.environ):
        program = [sys.executable, "-m", module] if module else [MERCATO]
        return await asyncio.create_subprocess_exec(
            *program, *words, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, env=env, cwd=cwd
        )
    directory = str(cwd or Path.cwd())
    task = {"module": module, "arguments": words, "environment": dict(env), "directory": directory}
    read, write = os.pipe()
    with _given(stdout, 1) as (out, to_out), _given(stderr, 2) as (err, to_err):
        socket.send_fds(forker(), [json.dumps(task).encode()], [to_out, to_err, write])
    os.close(write)
    life = await _reader(read)
    process = Fork(int(await life.readline()), life)
    process.stdout = None if out is None else await _reader(out)
    process.stderr = None if err is None else await _reader(err)
    return process


def _early(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in environment.items() if name.startswith(READ_EARLY)}


@contextmanager
def _given(target: Target, own: int) -> Iterator[tuple[int | None, int]]:
    """Open what a process writes to; return the end to read, if it is a pipe, and the one to write."""
    if target is None:
        yield None, own
    elif target == subprocess.PIPE:
        read, write = os.pipe()
        yield read, write
        os.close(write)
    elif target == subprocess.DEVNULL:
        with Path(os.devnull).open("wb") as nothing:
            yield None, nothing.fileno()
    else:
        yield None, target if isinstance(target, int) else target.fileno()


class _Pipe(asyncio.StreamReaderProtocol):
    """Closes the pipe at its end: nothing is ever written to it."""

    def eof_received(self) -> bool:
        super().eof_received()
        return False


async def _reader(handle: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    file = os.fdopen(handle, "rb", buffering=0)
    await asyncio.get_running_loop().connect_read_pipe(lambda: _Pipe(reader), file)
    return reader


ASKS: Final = f"""#!{sys.executable} -IS
import json, os, signal, socket, sys
environment = dict(os.environ)
try:
    forker = socket.socket(fileno=int(environment["FORKER"]))
except OSError:  # a command started this one without the connection
    os.execv("{MERCATO}", sys.argv)
with forker:
    read, write = os.pipe()
    task = dict(module="", arguments=sys.argv[1:], environment=environment, directory=os.getcwd())
    socket.send_fds(forker, [json.dumps(task).encode()], [1, 2, write, 0])
os.close(write)
with open(read) as life:
    pid = int(life.readline())
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: os.kill(pid, number))
    code = int(life.read())
sys.exit(code if code >= 0 else 128 - code)
"""
"""A program that starts a fork in its own place, with its input: a tenth of what the installed one costs.

It inherits the connection with the process that forks, whose number is in the variable `FORKER`.
"""


@cache
def program() -> str:
    """Return what to start as `mercato` with the options `inherited()`, by `subprocess` or in a shell's line."""
    if sys.platform != "linux":
        return str(MERCATO)
    # In the directory of this run of the tests, which is removed with it.
    asks = Path(tempfile.mkdtemp(prefix="asks-")) / "mercato"
    asks.write_text(ASKS)
    asks.chmod(0o755)
    return str(asks)


def inherited(environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Return the options of `subprocess` with which `program()` is a fork in this environment."""
    connection = forker().fileno()
    return {"env": dict(environment) | {"FORKER": str(connection)}, "pass_fds": [connection]}


@cache
def forker() -> socket.socket:
    """Return the connection with this worker's process that forks. It ends when the connection does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = subprocess.Popen(
        [sys.executable, "-P", __file__, str(theirs.fileno())],
        pass_fds=[theirs.fileno()],
        stdin=subprocess.DEVNULL,
    )
    theirs.close()

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


# --- the process that forks -----------------------------------------------------------------------


def fork_for(connection: socket.socket) -> str:
    """Fork for each task until the tests close the connection. Return in the child the module that it runs, if any."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    woken, wake = os.pipe()
    for end in (woken, wake):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake)
    lives: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([connection.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, MOST_BYTES)
            _tell_ends(lives)
        if connection.fileno() not in ready:
            continue
        task, handles, _, _ = socket.recv_fds(connection, MOST_BYTES, 4)
        if not task:
            os._exit(0)
        out, err, life, *given = handles
        here = os.getpid()
        pid = os.fork()
        if pid == 0:
            # If the tests are killed, their processes end.
            processes.exit_with_parent(here)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.dup2(out, 1)
            os.dup2(err, 2)
            for handle in given:
                os.dup2(handle, 0)
            connection.close()
            for handle in (woken, wake, *handles, *lives.values()):
                os.close(handle)
            return _prepare(**json.loads(task))
        lives[pid] = life
        for handle in (out, err, *given):
            os.close(handle)
        os.write(life, b"%d\n" % pid)


def _tell_ends(lives: dict[int, int]) -> None:
    """Tell the tests the exit codes of processes that have ended."""
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            life = lives.pop(pid)
            # The test may have ended before.
            with suppress(BrokenPipeError):
                os.write(life, b"%d\n" % os.waitstatus_to_exitcode(status))
            os.close(life)


def _prepare(module: str, arguments: list[str], environment: dict[str, str], directory: str) -> str:
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    processes._crash_at = environment.get(processes.CRASH_VARIABLE)
    sys.argv = [str(MERCATO), *arguments]
    # They belong to the files of the process that forked.
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115  # until the end
    sys.stderr = open(2, "w", closefd=False, buffering=1, errors="backslashreplace")  # noqa: SIM115
    if module:
        sys.path.insert(0, directory)
    return module


if __name__ == "__main__":
    for name in IMPORTED:
        import_module(name)
    gc.freeze()
    if module := fork_for(socket.socket(fileno=int(sys.argv[1]))):
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    else:
        from mercato_tools.cli.main import main

        main()
