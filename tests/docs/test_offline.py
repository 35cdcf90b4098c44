"""The check of the built site finds what a browser would load from other servers, and nothing else."""

import importlib.util
from pathlib import Path

import pytest
from tests.docs.documents import ROOT

spec = importlib.util.spec_from_file_location("offline", ROOT / "docs/offline.py")
assert spec is not None
assert spec.loader is not None
offline = importlib.util.module_from_spec(spec)
spec.loader.exec_module(offline)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("page.html", '<script src="https://cdn.example/x.js"></script>'),
        ("page.html", '<link rel="stylesheet" href="//fonts.example/css">'),
        ("page.html", '<img src="http://images.example/x.png">'),
        ("page.html", '<p style="background: url(https://images.example/x.png)">'),
        ("page.html", "<style>@import 'https://fonts.example/css';</style>"),
        ("style.css", "@font-face {src: url('https://fonts.example/x.woff2')}"),
        ("script.js", 'fetch("https://api.example/search")'),
    ],
)
def test_what_is_loaded_from_elsewhere_is_found(tmp_path: Path, name: str, text: str):
    (tmp_path / name).write_text(text)
    assert len(offline.loaded(tmp_path / name)) == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("page.html", '<script src="_static/x.js"></script><link rel="stylesheet" href="../style.css">'),
        ("page.html", '<a href="https://www.standardwebhooks.com">a link</a>'),
        ("page.html", '<link rel="canonical" href="https://docs.example/">'),
        ("page.html", '<pre><code>curl "https://shop.example"</code></pre>'),
        ("style.css", "a {background: url(data:image/svg+xml;base64,AA)}"),
        ("script.js", "/* https://licence.example */ fetch(here)"),
    ],
)
def test_what_is_not_loaded_or_is_here_is_none(tmp_path: Path, name: str, text: str):
    (tmp_path / name).write_text(text)
    assert offline.loaded(tmp_path / name) == []
