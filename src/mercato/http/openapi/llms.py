"""llms.txt (llmstxt.org): what the service is and where its documents are, for language models."""

from collections.abc import Iterable, Iterator
from typing import Final

from mercato.http.operations import Operation
from mercato.kernel import errors

ABOUT: Final = """\
# Mercato

> The commerce network you can run yourself: merchants publish catalogs and take orders, storefronts find stores, price
> carts and place orders, over one HTTP API with signed webhooks.

- There are two surfaces with separate keys: Commerce for merchants' systems, Marketfront for storefronts.
- A merchant hosts a CatalogSet (JSON) at a URL; the service pulls and checks it. Catalogs aren't uploaded.
- Money is a decimal string in the currency's own scale. Instants are RFC 3339 in UTC.
- Refusals are `application/problem+json`: check `errorCode`; `retryable` says whether the same request can succeed.
- Place order needs an `Idempotency-Key`: one for each order, stored before you send it, and the same for every repeat.
- Webhooks are signed as Standard Webhooks: verify the bytes as received."""


def llms(operations: Iterable[Operation], base_url: str) -> str:
    """Return the text of llms.txt of a service at this URL."""
    reference = (
        f"- [OpenAPI 3.1]({base_url}/openapi.json): every operation, type, webhook and refusal.\n"
        f"- [API reference]({base_url}/docs): the same for people, with requests to try in a browser."
    )
    parts = {
        "Reference": reference,
        "Operations": "\n".join(_operation(operation, base_url) for operation in operations),
        "Errors": "Each with its cause, what to do and an example; as Markdown with `Accept: text/markdown`.\n\n"
        + "\n".join(_errors(base_url)),
    }
    return "\n\n".join([ABOUT, *(f"## {title}\n\n{text}" for title, text in parts.items())]) + "\n"


def _operation(operation: Operation, base_url: str) -> str:
    sentence = " ".join(operation.description.partition("\n\n")[0].split())
    url = f"{base_url}/docs#/{operation.tag}/{operation.id}"
    return f"- [{operation.summary}]({url}): `{operation.method} {operation.path}`. {sentence}"


def _errors(base_url: str) -> Iterator[str]:
    for kind in errors.all_problems():
        yield f"- [{kind.code}]({base_url}/errors/{kind.code}): {kind.status}. {kind.title}."
