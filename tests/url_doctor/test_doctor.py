"""`mercato url doctor` examines a URL as a pull would. All on loopback."""

import asyncio
import gzip
import json
import os
import ssl
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from backports import zstd
from tests.catalog.test_lint import interrupted
from tests.forks import inherited, program
from tests.outbound.conftest import PUBLIC
from tests.ports import free_port
from tests.servers import (
    StubDns,
    by_path,
    drop,
    hang,
    in_turn,
    redirect,
    reply,
    self_signed,
    serve,
)

from mercato.settings import load
from mercato_outbound.guard import AddressPolicy
from mercato_outbound.results import PullLimits
from mercato_tools.cli import main as cli
from mercato_tools.cli.verify import _print, diagnose
from mercato_tools.url_doctor import Level, UrlDoctor, UrlFinding, describe, read_certificate, without_query

MENU = json.dumps({"items": {"a": {"name": "Tea", "basePrice": "1.00"}}}).encode()
NAMES: Mapping[str, Sequence[Sequence[str]]] = {
    "menu.example": [["127.0.0.1"]],
    "inside.example": [["127.0.0.2"]],
    "both.example": [["127.0.0.1", "10.0.0.1"]],
    "metadata.example": [["169.254.169.254"]],
}
LIMITS = PullLimits(connect=30, total=60)


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("MERCATO_") and "TEST" not in name]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "80")


async def examined(
    url: str,
    *,
    tls: ssl.SSLContext | None = None,
    limits: PullLimits = LIMITS,
    policy: AddressPolicy = PUBLIC,
) -> list[UrlFinding]:
    doctor = UrlDoctor(policy=policy, limits=limits, resolver=StubDns(NAMES), tls=tls)
    return await diagnose(url, doctor, load({}))


async def examine_levels(url: str, **options: Any) -> dict[str, UrlFinding]:
    """Return the worst finding of each name."""
    rank = list(Level)
    found: dict[str, UrlFinding] = {}
    for finding in await examined(url, **options):
        if finding.name not in found or rank.index(finding.level) > rank.index(found[finding.name].level):
            found[finding.name] = finding
    return found


def levels(found: Mapping[str, UrlFinding]) -> dict[str, str]:
    return {name: finding.level.value for name, finding in found.items() if finding.level is not Level.OK}


def answering_304(body: bytes, **headers: str) -> Any:
    """Answer with the document, or with 304 to its ETag."""

    async def script(request: Any, peer: Any) -> None:
        has = request.headers.get("if-none-match") == '"1"'
        await reply(304 if has else 200, b"" if has else body, etag='"1"', **headers)(request, peer)

    return script


async def test_a_compressed_catalog_over_https_that_answers_304_has_no_warnings():
    tls = self_signed("menu.example", days=90)
    body = gzip.compress(MENU)
    script = answering_304(body, content_encoding="gzip", content_type="application/json")
    async with serve(script, tls=tls.server) as server:
        found = await examine_levels(f"{server.at('menu.example')}/c.json?token=hush", tls=tls.client)
        assert levels(found) == {}
        texts = {name: finding.message for name, finding in found.items()}
        assert texts["dns"] == "menu.example is at 127.0.0.1: may be reached"
        assert texts["tls"].startswith(
            "TLSv1.3, a certificate for menu.example, issued by Mercato tests, valid until"
        )
        assert ("(89 days)" in texts["tls"] or "(90 days)" in texts["tls"]) is True
        assert texts["encoding"] == "compressed with gzip"
        assert texts["etag"] == '"1", and 304 on a second request'
        assert texts["catalog"] == "valid JSON, a valid catalog of 1 item"
        assert "hush" not in repr(found)
        assert [request.headers.get("if-none-match") for request in server.requests] == [None, '"1"']


async def test_possible_improvements_are_warnings():
    big = json.dumps(
        {"items": {f"i{index}": {"name": "x" * 50, "basePrice": "1.00"} for index in range(2000)}}
    )
    async with serve(in_turn(reply(200, big.encode(), content_type="text/plain"))) as server:
        found = await examine_levels(server.at("menu.example") + "/c")
        assert levels(found) == {"url": "warn", "encoding": "warn", "content type": "warn", "etag": "warn"}
    async with serve(reply(200, MENU, content_type="application/json", etag='"x"')) as server:
        found = await examine_levels(server.at("menu.example") + "/c")
        assert "the whole document on a second request" in found["etag"].message
        assert found["encoding"].level is Level.OK
    async with serve(reply(200, MENU, content_type="application/json")) as server:
        near = PullLimits(connect=30, total=60, max_raw=len(MENU) + 1)
        assert levels(await examine_levels(server.at("menu.example") + "/c", limits=near))["size"] == "warn"


async def test_a_certificate_that_ends_soon_has_expired_or_is_for_another_name():
    for days, name, level, words in (
        (5, "menu.example", "warn", "(4 days)"),
        (-1, "menu.example", "fail", "which is over"),
        (90, "other.example", "fail", "is for another host name"),
    ):
        tls = self_signed(name, days=days)
        async with serve(reply(200, MENU), tls=tls.server) as server:
            found = await examine_levels(server.at("menu.example") + "/c", tls=tls.client)
            assert (found["tls"].level.value, words in found["tls"].message) == (level, True), found["tls"]
            assert found["tls"].advice
            assert name in found["tls"].message
            if level == "fail":
                assert "status" not in found
                assert server.requests == []


async def test_an_untrusted_certificate_is_reported_with_its_content():
    tls = self_signed("menu.example")
    async with serve(reply(200, MENU), tls=tls.server) as server:
        found = await examine_levels(server.at("menu.example") + "/c")
        assert "is self-signed" in found["tls"].message
        assert "for menu.example" in found["tls"].message
        assert server.requests == []


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("inside.example", "inside.example is at 127.0.0.2: the machine itself (loopback)"),
        ("metadata.example", "metadata.example is at 169.254.169.254: a cloud's metadata service"),
        ("both.example", "both.example is at 10.0.0.1: a private network"),
        ("192.168.0.7", "192.168.0.7: a private network"),
        ("[fe80::1]", "fe80::1: an address of one network segment (link-local)"),
        ("gone.example", "The name gone.example has no address."),
    ],
)
async def test_an_address_that_the_guard_refuses_is_named_and_not_connected_to(host: str, words: str):
    async with serve(reply(200, MENU)) as server:
        found = await examine_levels(f"http://{host}:{server.port}/c")
        assert (found["dns"].level, found["dns"].message) == (Level.FAIL, words)
        assert found["dns"].advice
        assert not {"connect", "status"} & set(found)
        assert server.connections == 0
    settings = "MERCATO_ALLOW_PRIVATE_NETWORKS" in found["dns"].advice
    assert settings is (host in {"inside.example", "both.example", "192.168.0.7"})


async def test_each_redirect_is_reported_with_its_host():
    async with serve(reply(200, MENU)) as end:
        far = redirect(f"http://menu.example:{end.port}/final?key=hush", 301)
        async with serve(far) as server:
            found = await examine_levels(server.at("menu.example") + "/c")
            assert found["redirect"].message.startswith(f"301: http://menu.example:{server.port}/c leads to")
            assert (found["redirect"].level, "hush" in repr(found)) == (Level.WARN, False)
            assert found["status"].level is Level.OK
    async with serve(redirect("http://inside.example:1/c")) as server:
        found = await examine_levels(server.at("menu.example") + "/c")
        assert found["dns"].message == "inside.example is at 127.0.0.2: the machine itself (loopback)"
        assert found["document"].level is Level.FAIL


@pytest.mark.parametrize(
    ("script", "name", "words"),
    [
        (reply(404), "document", "404 Not Found"),
        (reply(503), "document", "503"),
        (redirect("/c"), "document", "in a circle"),
        (drop(), "document", "closed the connection"),
        (reply(200, b"x", content_encoding="rot13"), "document", "Content-Encoding"),
        (reply(200, b"<html>"), "catalog", "HTML"),
        (
            reply(200, gzip.compress(MENU)),
            "catalog",
            "is gzip, not JSON. Send it with Content-Encoding: gzip",
        ),
        (
            reply(200, zstd.compress(MENU)),
            "catalog",
            "is zstd, not JSON. Send it with Content-Encoding: zstd",
        ),
        (reply(200, b""), "catalog", "empty"),
        (reply(200, b"{"), "catalog", "not JSON"),
        (reply(200, b'{"a": 1}'), "catalog", "not a valid catalog"),
    ],
    ids=["404", "503", "circle", "drop", "coding", "html", "gzip", "zstd", "empty", "broken", "catalog"],
)
async def test_reasons_for_a_failed_pull_are_reported(script: Any, name: str, words: str):
    async with serve(script) as server:
        found = await examine_levels(server.at("menu.example") + "/c")
        assert words in found[name].message
        assert found[name].level is (Level.WARN if words == "not a valid catalog" else Level.FAIL)
        # Each step once, without the retries of an ingest.
        assert len(server.requests) <= 2


async def test_a_missing_or_silent_server_is_reported():
    found = await examine_levels(f"http://menu.example:{free_port()}/c")
    assert (found["connect"].level, "refused the connection" in found["connect"].message) == (
        Level.FAIL,
        True,
    )
    async with serve(hang()) as server:
        quick = PullLimits(connect=30, total=0.2)
        found = await examine_levels(server.at("menu.example") + "/c", limits=quick)
        assert "could not be read within 0.2 seconds" in found["document"].message
    async with serve(reply(200, MENU)) as plain:
        found = await examine_levels(
            f"https://menu.example:{plain.port}/c", limits=PullLimits(connect=3, total=60)
        )
        assert (found["tls"].level, "asked for TLS" in found["tls"].message) == (Level.FAIL, True)


async def test_the_output_fits_80_columns(capsys: pytest.CaptureFixture[str]):
    tls = self_signed(*(f"{'long-' * 8}{index}.menu.example" for index in range(9)))
    async with serve(reply(200, MENU), tls=tls.server) as server:
        found = await examined(server.at("menu.example") + "/" + "p/" * 30)
    _print(found)
    evil = UrlFinding(name="x", level=Level.OK, message="\x1b[2J\u202e")
    _print([evil])
    out = capsys.readouterr().out
    assert all(len(line) <= 80 for line in out.splitlines() if "p/p/" not in line)
    assert "\x1b" not in out
    assert "1 fail." in out


# --- the command ------------------------------------------------------------------------------------


async def test_the_command_uses_the_settings_and_prints_json(tmp_path: Path):
    clean = {name: text for name, text in os.environ.items() if not name.startswith("MERCATO_")}
    script = by_path({"/c": answering_304(MENU, content_type="application/json")})
    async with serve(script) as server:
        for allowed, code in ((False, 1), (True, 0)):
            more = {"MERCATO_ALLOW_PRIVATE_NETWORKS": "true"} if allowed else {}
            done = await asyncio_run([program(), "url", "doctor", f"{server.url}/c", "--json"], clean | more)
            printed = json.loads(done.stdout)
            assert (done.returncode, printed["ok"]) == (code, allowed), done.stderr
            dns = next(finding for finding in printed["findings"] if finding["name"] == "dns")
            assert dns["level"] == ("ok" if allowed else "fail")


async def asyncio_run(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    options = inherited(environment) | {"capture_output": True, "text": True, "timeout": 60}
    return await asyncio.to_thread(lambda: subprocess.run(command, check=False, **options))


async def test_ctrl_c_ends_it_and_a_closed_pipe_is_silent():
    clean = {name: text for name, text in os.environ.items() if not name.startswith("MERCATO_")}
    environment = clean | {"MERCATO_ALLOW_PRIVATE_NETWORKS": "true"}
    async with serve(hang()) as server:
        command = [program(), "url", "doctor", f"{server.url}/c"]
        waiting = subprocess.Popen(command, stderr=subprocess.PIPE, **inherited(environment))  # noqa: ASYNC220  # returns at once
        while not server.requests:
            await asyncio.sleep(0.02)
        _, printed = await asyncio.to_thread(interrupted, waiting)
        assert (waiting.returncode, printed) == (130, b"Interrupted.\n")
    async with serve(reply(200, MENU)) as server:
        piped = f"{program()} url doctor {server.url}/c | head -1"
        done = await asyncio_run(["bash", "-c", piped], environment)
        assert (done.stdout.count("\n"), done.stderr) == (1, "")


@pytest.mark.parametrize(
    "wrong",
    [[], ["menu.json"], ["ftp://x/y"], ["http://"], ["https://menu.example/", "x"], ["--bogus"]],
    ids=str,
)
def test_an_argument_that_is_not_a_url_exits_with_2(wrong: list[str], capsys: pytest.CaptureFixture[str]):
    assert cli.run(["url", "doctor", *wrong]) == 2
    assert capsys.readouterr().err.strip()


def test_a_url_that_names_a_user_or_a_number_is_refused(capsys: pytest.CaptureFixture[str]):
    for url in ("http://u:p@menu.example/c", "http://2130706433/c"):
        assert cli.run(["url", "doctor", url]) in {1, 2}
        out = capsys.readouterr()
        assert "fail" in out.out or out.err


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://anna:secret@example.com/c.json?key=1", "https://***@example.com/c.json?***"),
        ("https://secret@example.com/c", "https://***@example.com/c"),
        ("//anna:se@cret@example.com/c", "//***@example.com/c"),
        ("https://anna:secret@[x/c?key=1", "https://***@[x/c"),
        ("https://example.com/@anna", "https://example.com/@anna"),
    ],
)
def test_what_grants_access_in_a_url_is_not_repeated(url: str, shown: str):
    assert without_query(url) == shown


def test_a_certificate_may_name_a_directory():
    name = ((("countryName", "NL"),),)
    found = read_certificate(
        {"subjectAltName": (("DirName", name), ("DNS", "a.example")), "notAfter": "Jan  5 09:34:43 2030 GMT"}
    )
    assert found is not None
    assert describe(found, found.ends).startswith("for a.example, valid until 2030-01-05")
