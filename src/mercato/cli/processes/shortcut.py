"""Starts `serve` and `worker` without the command parser, whose import is a tenth of their start."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(text)
    return int(text)


_OPTIONS: Final[dict[str, dict[str, Callable[[str], Any]]]] = {
    "serve": {"--host": str, "--port": _number, "--data-dir": Path, "--workers": _number},
    "worker": {"--data-dir": Path},
}


def find_plain(arguments: Sequence[str]) -> Callable[[], int] | None:
    """Return the function of a `serve` or `worker` with simple arguments, or of the internal `serve-one`.

    Return None for anything else, such as a mistake, `--help` or `--port=1`: the parser handles it.
    """
    name, *rest = arguments or [""]
    try:
        given = _numbers(rest) if name == "serve-one" else _options(_OPTIONS[name], rest)
    except (KeyError, ValueError):
        return None
    from mercato.cli.processes import start

    what: dict[str, Callable[..., int]] = {
        "serve": start.serve,
        "serve-one": start.serve_one,
        "worker": start.worker,
    }
    return partial(what[name], **given)


def _numbers(rest: Sequence[str]) -> dict[str, int]:
    return dict(zip(("handle", "parent", "place"), map(_number, rest), strict=True))


def _options(known: dict[str, Callable[[str], Any]], rest: Sequence[str]) -> dict[str, Any]:
    """Return the values by parameter. Raises KeyError or ValueError for arguments that aren't simple."""
    given: dict[str, Any] = {}
    for option, value in zip(rest[::2], rest[1::2], strict=True):
        parameter = option.removeprefix("--").replace("-", "_")
        if parameter in given or not value or value.startswith("-"):
            raise ValueError(option)
        given[parameter] = known[option](value)
    return given
