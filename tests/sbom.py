"""The software bill of materials of a release, as CycloneDX: `make sbom`.

The packages are those that the service needs at run time, in the versions of this environment, which
`requirements.lock` holds; each with its package URL, by which scanners look up vulnerabilities.
"""

import sys
from importlib import metadata
from pathlib import Path
from typing import Final

from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL
from tests.audit import ROOT, runtime_packages

FILE: Final = "mercato-sbom.cdx.json"


def main() -> int:
    """Write the file into the directory given, by default `dist`."""
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else "dist")
    directory.mkdir(exist_ok=True)
    (directory / FILE).write_text(text())
    print(directory / FILE)  # noqa: T201  # it is a command
    return 0


def text() -> str:
    """Return the document as JSON."""
    bom = Bom()
    root = _component(ROOT, metadata.version(ROOT), ComponentType.APPLICATION)
    bom.metadata.component = root
    packages = [
        _component(name, version, ComponentType.LIBRARY) for name, version in runtime_packages(ROOT).items()
    ]
    for package in packages:
        bom.components.add(package)
        bom.register_dependency(package)
    bom.register_dependency(root, packages)
    return make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=2)


def _component(name: str, version: str, kind: ComponentType) -> Component:
    purl = PackageURL("pypi", name=name, version=version)
    return Component(type=kind, name=name, version=version, purl=purl, bom_ref=str(purl))


if __name__ == "__main__":
    sys.exit(main())
