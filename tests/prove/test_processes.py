"""Killing the processes of a proof."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

from tests.prove.processes import Fleet, Program


class Process:
    """A child process that has ended while asyncio hasn't noticed yet."""

    returncode = None

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self.pid = child.pid
        self.kill = child.kill


def test_the_exit_code_of_a_process_that_has_just_ended_is_kept(tmp_path: Path):
    child = subprocess.Popen([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    program = Program(name="serve-1", role="serve", settings={}, log=tmp_path / "log")
    program.process = cast("Any", Process(child))
    Fleet([program], random.Random(1)).kill_one()
    _, status = os.waitpid(child.pid, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
    child.returncode = -signal.SIGKILL
