"""`make audit` fails on known vulnerabilities of runtime packages, and on nothing else."""

from typing import Any

from tests import audit

PINNED = {"aiohttp": "3.14.5", "msgspec": "0.22.0"}


def told(name: str, *ids: str, **more: Any) -> dict[str, Any]:
    vulns = [{"id": one, "fix_versions": ["9.9"], "aliases": [], "description": ""} for one in ids]
    return {"name": name, "version": PINNED.get(name, "1"), "vulns": vulns} | more


def test_a_vulnerability_of_a_runtime_package_fails_and_is_named():
    report = {"dependencies": [told("aiohttp", "GHSA-1", "GHSA-2"), told("msgspec")], "fixes": []}
    code, lines = audit.judge(report, PINNED)
    assert code == 1
    assert lines == [
        "aiohttp 3.14.5: GHSA-1, fixed in 9.9",
        "aiohttp 3.14.5: GHSA-2, fixed in 9.9",
        "audit: 2 known vulnerabilities in 2 packages",
    ]


def test_nothing_known_passes():
    report = {"dependencies": [told("aiohttp"), told("MsgSpec")]}
    assert audit.judge(report, PINNED) == (0, ["audit: no known vulnerabilities in 2 packages"])


def test_without_an_answer_it_passes_and_says_that_nothing_was_checked():
    skipped = [{"name": name, "skip_reason": "Dependency not found on PyPI"} for name in PINNED]
    reports: list[Any] = [None, {}, {"dependencies": []}, {"dependencies": skipped}]
    for report in reports:
        assert audit.judge(report, PINNED) == (
            0, ["audit: the list of vulnerabilities could not be reached; nothing was checked"]
        )  # fmt: skip


def test_skipped_checks_are_listed_beside_the_others():
    report = {"dependencies": [told("aiohttp"), {"name": "msgspec", "skip_reason": "not found"}]}
    assert audit.judge(report, PINNED)[1] == [
        "audit: no known vulnerabilities in 1 packages; not checked: msgspec"
    ]


def test_every_runtime_package_is_checked_and_no_test_package():
    found = audit.runtime_packages(audit.ROOT)
    assert {"aiohttp", "yarl", "granian", "uvloop", "sqlalchemy", "greenlet", "cryptography"} <= found.keys()
    assert not {"mercato", "pytest", "hypothesis", "ruff", "pip-audit"} & found.keys()
