"""Static files of the console: each has the hash of its content in its name, so browsers keep it for a year."""

from functools import cache
from hashlib import sha256
from importlib import resources
from typing import Final

from msgspec import Struct

from mercato.http.body import gzipped
from mercato.http.browsers import NOSNIFF
from mercato.http.operations import Answer
from mercato.platform import errors

STATIC: Final = "/console/static/"

_TYPES: Final = {
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "svg": b"image/svg+xml",
}
_KEPT: Final = (
    (b"cache-control", b"public, max-age=31536000, immutable"),
    *NOSNIFF,
    (b"vary", b"Accept-Encoding"),
)


class _Asset(Struct, frozen=True):
    content: bytes
    zipped: bytes
    media_type: bytes


@cache
def _assets() -> dict[str, tuple[str, _Asset]]:
    """Return every file by its name, with its name on the wire."""
    found = {}
    for file in resources.files(__package__).joinpath("static").iterdir():
        stem, _, ending = file.name.rpartition(".")
        if ending not in _TYPES:
            continue
        body = file.read_bytes()
        hashed = f"{stem}.{sha256(body).hexdigest()[:12]}.{ending}"
        found[file.name] = (hashed, _Asset(body, gzipped(body), _TYPES[ending]))
    return found


@cache
def _by_hashed_name() -> dict[str, _Asset]:
    return dict(_assets().values())


def asset_url(name: str) -> str:
    """Return the path of a file of `static/`."""
    return STATIC + _assets()[name][0]


def serve_asset(name: str, *, zipped: bool) -> Answer[str]:
    """Return the file of that hashed name. Raises NotFound."""
    asset = _by_hashed_name().get(name)
    if asset is None:
        raise errors.NotFound("No file has this name. Reload the page to get this version's files.")
    headers = (*_KEPT, (b"content-encoding", b"gzip")) if zipped else _KEPT
    body = asset.zipped if zipped else asset.content
    return Answer(raw=body, media_type=asset.media_type, headers=headers)
