"""What is said of an error code, and the names that its example uses."""

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

PLACEHOLDERS: Final[Mapping[str, str]] = {
    "URL": "where the service is, without a slash at the end",
    "KEY": 'a Commerce key: `mercato partner create "My POS" --kind commerce`',
    "SHOP_KEY": 'a marketfront key: `mercato partner create "My Shop" --kind marketfront`',
    "DATA": "the data directory of the service: `./data`, unless `MERCATO_DATA_DIR` says otherwise",
}
"""The variables of the examples, in the order in which they are explained. Start here ends with the first three."""

_VARIABLE: Final = re.compile(r"\$([A-Z_]+)")


class Explained(Struct, frozen=True):
    """What a code's page says. `arranged` tells what no command can bring about, and has to be there first."""

    cause: str
    remedy: str
    example: str
    arranged: str | None = None

    @property
    def makes_store(self) -> bool:
        """Return whether the example makes a throw-away store, which the service has to reach on this machine."""
        return "trap " in self.example

    @property
    def placeholders(self) -> dict[str, str]:
        """Return the names that the example uses, and what each stands for."""
        used = set(_VARIABLE.findall(self.example))
        return {name: words for name, words in PLACEHOLDERS.items() if name in used}
