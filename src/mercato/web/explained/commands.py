"""The commands that examples are made of. They run in bash with curl, and python3 where a program has to answer."""

from typing import Final

NOBODY: Final = "01963f5e-7e3b-7ccc-8000-00000000dead"
"""The id of nothing."""

LINE: Final = '{"itemId": "$ITEM", "quantity": 1, "modifierGroups": []}'
PICKUP: Final = '{"mode": "PICKUP", "scheduleType": "ASAP"}'
DELIVERY: Final = (
    '{"mode": "DELIVERY_BY_MERCHANT", "scheduleType": "ASAP", "deliveryType": "DOOR_TO_DOOR",\n'
    '    "address": %s}'
)
HERE: Final = DELIVERY % '{"address1": "801 Main Street", "city": "Madison", "postalCode": "53703"}'
TILL: Final = "http://127.0.0.1:9100"
"""Where the store of an example answers."""


def call(
    path: str, body: str = "", *, key: str = "KEY", options: str = "", media: str = "application/json"
) -> str:
    """Return a request; a body of several lines or with variables in it is a here-document."""
    text = f'curl -s {options + " " if options else ""}"$URL{path}"'
    if key:
        text += f' -H "Authorization: Bearer ${key}"'
    if not body:
        return text
    text += f' \\\n  -H "Content-Type: {media}"'
    if body.startswith("@"):
        return f"{text} -d {body}"
    return f"{text} -d @- <<END\n{body}\nEND" if "\n" in body or "$" in body else f"{text} -d '{body}'"


def quiet(path: str, body: str = "", *, key: str = "KEY", options: str = "") -> str:
    """Return a request that has to succeed; its answer is not looked at."""
    return call(path, body, key=key, options=f"{options} -f -o answer.json".strip())


def order(*, lines: str = LINE, fulfillment: str = PICKUP, more: str = "") -> str:
    """Return the body of an order; `more` are members, each with a comma behind it."""
    return f"""{{
  {more}"cart": {{"storeId": "$STORE", "catalogSetId": "$SET", "lineItems": [{lines}]}},
  "fulfillment": {fulfillment},
  "customer": {{"email": "ada@example.com", "firstName": "Ada", "lastName": "Lovelace", "phone": "+1 608 555 0100"}},
  "clientContext": {{"ip": "203.0.113.7", "userAgent": "example/1.0"}}
}}"""


def place(body: str, *, key: str = "example-$RANDOM-$RANDOM", options: str = "") -> str:
    """Return a request that places an order, under a key of its own."""
    named = f'-H "Idempotency-Key: {key}"'
    return call("/v1/marketfront/orders/place", body, key="SHOP_KEY", options=f"{named} {options}".strip())


def kept(body: str, name: str = "order.json") -> str:
    """Return what saves a body to a file."""
    return f"cat > {name} <<END\n{body}\nEND"


def member(name: str, file: str) -> str:
    """Return what prints a member of a saved answer."""
    return f"""$(sed -n 's/.*"{name}": *"\\([^"]*\\)".*/\\1/p' {file})"""


def webhook(url: str | None) -> str:
    """Return a request that gives the store a webhook, or takes it away."""
    value = "null" if url is None else f'"{url}"'
    return quiet("/v1/commerce/stores/$STORE", f'{{"webhookUrl": {value}}}', options="-X PUT")


def answered(status: int, body: str, then: str, *, seconds: int = 0) -> str:
    """Return an example in which the store answers every question like this."""
    wait = f"\n        time.sleep({seconds})" if seconds else ""
    return script(
        f"""python3 -c '
import time
from http.server import BaseHTTPRequestHandler, HTTPServer


class Till(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"])){wait}
        self.send_response({status})
        self.end_headers()
        self.wfile.write(b"{escaped(body)}")


HTTPServer(("127.0.0.1", 9100), Till).serve_forever()
' 2> till.log &
TILL=$!
until curl -s -o answer.json {TILL}; do sleep 0.1; done""",
        webhook(TILL),
        then,
        webhook(None),
        "kill $TILL",
    )


def escaped(body: str) -> str:
    """Return a text as it stands between double quotes of Python, in single quotes of the shell."""
    return body.replace('"', '\\"').replace("'", "'\\''")


def script(*commands: str) -> str:
    """Return commands one below the other."""
    return "\n".join(commands) + "\n"
