"""Write docs/reference from the code: `python docs/generate.py`. A test compares the pages with it."""
# ruff: noqa: INP001, T201  # a script, not a package: it prints

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, get_type_hints

import msgspec
from agent_tools import tool_blocks
from client_reference import client_page
from cyclopts import App
from llms import llms
from postman import collection

from mercato.asgi import document, operations
from mercato.features.metrics import CommerceMetrics
from mercato.http.error_pages import PLACEHOLDERS, error_page
from mercato.http.openapi.document import problems_of
from mercato.http.operations import Access, Operation
from mercato.platform import errors
from mercato.settings import Settings
from mercato_contract.refusals import Problem
from mercato_tools.cli.commands import app as command
from mercato_tools.cli.commands import describe_in_full
from mercato_tools.settings import PREFIX, IngestSettings

HERE: Final = Path(__file__).parent
NOTICE: Final = "<!-- Made from the code by docs/generate.py. Change the code, then run it. -->"
BOUNDS: Final = {
    "minLength": "at least {} long",
    "maxLength": "at most {} long",
    "minItems": "at least {}",
    "maxItems": "at most {}",
    "minimum": "from {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "to {}",
    "pattern": "`{}`",
}

Json = Mapping[str, Any]


def pages() -> dict[str, str]:
    """Return the text of every generated file by its path."""
    api = json.loads(document())
    made = {
        "reference/operations.md": _operations_page(api),
        "reference/errors.md": _errors_page(),
        "reference/settings.md": _settings_page(),
        "reference/cli.md": _cli_page(),
        "reference/metrics.md": _metrics_page(),
        "reference/client.md": client_page(NOTICE),
        "reference/tools.md": _page("Tools", *tool_blocks()),
        "mercato.postman_collection.json": collection(api),
    }
    return made | {"llms.txt": llms(api, made)}


def main() -> int:
    """Write the pages. With `--check` only name those that differ from the code, and return 1 if there are any."""
    if sys.argv[1:] != ["--check"]:
        for name, text in pages().items():
            (HERE / name).write_text(text)
        return 0
    made = pages()
    there = {name: (HERE / name).read_text() for name in made if (HERE / name).exists()}
    texts = {f"reference/{page.name}": page.read_text() for page in (HERE / "reference").glob("*.md")}
    there |= {name: text for name, text in texts.items() if NOTICE in text}
    stale = [name for name in made.keys() | there.keys() if made.get(name) != there.get(name)]
    for name in sorted(stale):
        print(f"docs/{name} differs from the code. Run: .venv/bin/python docs/generate.py")
    return 1 if stale else 0


def _page(title: str, *blocks: str) -> str:
    return "\n\n".join([f"# {title}", NOTICE, *blocks]).rstrip() + "\n"


def _table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    columns = list(columns)
    lines = [columns, ["---"] * len(columns), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


_TRANSPORT: Final = """
Any operation answers 400 `INVALID_REQUEST` if an HTTP/1.1 request has no `Host`, an empty one or two, or if the query
contains an unescaped `[ ] \\ ^ { | }`, backtick, or character beyond ASCII: RFC 3986 allows them only escaped. A
`Content-Length` over an operation's limit is 413 before the body is read, with `Expect: 100-continue` too.

The HTTP server refuses some requests before the service sees them. It answers with a status, an empty body and
`Connection: close`, so there is no problem and no `X-Request-Id`:

| Answer | To |
| --- | --- |
| 400 | a target with `"`, `<`, `>`, a space, a control character, or bytes that aren't UTF-8 |
| 400 | a line, a header's name or a header's value that is malformed |
| 400 | a `Content-Length` that isn't a number, or two that differ |
| 400 | a `Transfer-Encoding` that doesn't end in `chunked` |
| 414 | a target of more than 65,534 bytes |
| 431 | more than 100 headers, or a head of more than 64 KiB; one that arrives at once may have up to 112 KiB |
| none | a head that does not arrive within 10 s: the connection closes |

A fragment (`#…`) is ignored. Of a target in absolute form (`GET http://host/path`) the server passes on the path and
the query; its host takes the place of a missing `Host`, and is ignored beside one.
""".strip()


# --- operations -----------------------------------------------------------------------------------


def _operations_page(api: Json) -> str:
    schemas: Json = api["components"]["schemas"]
    tagged: dict[str, list[str]] = {tag["name"]: [] for tag in api["tags"]}
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            tagged[operation["tags"][0]].append(_operation(method.upper(), path, operation))
    shared = [(kind, *_shared(kind)) for kind in ALL]
    everywhere = [(f"{kind.status} {_error_link(kind)}", told) for kind, told, those in shared if those]
    refusals = "Refusals that many operations share, and that aren't repeated below:\n\n" + _table(
        ["Refusal", "Answered by"], everywhere
    )
    intro = (
        "Every operation and every type on the wire. The service has the same as OpenAPI 3.1 at "
        "`/openapi.json`, and as a page with requests to try at `/docs`. Members and parameters are optional "
        "unless they are marked as required. Every GET answers HEAD too, and every response carries "
        "`X-Request-Id`."
    )
    transport = f"## Requests that are not HTTP or not URIs\n\n{_TRANSPORT}"
    sections = [f"## {tag}\n\n" + "\n\n".join(blocks) for tag, blocks in tagged.items()]
    sections.append("## Events\n\n" + "\n\n".join(_event(one["post"]) for one in api["webhooks"].values()))
    types = "\n\n".join(_type(name, schema) for name, schema in sorted(schemas.items()))
    return _page("Operations", intro, refusals, transport, *sections, f"## Types\n\n{types}")


def _operation(method: str, path: str, operation: Json) -> str:
    blocks = [f"### {operation['summary']}", f"`{method} {path}`", operation["description"]]
    query = [one for one in operation["parameters"] if one["in"] != "path"]
    if query:
        rows = [(f"`{one['name']}`", one["in"], *_described(one["schema"], one)) for one in query]
        blocks.append(_table(["Parameter", "In", "Type", ""], rows))
    facts = [f"- Credentials: {_credentials(operation)}"]
    if (body := operation.get("requestBody")) is not None:
        optional = "" if body["required"] else ", optional"
        facts.append(f"- Body: {_content(body)}{optional}")
    facts += [
        f"- {status}: {_good(answer)}"
        for status, answer in operation["responses"].items()
        if int(status) < 400  # noqa: PLR2004  # HTTP's own line
    ]
    declared = next(one for one in operations() if one.id == operation["operationId"])
    own = [kind for kind in problems_of(declared) if declared not in _shared(kind)[1]]
    if own:
        ordered = sorted(own, key=lambda kind: (kind.status, kind.code))
        facts.append("- Refusals: " + ", ".join(f"{kind.status} {_error_link(kind)}" for kind in ordered))
    return "\n\n".join([*blocks, "\n".join(facts)])


def _event(event: Json) -> str:
    """Return the section of a webhook that partners receive."""
    facts = [f"- Body: {_content(event['requestBody'])}"]
    for status, answer in event["responses"].items():
        what = f"{_content(answer)}. " if "content" in answer else ""
        facts.append(f"- {status}: {what}{answer['description']}")
    headers = "- Headers: " + ", ".join(f"`{one['name']}`" for one in event["parameters"])
    return "\n\n".join([f"### {event['summary']}", event["description"], "\n".join([*facts, headers])])


def _credentials(operation: Json) -> str:
    names = {"commerceKey": "a Commerce key", "marketfrontToken": "a marketfront key or token"}
    names["clientSecret"] = "HTTP Basic, or in the body"
    return " or ".join(names[name] for way in operation["security"] for name in way) or "none"


def _good(answer: Json) -> str:
    own = (name for name, header in answer.get("headers", {}).items() if "$ref" not in header)
    headers = "".join(f", header `{name}`" for name in own)
    return (_content(answer) if "content" in answer else "no body") + headers


def _content(holder: Json) -> str:
    media, content = next(iter(holder["content"].items()))
    kind = _kind(content["schema"])
    if media == "application/json":
        return kind
    return f"{kind} as `{media}`" if "$ref" in content["schema"] else f"`{media}`"


def _type(name: str, schema: Json) -> str:
    blocks = [f"### {name}", schema.get("description", "")]
    if "oneOf" in schema:
        by = schema["discriminator"]["propertyName"]
        blocks.append(f"By `{by}`: {_kind(schema)}.")
    if "enum" in schema:
        blocks.append("One of " + ", ".join(f"`{value}`" for value in schema["enum"]) + ".")
    required = schema.get("required", ())
    rows = [
        (f"`{member}`", "yes" if member in required else "", *_described(kind, kind))
        for member, kind in schema.get("properties", {}).items()
    ]
    if rows:
        blocks.append(_table(["Member", "Required", "Type", ""], rows))
    return "\n\n".join(block for block in blocks if block)


def _described(schema: Json, holder: Json) -> tuple[str, str]:
    """Return type and words of a member or parameter."""
    options = [option for option in schema.get("anyOf", ()) if option != {"type": "null"}]
    inner = options[0] if options else schema
    words = [text for text in (holder.get("description") or inner.get("description"),) if text]
    words += _bounds(inner)
    if schema.get("default") is not None:
        words.append(f"Default `{json.dumps(schema['default'])}`.")
    return _kind(schema), " ".join(words)


def _bounds(schema: Json) -> list[str]:
    told = [form.format(schema[name]) for name, form in BOUNDS.items() if name in schema]
    return [f"({', '.join(told)})"] if told else []


def _kind(schema: Json) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema or "oneOf" in schema:
        return " or ".join(_kind(option) for option in schema.get("anyOf") or schema["oneOf"])
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema['items'])}" if "items" in schema else "list"
    kind = schema.get("type", "any")
    if isinstance(kind, list):
        return " or ".join(_kind(dict(schema, type=one)) for one in kind)
    return f"{kind} ({schema['format']})" if "format" in schema else str(kind)


# --- errors ---------------------------------------------------------------------------------------


def _error_link(kind: type[Problem]) -> str:
    return f"[`{kind.code}`](errors.md#{kind.code.lower()})"


def _errors_page() -> str:
    intro = (
        "Every refusal is `application/problem+json` (RFC 9457), or Markdown if the client prefers "
        "`text/markdown`. Get Access Token returns the same members as `application/json`, with `error` and "
        "`error_description` of RFC 6749. Programs decide by `errorCode`. `detail` says what happened in this "
        "case and what to do. `errors` points (RFC 6901) to each fault in the request. `type` is the URL of "
        "the code's page on the service. If `retryable` is true, the same request can succeed later, after "
        "`retryAfter` seconds if that is given."
    )
    answered = {kind for operation in operations() for kind in problems_of(operation)}
    common = [kind for kind in ALL if kind in answered]
    later = [kind for kind in ALL if kind not in answered and kind not in EVERYWHERE]
    rows = [
        (f"`{kind.code}`", str(kind.status), kind.category, _yes(kind.retryable), kind.title)
        for kind in later
    ]
    entries = [_error(kind) for kind in ALL if kind in common or kind in EVERYWHERE]
    if rows:
        table = _table(["Code", "HTTP", "Category", "Retryable", "Meaning"], rows)
        entries.append(f"## Reserved\n\nCodes of the contract that no operation answers with yet:\n\n{table}")
    names = _table(
        ["Name", "What it stands for"], ((f"`${name}`", words) for name, words in PLACEHOLDERS.items())
    )
    return _page("Errors", intro, f"{EXAMPLES}\n\n{names}", *entries)


EXAMPLES: Final = (
    "Each code has an example that produces it. Paste it into bash, with a service of your own; the tests "
    "run every example. At the end of [Start here](../start-here.md) you have such a service, and a file "
    "`env.sh` that sets the first three of the names that the examples use:"
)


ALL: Final = sorted(Problem.__subclasses__(), key=lambda kind: (kind.status, kind.code))
"""Every class of refusal: the operations import all."""

EVERYWHERE: Final = (errors.NotFound, errors.MethodNotAllowed, errors.MethodNotImplemented)
"""The refusals of a path or method that leads to no operation."""


def _error(kind: type[Problem]) -> str:
    phrase, those = _shared(kind)
    if kind in EVERYWHERE:
        phrase = "any path"
    others = [one for one in operations() if kind in problems_of(one) and one not in those]
    where = [text for text in (phrase, _summaries(others)) if text]
    again = "A retry can succeed." if kind.retryable else "A retry alone doesn't help."
    said = error_page(kind.code)
    places = f"**Where it appears.** {said.places}\n\n" if said.places else ""
    return (
        f"## {kind.code}\n\n{kind.status}, category `{kind.category}`. {kind.title}. {again}\n\n"
        f"**Cause.** {said.cause}\n\n{places}**What to do.** {said.remedy}\n\nAnswered by {'; '.join(where)}.\n\n"
        f"{said.preparation + chr(10) * 2 if said.preparation else ''}```sh\n{said.example}```"
    )


GROUPS: Final[tuple[tuple[str, Callable[[Operation], bool]], ...]] = (
    ("any operation", lambda _one: True),
    ("any operation that needs credentials", lambda one: one.access is not Access.PUBLIC),
    ("any operation of one surface", lambda one: one.access not in {Access.PUBLIC, Access.ANY}),
    ("any operation with a body or a query", lambda one: one.reads_body or one.query is not None),
    ("any operation with a body", lambda one: one.reads_body),
)


def _shared(kind: type[Problem]) -> tuple[str, list[Operation]]:
    """Return the largest group whose operations can all refuse so: its phrase and the operations."""
    for phrase, belongs in GROUPS:
        those = [one for one in operations() if belongs(one)]
        if all(kind in problems_of(one) for one in those):
            return phrase, those
    return "", []


def _summaries(told: Iterable[Operation]) -> str:
    titles = dict.fromkeys(one.summary for one in told)
    return ", ".join(f"[{title}](operations.md#{title.lower().replace(' ', '-')})" for title in titles)


def _yes(value: bool) -> str:  # noqa: FBT001  # a column of a table
    return "yes" if value else "no"


# --- settings and commands ------------------------------------------------------------------------


def _settings_page() -> str:
    intro = (
        "Environment variables, read once at start. A variable that begins with `MERCATO_` and is not "
        "listed here stops the start. `on`, `off`, `yes` and `no` are read as `true` and `false`. The last "
        f"{len(IngestSettings.__struct_fields__)} are read by `mercato catalog`, `price`, `url` and `certify`, too."
    )
    hints = get_type_hints(Settings, include_extras=True)
    shared = IngestSettings.__struct_fields__
    ordered = sorted(msgspec.structs.fields(Settings), key=lambda field: field.name in shared)
    rows = [_setting(field, hints[field.name]) for field in ordered]
    return _page("Settings", intro, _table(["Variable", "Default", "Type", "Meaning"], rows))


def _setting(field: Any, hint: Any) -> tuple[str, str, str, str]:
    meta = next(one for one in hint.__metadata__ if one.description is not None)
    kind, bounds = _setting_kind(hint)
    shown = "" if field.default is None else f"`{_default(field.default)}`"
    words = f"{meta.description} {bounds}".strip()
    return f"`{PREFIX}{field.name.upper()}`", shown, kind, words


def _setting_kind(hint: Any) -> tuple[str, str]:
    schema = msgspec.json.schema(hint, schema_hook=lambda _kind: {"type": "string"})
    options = [option for option in schema.get("anyOf", (schema,)) if option != {"type": "null"}]
    inner = options[0]
    if "enum" in inner:
        return " or ".join(f"`{value}`" for value in inner["enum"]), ""
    return inner.get("type", "string"), " ".join(_bounds(inner))


def _default(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _describe_all(group: App) -> None:
    for name in group:
        describe_in_full(group[name])
        _describe_all(group[name])


def _cli_page() -> str:
    _describe_all(command)
    _, listed, rest = command.generate_docs(usage_name="mercato").partition("**Commands**:")
    assert listed, "the help has another form than before"
    intro = (
        "The output of `mercato --help` and of each command's `--help`. Exit codes: 0 done, 1 failed, 2 wrong "
        "usage, 130 interrupted. Values that aren't given as options come from the [settings](settings.md)."
    )
    return _page("Commands", intro, (listed + rest).strip())


# --- metrics --------------------------------------------------------------------------------------


def _metrics_page() -> str:
    intro = (
        "The metrics that `/metrics` returns, in the text format of Prometheus. No label names a store or an "
        "order: those are in the logs and in `mercato audit`. A partner's is its id, of the worst 20 in "
        "trouble. A histogram has `…_bucket`, `…_sum` and `…_count`, in seconds. There are also the "
        "`process_…` metrics of every Prometheus client: memory, CPU, open files."
    )
    rows = [
        (f"`{one.name}`", one.kind, ", ".join(f"`{label}`" for label in one.labels), one.help)
        for one in CommerceMetrics().described()
    ]
    return _page("Metrics", intro, _table(["Name", "Type", "Labels", "Meaning"], rows))


if __name__ == "__main__":
    sys.exit(main())
