"""The commands that examples are made of. They run in bash with curl, and python3 where a program has to answer."""

from typing import Final

NOBODY: Final = "01963f5e-7e3b-7ccc-8000-00000000dead"
"""The id of nothing."""

ITEM: Final = "01963f5e-7e3b-7ccc-8000-0000000000a1"
DISH: Final = "01963f5e-7e3b-7ccc-8000-0000000000a2"
CHOICE: Final = "01963f5e-7e3b-7ccc-8000-0000000000a3"
GROUP: Final = "01963f5e-7e3b-7ccc-8000-0000000000b1"
"""Ids of the throw-away store's catalog. Of the dish exactly one choice has to be made."""

CATALOG: Final = f"""{{"items": {{
  "{ITEM}": {{"name": "Cake", "basePrice": "4.00"}},
  "{DISH}": {{"name": "Tea", "basePrice": "2.00", "modifierGroupIds": ["{GROUP}"]}},
  "{CHOICE}": {{"name": "Milk", "basePrice": "0.50"}}}},
 "modifierGroups": {{
  "{GROUP}": {{"name": "With", "minimumAllowed": 1, "maximumAllowed": 1, "itemIds": ["{CHOICE}"]}}}}}}"""

SHOP: Final = "http://127.0.0.1:9100"
"""Where the throw-away store's catalog is, and where it answers."""

LINE: Final = f'{{"itemId": "{ITEM}", "quantity": 1, "modifierGroups": []}}'
PICKUP: Final = '{"mode": "PICKUP", "scheduleType": "ASAP"}'
DELIVERY: Final = (
    '{"mode": "DELIVERY_BY_MERCHANT", "scheduleType": "ASAP", "deliveryType": "DOOR_TO_DOOR",\n'
    '    "address": %s}'
)
HERE: Final = DELIVERY % '{"address1": "801 Main Street", "city": "Madison", "postalCode": "53703"}'
ONBOARDINGS: Final = "/v1/commerce/onboarding/stores"


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
    """Return a request that gives the throw-away store a webhook, or takes it away."""
    value = "null" if url is None else f'"{url}"'
    return quiet("/v1/commerce/stores/$STORE", f'{{"webhookUrl": {value}}}', options="-X PUT")


def registration() -> str:
    """Return the body that registers the throw-away store."""
    return f"""{{
  "partnerStoreId": "$NAME", "name": "Example", "address": {{"city": "Madison"}},
  "catalogCallbackUrl": "{SHOP}/catalog.json"
}}"""


def throw_away(*commands: str, status: int = 200, body: str = "{}", seconds: int = 0) -> str:
    """Return an example with a live store of its own, whose webhook answers like this if it is given one.

    The store is paused in the end. Nothing of the example is left in the reader's shell.
    """
    wait = f"        time.sleep({seconds})\n" if seconds else ""
    return script(
        f"""(
python3 -c '
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

CATALOG = b\"\"\"{CATALOG}\"\"\"


class Shop(BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(200, CATALOG)

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
{wait}        self.answer({status}, b"{escaped(body)}")

    def answer(self, status, body):
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)


HTTPServer(("127.0.0.1", 9100), Shop).serve_forever()
' 2> shop.log &
SHOP=$!
trap "kill $SHOP" EXIT
until curl -s -o answer.json {SHOP}; do sleep 0.1; done
NAME=example-$RANDOM-$RANDOM""",
        quiet(ONBOARDINGS, registration()).replace("answer.json", "onboarding.json"),
        f"ONBOARDING={member('onboardingId', 'onboarding.json')}",
        "until "
        + quiet(f"{ONBOARDINGS}/$ONBOARDING/activate", options="-X POST").replace("answer", "store")
        + "; do",
        "  " + call(f"{ONBOARDINGS}/$ONBOARDING", options="-o onboarding.json"),
        "  if grep -q catalog_failed onboarding.json; then cat onboarding.json; exit 1; fi",
        "  sleep 0.1",
        "done",
        f"STORE={member('storeId', 'store.json')}",
        f"SET={member('catalogSetId', 'store.json')}",
        "",
        *commands,
        "",
        quiet("/v1/commerce/stores/$STORE/status", '{"status": "paused"}'),
        ")",
    )


def answered(status: int, body: str, *commands: str, seconds: int = 0) -> str:
    """Return an example in which the throw-away store answers every webhook like this."""
    return throw_away(webhook(SHOP), *commands, status=status, body=body, seconds=seconds)


def escaped(body: str) -> str:
    """Return a text as it stands between double quotes of Python, in single quotes of the shell."""
    return body.replace('"', '\\"').replace("'", "'\\''")


def script(*commands: str) -> str:
    """Return commands one below the other."""
    return "\n".join(commands) + "\n"
