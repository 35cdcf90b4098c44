"""`python -m benchmarks [name…]`: all of them, or the named ones."""

import importlib
import sys

ALL = (
    "ingest_cpu",
    "runs",
    "reads",
    "start",
    "discovery",
    "agent_carts",
    "agent_reads",
    "carts",
    "catalog_sets",
    "orders",
    "updates",
    "deliveries",
    "dead_store",
)

for name in sys.argv[1:] or ALL:
    print(f"\n{name}", flush=True)
    importlib.import_module(f"benchmarks.{name}").main()
