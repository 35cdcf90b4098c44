"""A release has a software bill of materials."""

import json
from importlib import metadata

from tests.audit import ROOT, runtime_packages
from tests.sbom import text


def test_the_list_names_every_runtime_package_with_its_version():
    bom = json.loads(text())
    assert (bom["bomFormat"], bom["specVersion"]) == ("CycloneDX", "1.6")
    assert bom["metadata"]["component"]["version"] == metadata.version(ROOT)
    assert {one["name"]: one["version"] for one in bom["components"]} == runtime_packages(ROOT)
    assert all(one["purl"].startswith("pkg:pypi/") for one in bom["components"])
    (needs,) = [one["dependsOn"] for one in bom["dependencies"] if one["ref"].startswith("pkg:pypi/mercato@")]
    assert len(needs) == len(bom["components"])
