import os
import subprocess
import sys
from pathlib import Path

READY = """
import builtins, os, sys

from mercato_tools.cli.main import run

say = builtins.print

def overheard(*words, **options):
    if str(words[0]).startswith("listening on"):
        say(*sys.modules, flush=True)
        os._exit(0)
    say(*words, **options)

builtins.print = overheard
sys.exit(run(["serve", "--port", "0", "--data-dir", sys.argv[1]]))
"""


def test_the_process_that_reads_a_spreadsheet_imports_no_database():
    script = "import sys, mercato.features.catalogs.menu_files; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()).isdisjoint({"aiohttp", "sqlalchemy", "structlog"})


def test_a_start_imports_nothing_that_it_does_not_need(tmp_path: Path):
    for _database in ("new", "existing"):
        started = subprocess.run(
            [sys.executable, "-c", READY, tmp_path],
            env={name: value for name, value in os.environ.items() if not name.startswith("MERCATO_")},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        imported = set(started.stdout.split())
        assert "mercato.http.server" in imported
        # Each of them costs a start 15 to 100 ms: import it in the function that needs it, or name types in
        # another module.
        assert imported.isdisjoint({"aiohttp", "alembic", "asyncpg", "sqlalchemy.orm"})
