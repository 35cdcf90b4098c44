(
python3 -c '
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

CATALOG = b"""{"items": {
  "01963f5e-7e3b-7ccc-8000-0000000000a1": {"name": "Cake", "basePrice": "4.00"},
  "01963f5e-7e3b-7ccc-8000-0000000000a2": {"name": "Tea", "basePrice": "2.00", "modifierGroupIds": ["01963f5e-7e3b-7ccc-8000-0000000000b1"]},
  "01963f5e-7e3b-7ccc-8000-0000000000a3": {"name": "Milk", "basePrice": "0.50"}},
 "modifierGroups": {
  "01963f5e-7e3b-7ccc-8000-0000000000b1": {"name": "With", "minimumAllowed": 1, "maximumAllowed": 1, "itemIds": ["01963f5e-7e3b-7ccc-8000-0000000000a3"]}}}"""


class Shop(BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(200, CATALOG)

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
{wait}        self.answer({status}, b"{answer}")

    def answer(self, status, body):
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)


HTTPServer(("127.0.0.1", 9100), Shop).serve_forever()
' 2> shop.log &
SHOP=$!
trap "kill $SHOP" EXIT
until curl -s -o answer.json http://127.0.0.1:9100; do sleep 0.1; done
NAME=example-$RANDOM-$RANDOM
curl -s -f -o onboarding.json "$URL/v1/commerce/onboarding/stores" -H "Authorization: Bearer $KEY" \
  -H "Content-Type: application/json" -d @- <<END
{
  "partnerStoreId": "$NAME", "name": "Example", "address": {"city": "Madison"},
  "catalogCallbackUrl": "http://127.0.0.1:9100/catalog.json"
}
END
ONBOARDING=$(sed -n 's/.*"onboardingId": *"\([^"]*\)".*/\1/p' onboarding.json)
until curl -s -X POST -f -o store.json "$URL/v1/commerce/onboarding/stores/$ONBOARDING/activate" -H "Authorization: Bearer $KEY"; do
  curl -s -o onboarding.json "$URL/v1/commerce/onboarding/stores/$ONBOARDING" -H "Authorization: Bearer $KEY"
  if grep -q catalog_failed onboarding.json; then cat onboarding.json; exit 1; fi
  sleep 0.1
done
STORE=$(sed -n 's/.*"storeId": *"\([^"]*\)".*/\1/p' store.json)
SET=$(sed -n 's/.*"catalogSetId": *"\([^"]*\)".*/\1/p' store.json)

{commands}

curl -s -f -o answer.json "$URL/v1/commerce/stores/$STORE/status" -H "Authorization: Bearer $KEY" \
  -H "Content-Type: application/json" -d '{"status": "paused"}'
)
