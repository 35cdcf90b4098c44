"""Who may, and how often."""

from typing import Final

from mercato.web.explained.commands import NOBODY, call, script
from mercato.web.explained.model import Explained

_DISCOVER: Final = call(
    "/v1/marketfront/stores/discover", '{"query": "soup"}', key="SHOP_KEY", options="-o answer.json"
)

PAGES: Final = {
    "UNAUTHENTICATED": Explained(
        "There is no `Authorization` header, or its key or token is unknown, has expired, or was revoked.",
        "Send `Authorization: Bearer <key>`. Nobody can show a key again: if it is lost, make another with "
        "`mercato key create`. An access token lasts an hour and dies with its key: get another one.",
        script(call("/v1/commerce/stores", key="")),
    ),
    "FORBIDDEN": Explained(
        "The credentials are good, but for something else: a Commerce key opens no Marketfront operation "
        "and the reverse.",
        "Use a key of the surface that the operation belongs to. A partner of both kinds has one for each.",
        script(call(f"/v1/marketfront/stores/{NOBODY}", key="KEY")),
    ),
    "RATE_LIMITED": Explained(
        "The partner has made more requests of this kind in this minute than it may: reads, writes and "
        "discovery are counted apart. Or it sends too many large bodies at a time; `detail` says which.",
        "Wait for the seconds in `Retry-After`, then send the same request. `X-RateLimit-Remaining` says in "
        "every answer how many are left. If it is not enough, whoever runs the service can raise it with "
        "`mercato partner update`.",
        f"until grep -s RATE_LIMITED answer.json; do\n  {_DISCOVER.replace(chr(10), chr(10) + '  ')}\ndone\n",
    ),
}
