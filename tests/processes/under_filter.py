"""Run a command under the unit's system call filter, as systemd would: `python under_filter.py UNIT COMMAND …`.

systemd itself isn't needed: its own list of each group is read from `systemd-analyze`, and loaded with libseccomp.
"""

import ctypes
import errno
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

SCMP_ACT_ALLOW = 0x7FFF0000
SCMP_ACT_ERRNO = 0x00050000
PR_SET_NO_NEW_PRIVS = 38


@cache
def groups() -> dict[str, list[str]]:
    text = subprocess.run(
        ["systemd-analyze", "syscall-filter", "--no-pager"], capture_output=True, text=True, check=True
    ).stdout
    found: dict[str, list[str]] = {}
    members: list[str] = []
    for line in text.splitlines():
        if re.fullmatch(r"@[\w-]+", line):
            members = found[line] = []
        elif line.startswith("    ") and not line.strip().startswith("#"):
            members.append(line.strip())
    return found


def expanded(name: str) -> set[str]:
    if not name.startswith("@"):
        return {name}
    return set().union(*(expanded(member) for member in groups()[name]))


def allowed(unit: Path) -> set[str]:
    """Return the system calls that the unit's lines leave: groups that are allowed, without those denied after them."""
    found = expanded("@default")
    for line in re.findall(r"^SystemCallFilter=(.+)$", unit.read_text(), re.MULTILINE):
        names = set().union(*(expanded(name) for name in line.lstrip("~").split()))
        found = found - names if line.startswith("~") else found | names
    return found


def load(calls: set[str]) -> None:
    """Allow only these system calls to this process and its children; others fail with EPERM."""
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(library.seccomp_init(SCMP_ACT_ERRNO | errno.EPERM))
    for name in sorted(calls):
        number = library.seccomp_syscall_resolve_name(name.encode())
        if number >= 0:
            # Some only exist on other machines.
            library.seccomp_rule_add(context, SCMP_ACT_ALLOW, number, 0)
    ctypes.CDLL(None).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if library.seccomp_load(context) != 0:
        raise OSError("the filter can't be loaded")


if __name__ == "__main__":
    load(allowed(Path(sys.argv[1])))
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606  # what the test names
