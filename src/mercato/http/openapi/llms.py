"""llms.txt (llmstxt.org): what the service is and where to read on, for who reads with a model."""

from collections.abc import Iterable, Iterator
from typing import Final

from mercato.http.operations import Operation
from mercato.kernel import errors

ABOUT: Final = """\
# Mercato

> The commerce network you can run yourself: merchants publish catalogs and take orders, storefronts find stores, price
> carts and place orders, over one HTTP API with signed webhooks.

- There are two surfaces, each with keys of its own: Commerce for merchants' systems, Marketfront for storefronts.
- A merchant hosts a CatalogSet (JSON) at a URL; the service pulls and checks it. Nobody uploads a catalog.
- Money is a decimal string in the currency's own scale. Instants are RFC 3339 in UTC.
- Refusals are `application/problem+json`: go by `errorCode`; `retryable` says whether the same request can succeed.
- Place order needs an `Idempotency-Key`: one for each order, kept before it is sent, and the same for every repeat.
- Webhooks are signed as Standard Webhooks: verify the bytes as they came."""


def llms(operations: Iterable[Operation], base_url: str) -> str:
    """Return the text of llms.txt, as a service at this URL tells of itself."""
    reading = (
        f"- [OpenAPI 3.1]({base_url}/openapi.json): every operation, type, webhook and refusal.\n"
        f"- [API reference]({base_url}/docs): the same for people, to be tried in a browser."
    )
    parts = {
        "Reference": reading,
        "Operations": "\n".join(_operation(one, base_url) for one in operations),
        "Errors": "Each with its cause, what to do and an example; as Markdown with `Accept: text/markdown`.\n\n"
        + "\n".join(_errors(base_url)),
    }
    return "\n\n".join([ABOUT, *(f"## {title}\n\n{text}" for title, text in parts.items())]) + "\n"


def _operation(one: Operation, base_url: str) -> str:
    said = " ".join(one.description.partition("\n\n")[0].split())
    return f"- [{one.summary}]({base_url}/docs#/{one.tag}/{one.id}): `{one.method} {one.path}`. {said}"


def _errors(base_url: str) -> Iterator[str]:
    for kind in errors.all_problems():
        yield f"- [{kind.code}]({base_url}/errors/{kind.code}): {kind.status}. {kind.title}."
