"""The files that the console ships: unchanged from npm, named by their hashes, and not imported at the start."""

import subprocess
import sys
from hashlib import sha256
from importlib import resources
from typing import Final

from tests.databases import only_sqlite
from tests.docs.documents import ROOT
from tests.service import Service
from tests.sharing import shared

from mercato.console.rendering import SHARED, asset_url, environment

pytestmark = shared

FROM_NPM = {
    # @fontsource-variable/inter@5.3.0
    "inter-latin-wght-normal.woff2": "3100e775e8616cd2611beecfa23a4263d7037586789b43f035236a2e6fbd4c62",
    "inter-latin-ext-wght-normal.woff2": "34b9c504cab7a73e37b746343a449132e56cf7b5481af2cb81dc74dcff25c956",
    # htmx.org@4.0.1
    "htmx.min.js": "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130",
    "hx-csp.min.js": "a7e1e6711ae6c3e50ad300fba7936cbe8d07599cdae313414a179ddd6b26e143",
    # uplot@1.6.32
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}


def test_third_party_files_equal_their_npm_packages_and_are_in_the_notice():
    notice = (ROOT / "NOTICE").read_text()
    for name, digest in FROM_NPM.items():
        content = resources.files("mercato.console").joinpath("static", name).read_bytes()
        assert sha256(content).hexdigest() == digest, name
        assert f"`{name}`" in notice


@only_sqlite
async def test_a_file_is_served_by_its_hash_alone(mercato: Service):
    anybody = mercato.anonymous()
    kept = await anybody.get(asset_url("console.css"))
    assert (kept.status, kept.headers["Content-Type"]) == (200, "text/css; charset=utf-8")
    assert kept.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    # A style sheet names its fonts by their hashes, and a font isn't compressed twice.
    font = asset_url("inter-latin-wght-normal.woff2")
    assert f'url("{font.rpartition("/")[2]}")'.encode() in kept.body
    sent = await anybody.get(font, headers={"Accept-Encoding": "gzip"})
    assert (sent.headers["Content-Type"], sent.headers.get("Content-Encoding")) == ("font/woff2", None)
    for path in ("console.css", "console.000000000000.css", "%2e%2e%2fsite.py", ""):
        assert (await anybody.get(f"/console/static/{path}")).status == 404, path


IMPORTS: Final = """
import sys, mercato.asgi
print([m for m in sys.modules if 'jinja2' in m or 'console.screens' in m])
import mercato.console.site
print([m for m in sys.modules if 'webauthn' in m])
"""


def test_a_service_without_browser_visits_imports_no_templates_and_the_first_page_does_not_wait_for_passkeys():
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "[]"], "once the service has started; with its first page"


def test_every_template_compiles():
    made = environment()
    names = made.list_templates()
    assert set(SHARED) < set(names)
    for name in names:
        made.get_template(name)
