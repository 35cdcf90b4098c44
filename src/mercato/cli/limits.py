"""How many files a process may have open: every connection is one."""

import resource
from typing import Final

WANTED: Final = 4096
"""Connections of partners, 1,024 webhook calls under way, pulls, and the database: with room to spare."""

_UNLIMITED: Final = 1_048_576
"""What Linux itself takes as the end, by default, where no limit is set."""


def raise_open_files() -> None:
    """Take as many open files as the system lets this process have; most shells begin with 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (_UNLIMITED, hard))
    else:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def most_open_files() -> int:
    """Return how many a server that is started here may have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _UNLIMITED if hard == resource.RLIM_INFINITY else hard
