"""Known vulnerabilities of what the service runs on: `make audit`.

The versions are those of this environment, which `requirements.lock` holds. A finding fails; an unavailable
database of vulnerabilities doesn't, because the result must not depend on the network. Skipped checks are reported.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

SECONDS: Final = 120
"""The time limit of everything."""

ROOT: Final = "mercato"
OURS: Final = frozenset(
    {"mercato", "mercato-catalog", "mercato-client", "mercato-contract", "mercato-outbound", "mercato-tools"}
)


def main() -> int:
    """Check every runtime package; return the exit code."""
    pinned = runtime_packages(ROOT)
    report = ask(pinned)
    code, lines = judge(report, pinned)
    print("\n".join(lines))  # noqa: T201  # it is a command
    return code


def runtime_packages(root: str, *extras: str) -> dict[str, str]:
    """Return the installed versions of a package's dependencies, transitively, without unrequested extras."""
    found: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    ahead = [(root, extra) for extra in ("", *extras)]
    while ahead:
        name, extra = ahead.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        package = metadata.distribution(name)
        if name not in OURS:
            found[name] = package.version
        for text in package.requires or ():
            need = Requirement(text)
            if need.marker is None or need.marker.evaluate({"extra": extra}):
                ahead += [(canonicalize_name(need.name), wanted) for wanted in ("", *need.extras)]
    return dict(sorted(found.items()))


def ask(pinned: Mapping[str, str]) -> dict[str, Any] | None:
    """Return pip-audit's report of these versions; None without an answer."""
    with tempfile.TemporaryDirectory() as directory:
        wanted = Path(directory, "requirements.txt")
        wanted.write_text("".join(f"{name}=={version}\n" for name, version in pinned.items()))
        command = [
            sys.executable,
            "-m",
            "pip_audit",
            "--requirement",
            str(wanted),
            "--no-deps",
            "--disable-pip",
        ]
        try:
            done = subprocess.run(
                [*command, "--format", "json", "--progress-spinner", "off"],
                capture_output=True, text=True, timeout=SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return None
    try:
        report: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        return None
    return report


def judge(report: Mapping[str, Any] | None, pinned: Mapping[str, str]) -> tuple[int, list[str]]:
    """Return the exit code and the output: 1 if a runtime package has a known vulnerability."""
    told: dict[str, Any] = {
        canonicalize_name(one["name"]): one for one in (report or {}).get("dependencies", ())
    }
    asked = {name: told[name] for name in pinned if name in told and "skip_reason" not in told[name]}
    lines = [
        f"{name} {pinned[name]}: {known['id']}, fixed in {', '.join(known['fix_versions']) or 'no version yet'}"
        for name, one in asked.items()
        for known in one.get("vulns", ())
    ]
    if not asked:
        return 0, ["audit: the list of vulnerabilities could not be reached; nothing was checked"]
    unknown = sorted(set(pinned) - set(asked))
    verdict = f"audit: {len(lines) or 'no'} known vulnerabilities in {len(asked)} packages"
    if unknown:
        verdict += f"; not checked: {', '.join(unknown)}"
    return (1 if lines else 0), [*lines, verdict]


if __name__ == "__main__":
    sys.exit(main())
