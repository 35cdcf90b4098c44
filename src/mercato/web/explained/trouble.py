"""What is the service's own fault, or its surroundings'."""

from typing import Final

from mercato.web.explained.commands import NOBODY, call, script
from mercato.web.explained.model import Explained

PAGES: Final = {
    "INTERNAL_ERROR": Explained(
        "The service has met a fault of its own. Nothing that is told as an error was half done: what a "
        "request changes is kept whole or not at all.",
        "Send the same again; Place order with the same `Idempotency-Key`. If it stays, report the "
        "`requestId`: the log has an entry with `bug` and the stack under it.",
        script(call("/v1/commerce/stores")),
        arranged="No request should provoke it. It takes a fault in the service, here one in reading the stores.",
    ),
    "SERVICE_UNAVAILABLE": Explained(
        "The database is busy, full or away, or the service is stopping.",
        "Send the same again after `Retry-After`. Whoever runs it finds the cause with `mercato doctor`, "
        "and in `/readyz`.",
        script(
            """python3 -c '
import sqlite3, sys, time

other = sqlite3.connect(sys.argv[1], isolation_level=None)
other.execute("BEGIN IMMEDIATE")
print("held", flush=True)
time.sleep(60)
' "$DATA/mercato.db" > held.txt &
HOLDER=$!
until grep -s -q held held.txt; do sleep 0.1; done""",
            call(
                f"/v1/commerce/stores/{NOBODY}",
                '{"description": "Written while the database is busy"}',
                options="-X PUT",
            ),
            "kill $HOLDER",
        ),
        arranged="The service uses its embedded database, which another process keeps from being written to.",
    ),
}
