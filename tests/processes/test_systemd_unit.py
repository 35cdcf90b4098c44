"""The service works under the system call filter of deploy/mercato.service."""

import ctypes.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.databases import only_sqlite
from tests.forks import MERCATO
from tests.processes.test_serve import environment

UNIT = Path(__file__).resolve().parents[2] / "deploy/mercato.service"
FILTER = Path(__file__).with_name("under_filter.py")

pytestmark = [
    only_sqlite,
    pytest.mark.skipif(
        shutil.which("systemd-analyze") is None or ctypes.util.find_library("seccomp") is None,
        reason="systemd's lists of system calls, or libseccomp, isn't here",
    ),
]


def under_filter(*command: object, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, FILTER, UNIT, *map(str, command)],
        capture_output=True,
        text=True,
        check=False,
        env=environment(**settings),
    )


def test_the_whole_story_of_a_network_runs_under_the_filter(database_kind: str):
    ended = under_filter(MERCATO, "demo")
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_filter_refuses_what_only_administrators_need(database_kind: str):
    refused = under_filter(sys.executable, "-c", "import os; os.chroot('/')")
    assert "PermissionError" in refused.stderr
    refused = under_filter(sys.executable, "-c", "import time; time.clock_settime(time.CLOCK_REALTIME, 0)")
    assert "PermissionError" in refused.stderr
