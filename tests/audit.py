"""Known vulnerabilities of what the service runs on: `make audit`.

The versions are those of this environment, which `constraints.txt` holds. A finding fails; a service that can't be
asked does not, because whether the code is good does not hang on a network. What was not checked is told either way.
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
"""How long all of it may take."""

ROOT: Final = "mercato"


def main() -> int:
    """Ask about every package that the service needs at run time; return the exit code."""
    pinned = runtime_packages(ROOT)
    report = ask(pinned)
    code, lines = judge(report, pinned)
    print("\n".join(lines))  # noqa: T201  # it is a command
    return code


def runtime_packages(root: str) -> dict[str, str]:
    """Return the versions of all packages that one needs, and that those need, here: without extras nobody asks for."""
    found: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    ahead = [(root, "")]
    while ahead:
        name, extra = ahead.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        package = metadata.distribution(name)
        if name != root:
            found[name] = package.version
        for text in package.requires or ():
            need = Requirement(text)
            if need.marker is None or need.marker.evaluate({"extra": extra}):
                ahead += [(canonicalize_name(need.name), wanted) for wanted in ("", *need.extras)]
    return dict(sorted(found.items()))


def ask(pinned: Mapping[str, str]) -> dict[str, Any] | None:
    """Return pip-audit's report of these versions; None if there is none, for want of an answer."""
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
    """Return the exit code and what to say: 1 where something is known against a version that serves."""
    told: dict[str, Any] = {
        canonicalize_name(one["name"]): one for one in (report or {}).get("dependencies", ())
    }
    asked = {name: told[name] for name in pinned if name in told and "skip_reason" not in told[name]}
    lines = [
        f"{name} {pinned[name]}: {known['id']}, mended in {', '.join(known['fix_versions']) or 'no version yet'}"
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
