"""The distributions have one version, and need each other in it."""

import json
import tomllib

from tests.docs.documents import ROOT


def test_all_distributions_have_the_same_version():
    projects = [
        tomllib.loads((ROOT / "packages" / name / "pyproject.toml").read_text())["project"]
        for name in ("contract", "catalog", "client", "outbound", "tools", "mercato")
    ]
    packages = ("typescript", "catalog/typescript")
    npm = {
        json.loads((ROOT / "packages" / name / "package.json").read_text())["version"] for name in packages
    }
    versions = {project["version"] for project in projects}
    assert versions == npm
    assert len(versions) == 1
    needs = [need for project in projects for need in project["dependencies"]]
    needed = {need.partition("==")[2] for need in needs if need.startswith("mercato-")}
    assert needed == versions
