"""The manifests in deploy/kubernetes are valid, and fit the service, its image and each other."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml  # type: ignore[import-untyped]  # its types are a package of their own

from mercato.api.system import system
from mercato.cli.start import DRAIN_SECONDS
from mercato.settings import Settings
from mercato_tools.cli.commands import app
from mercato_tools.settings import PREFIX

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "deploy/kubernetes"
HOW_TO = (ROOT / "docs/how-to/run-on-kubernetes.md").read_text()
OLDEST = (1, 31)
OF_OPERATORS = {"Cluster", "PodMonitor", "ServiceMonitor"}
"""Kinds that operators add to Kubernetes: it has no schemas for them."""


def loaded(path: Path) -> list[Any]:
    return list(yaml.safe_load_all(path.read_text()))


FILES = sorted(path for path in FOLDER.rglob("*.yaml") if path.name != "kustomization.yaml")
KUSTOMIZATIONS = {path.parent.name: loaded(path)[0] for path in FOLDER.rglob("kustomization.yaml")}
MANIFESTS = [
    pytest.param(manifest, id=f"{path.stem}: {manifest['kind']} {manifest['metadata']['name']}")
    for path in FILES
    for manifest in loaded(path)
]
ALL: list[Any] = [one.values[0] for one in MANIFESTS]
TEMPLATES = {
    one["metadata"]["name"]: one["spec"]["template"] for one in ALL if one["kind"] in {"Deployment", "Job"}
}
VERSIONS = [
    f"1.{minor}" for minor in range(OLDEST[1], int(kubernetes_validate.latest_version().split(".")[1]) + 1)
]


def named(kind: str, name: str) -> Any:
    (found,) = (one for one in ALL if (one["kind"], one["metadata"]["name"]) == (kind, name))
    return found


def containers() -> Iterator[Any]:
    for template in TEMPLATES.values():
        yield from template["spec"]["containers"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("manifest", MANIFESTS)
def test_a_manifest_has_no_member_that_kubernetes_does_not_know(manifest: Any, version: str):
    if manifest["kind"] not in OF_OPERATORS:
        kubernetes_validate.validate(manifest, version, strict=True)


def test_every_manifest_is_applied_by_a_kustomization_or_by_a_command_of_the_guide():
    applied = {
        FOLDER / ("" if name == FOLDER.name else name) / resource
        for name, one in KUSTOMIZATIONS.items()
        for resource in one["resources"]
    }
    applied |= {ROOT / path for path in re.findall(r"kubectl apply -f (\S+)", HOW_TO)}
    assert applied == set(FILES)


def test_servers_and_the_migration_have_the_same_image():
    images = [one["images"] for one in KUSTOMIZATIONS.values()]
    assert len(images) == 2
    assert images[0] == images[1]
    assert {one["image"] for one in containers()} == {images[0][0]["name"]}


def test_commands_settings_and_probes_exist():
    paths = {operation.path for operation in system}
    for one in containers():
        assert one["args"][0] in app
        settings = {entry["name"] for entry in one["env"]}
        if "envFrom" in one:
            settings |= named("ConfigMap", one["envFrom"][0]["configMapRef"]["name"])["data"].keys()
        for setting in settings:
            assert setting.removeprefix(PREFIX).lower() in Settings.__struct_fields__, setting
        ports = {port["name"] for port in one.get("ports", ())}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            if "httpGet" in one.get(probe, {}):
                assert one[probe]["httpGet"]["path"] in paths
                assert one[probe]["httpGet"]["port"] in ports
            elif probe in one:
                assert one[probe]["tcpSocket"]["port"] in ports


def test_a_pod_restarts_if_its_process_hangs_and_not_if_its_database_does():
    api = TEMPLATES["mercato-api"]["spec"]["containers"][0]
    assert api["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert api["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_the_guide_makes_every_secret_that_is_read_and_no_manifest_has_one():
    assert not [one for one in ALL if one["kind"] == "Secret"]
    read = {
        (entry["valueFrom"]["secretKeyRef"]["name"], entry["valueFrom"]["secretKeyRef"]["key"])
        for one in containers()
        for entry in one["env"]
        if "valueFrom" in entry and not entry["valueFrom"]["secretKeyRef"].get("optional")
    }
    for one in ALL:
        endpoints = (
            one["spec"].get("endpoints", one["spec"].get("podMetricsEndpoints", ())) if "spec" in one else ()
        )
        for endpoint in endpoints:
            credentials = endpoint["authorization"]["credentials"]
            read.add((credentials["name"], credentials["key"]))
    commands = re.findall(r"kubectl create secret generic (\S+) -n mercato((?:.|\\\n)*?)\n```", HOW_TO)
    made = {(name, key) for name, rest in commands for key in re.findall(r"--from-literal=([\w-]+)=", rest)}
    assert made == read


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_pod_has_no_rights_and_writes_only_temporary_files(name: str):
    spec = TEMPLATES[name]["spec"]
    user = re.findall(r"useradd --uid (\d+)", (ROOT / "deploy/Dockerfile").read_text())
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": int(user[0]),
        "runAsGroup": int(user[0]),
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    for one in spec["containers"]:
        assert one["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert one["resources"]["limits"].keys() == {"memory"}
        assert [mount["mountPath"] for mount in one["volumeMounts"]] == ["/tmp"]  # noqa: S108
    assert all("sizeLimit" in volume["emptyDir"] for volume in spec["volumes"])


def test_requests_in_flight_end_before_a_pod_is_killed():
    spec = TEMPLATES["mercato-api"]["spec"]
    _, waits = spec["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    assert int(waits) + DRAIN_SECONDS < spec["terminationGracePeriodSeconds"]
    assert TEMPLATES["mercato-worker"]["spec"]["terminationGracePeriodSeconds"] > DRAIN_SECONDS


@pytest.mark.parametrize("component", ["api", "worker"])
def test_what_selects_pods_selects_those_of_its_deployment(component: str):
    labels = {"app.kubernetes.io/name": "mercato", "app.kubernetes.io/component": component}
    name = f"mercato-{component}"
    deployment = named("Deployment", name)
    assert deployment["spec"]["selector"]["matchLabels"] == labels
    assert deployment["spec"]["template"]["metadata"]["labels"] == labels
    assert "replicas" not in deployment["spec"], "the autoscaler's"
    assert named("PodDisruptionBudget", name)["spec"]["selector"]["matchLabels"] == labels
    assert named("HorizontalPodAutoscaler", name)["spec"]["scaleTargetRef"]["name"] == name
    if component == "api":
        assert named("Service", name)["spec"]["selector"] == labels
        assert named("ServiceMonitor", name)["spec"]["selector"]["matchLabels"] == labels
    else:
        assert named("PodMonitor", name)["spec"]["selector"]["matchLabels"] == labels
    # The label that becomes `job` in the alerts.
    assert labels.items() >= named("NetworkPolicy", "mercato")["spec"]["podSelector"]["matchLabels"].items()


def test_the_connections_of_all_pods_fit_the_database():
    pods = sum(one["spec"]["maxReplicas"] for one in ALL if one["kind"] == "HorizontalPodAutoscaler")
    each = 2 * Settings().database_pool + 1
    parameters = named("Cluster", "mercato-db")["spec"]["postgresql"]["parameters"]
    assert pods * each < int(parameters["max_connections"])
