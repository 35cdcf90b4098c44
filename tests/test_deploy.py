"""The files in deploy/ match the service: metrics, settings, commands and ports exist."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # its types are a package of their own
from prometheus_client import CollectorRegistry, ProcessCollector

from mercato.features.metrics import CommerceMetrics
from mercato.platform.db.url import hosts_of, sqlalchemy_url
from mercato.platform.telemetry.metrics import QueueDepth
from mercato.settings import Settings
from mercato_tools.cli.commands import app
from mercato_tools.settings import PREFIX

DEPLOY = Path(__file__).resolve().parents[1] / "deploy"
DASHBOARD = DEPLOY / "grafana/dashboard.json"
ALERTS = DEPLOY / "prometheus/alerts.yaml"

NAME = re.compile(r"\b(?:mercato|process)_[a-z_]+\b")
SELECTOR = re.compile(r"\b((?:mercato|process)_[a-z_]+)\{([^}]*)\}")
GROUPED = re.compile(r"by \(([^)]*)\) \(")
GIVEN = {"job", "instance", "le"}
"""Labels that Prometheus adds to every metric, or that a histogram's buckets have."""


def loaded(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def figures() -> dict[str, set[str]]:
    """Return the labels of every metric by its name."""
    known: dict[str, set[str]] = {}
    for one in CommerceMetrics().described():
        names = (
            [f"{one.name}_{end}" for end in ("bucket", "sum", "count")]
            if one.kind == "histogram"
            else [one.name]
        )
        known |= {name: set(one.labels) for name in names}
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    for family in registry.collect():
        known |= {sample.name: set() for sample in family.samples}
    return known


def expressions() -> Iterator[str]:
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel["targets"]:
            yield target["expr"]
    for group in loaded(ALERTS)["groups"]:
        for rule in group["rules"]:
            yield rule["expr"]


@pytest.mark.parametrize("expression", list(expressions()), ids=lambda text: re.sub(r"\W+", "-", text)[:60])
def test_dashboard_and_alerts_use_existing_metrics_and_labels(expression: str):
    known = figures()
    names = NAME.findall(expression)
    assert names or expression.startswith("up{")
    for name in names:
        assert name in known, name
    for name, selector in SELECTOR.findall(expression):
        labels = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selector))
        assert labels <= known[name] | GIVEN, name
    there = set().union(*(known[name] for name in names)) | GIVEN
    for labels in GROUPED.findall(expression):
        assert set(re.split(r",\s*", labels)) <= there
    assert expression.count("(") == expression.count(")")


def test_every_metric_of_the_service_is_on_the_dashboard():
    shown = " ".join(expressions())
    for one in CommerceMetrics().described():
        assert one.name in shown, one.name


def test_dashboard_and_alerts_use_existing_label_values():
    """An alert for a misnamed state would never fire."""
    states = set(QueueDepth.__struct_fields__)
    for expression in expressions():
        for values in re.findall(r'state=~?"([^"]*)"', expression):
            assert set(values.split("|")) <= states


def test_every_alert_has_advice_and_a_severity():
    rules = [rule for group in loaded(ALERTS)["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules) >= 8
    for rule in rules:
        assert rule["labels"]["severity"] in {"page", "ticket"}
        assert rule["annotations"].keys() == {"summary", "action"}


def test_the_compose_file_uses_existing_commands_settings_and_an_existing_image():
    composed = loaded(DEPLOY / "compose.yaml")
    assert composed["services"].keys() == {"postgres", "valkey", "migrate", "api", "worker"}
    for name, one in composed["services"].items():
        if name in {"postgres", "valkey"}:
            continue
        command, *options = one["command"]
        assert command in app, name
        for option in options:
            assert not option.startswith("--") or option in app[command].generate_docs(), option
        for variable in one["environment"]:
            assert variable.removeprefix(PREFIX).lower() in Settings.__struct_fields__, variable
        assert (DEPLOY / one["build"]["context"] / one["build"]["dockerfile"]).exists()
    assert composed["services"]["worker"]["environment"]["MERCATO_METRICS_PORT"] == "9100"
    assert set(composed["volumes"]) == {"postgres"}


def test_the_compose_file_of_a_failover_names_both_servers_and_uses_existing_files_and_settings():
    composed = loaded(DEPLOY / "compose.failover.yaml")
    databases = {name for name in composed["services"] if name.startswith("db")}
    assert databases == {"db1", "db2"}
    assert {name for name in composed["services"] if name.startswith("etcd")} == {"etcd1", "etcd2", "etcd3"}
    for name, one in composed["services"].items():
        if name not in {"api", "worker"}:
            continue
        assert one["command"][0] in app
        url = re.sub(r"\$\{[^}]*\}", "secret", one["environment"]["MERCATO_DATABASE_URL"])
        assert set(hosts_of(url)) == databases
        for variable in one["environment"]:
            assert variable.removeprefix(PREFIX).lower() in Settings.__struct_fields__, variable
    for one in composed["services"].values():
        if "build" in one:
            assert (DEPLOY / one["build"]["context"] / one["build"]["dockerfile"]).exists()
        assert {volume.partition(":")[0] for volume in one.get("volumes", ())} <= set(composed["volumes"])


def test_the_compose_file_of_two_networks_gives_each_a_schema_a_role_and_a_key_of_its_own():
    composed = loaded(DEPLOY / "compose.networks.yaml")["services"]
    sql = (DEPLOY / "networks.sql").read_text()
    asked = set(re.findall(r"^\\getenv \w+ (\w+)$", sql, re.MULTILINE))
    assert asked == set(composed["postgres"]["environment"]) - {"POSTGRES_DB", "POSTGRES_PASSWORD"}
    networks = {name.removeprefix("api-"): one for name, one in composed.items() if name != "postgres"}
    assert set(networks) == set(
        re.findall(r"^CREATE SCHEMA (\w+) AUTHORIZATION mercato_\1;$", sql, re.MULTILINE)
    )
    for name, one in networks.items():
        assert one["command"][0] in app
        settings = one["environment"]
        for variable in settings:
            assert variable.removeprefix(PREFIX).lower() in Settings.__struct_fields__, variable
        url = sqlalchemy_url(re.sub(r"\$\{[^}]*\}", "secret", settings["MERCATO_DATABASE_URL"]))
        assert (url.username, url.query) == (f"mercato_{name}", {"options": f"-csearch_path={name}"})
    for own in ("MERCATO_DATABASE_URL", "MERCATO_ENCRYPTION_KEYS", "MERCATO_PUBLIC_URL"):
        assert len({one["environment"][own] for one in networks.values()}) == len(networks)


def test_the_image_of_patroni_uses_existing_files_pinned_packages_and_the_image_of_the_other_compose_file():
    text = (DEPLOY / "Dockerfile.patroni").read_text()
    sent = {
        line[1:]
        for line in (DEPLOY / "Dockerfile.patroni.dockerignore").read_text().splitlines()
        if line[:1] == "!"
    }
    copied = {name for line in re.findall(r"^COPY (.+)", text, re.MULTILINE) for name in line.split()[:-1]}
    assert copied == sent
    assert all((DEPLOY.parent / name).exists() for name in copied)
    assert "--require-hashes" in text
    assert f"FROM {COMPOSED['compose.yaml']['postgres']['image']}\n" in text
    assert "patroni==" in (DEPLOY.parent / "requirements.lock").read_text()


COMPOSED = {path.name: loaded(path)["services"] for path in DEPLOY.glob("*compose*.y*ml")}
SERVICES = [
    pytest.param(service, id=f"{file}: {name}")
    for file, one in COMPOSED.items()
    for name, service in one.items()
]
PINNED = re.compile(r"[\w./-]+:v?\d+\.\d+[\w.-]*@sha256:[0-9a-f]{64}")
BECOMES_ITS_USER = {"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"}


def test_there_is_a_compose_file():
    assert "compose.yaml" in COMPOSED


@pytest.mark.parametrize("service", SERVICES)
def test_every_image_of_others_has_a_version_and_a_digest(service: dict[str, Any]):
    assert "build" in service or PINNED.fullmatch(service["image"])


@pytest.mark.parametrize("service", SERVICES)
def test_every_service_drops_all_capabilities_and_gets_back_only_those_to_become_its_user(
    service: dict[str, Any],
):
    assert service["cap_drop"] == ["ALL"]
    assert set(service.get("cap_add", ())) <= BECOMES_ITS_USER
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not service.get("privileged")


def test_only_the_image_of_postgresql_starts_as_root():
    services = COMPOSED["compose.yaml"]
    assert [name for name, service in services.items() if "cap_add" in service] == ["postgres"]
    assert services["valkey"]["user"] == "valkey"
    assert "USER mercato" in (DEPLOY / "Dockerfile").read_text().splitlines()


def test_the_base_of_the_image_has_a_version_and_a_digest():
    bases = re.findall(r"^FROM (\S+)", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    assert len(bases) == 2
    assert all(PINNED.fullmatch(base) for base in bases)
    assert len(set(bases)) == 1


def test_valkey_requires_the_password_that_the_service_sends():
    services = COMPOSED["compose.yaml"]
    given = "${VALKEY_PASSWORD:?see docs/how-to/operate.md}"
    assert services["valkey"]["environment"] == {"VALKEY_PASSWORD": given}
    for name in ("migrate", "api", "worker"):
        assert services[name]["environment"]["MERCATO_REDIS_URL"] == f"redis://:{given}@valkey:6379/0"


def test_valkeys_password_is_in_its_configuration_and_not_in_its_arguments(tmp_path: Path):
    command = COMPOSED["compose.yaml"]["valkey"]["command"]
    server = tmp_path / "valkey-server"
    server.write_text('#!/bin/sh\necho "$@"\ncat\n')
    server.chmod(0o700)
    path = f"{tmp_path}:{os.environ['PATH']}"
    shown = subprocess.run(
        [one.replace("$$", "$") for one in command],
        env={"PATH": path, "VALKEY_PASSWORD": "secret"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.splitlines() == ["-", 'save ""', "appendonly no", "requirepass secret"]


def test_the_documented_commands_make_every_secret_of_the_compose_file():
    text = (DEPLOY.parent / "docs/how-to/operate.md").read_text()
    made = set(re.findall(r"^(\w+)=\$\(secret", text, re.MULTILINE))
    assert made == set(re.findall(r"\$\{(\w+):\?", (DEPLOY / "compose.yaml").read_text()))


def test_the_image_uses_existing_files_and_starts_an_existing_command():
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    root = DEPLOY.parent
    sent = {
        line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line[:1] == "!"
    }
    for line in lines:
        word, *rest = line.split() or [""]
        if word == "COPY" and not rest[0].startswith("--"):
            for name in rest[:-1]:
                assert (root / name).exists(), name
                assert name in sent, name
        if word == "ENV":
            for setting in re.findall(r"MERCATO_\w+", line):
                assert setting.removeprefix(PREFIX).lower() in Settings.__struct_fields__, setting
    assert 'ENTRYPOINT ["mercato"]' in lines
    assert 'CMD ["serve"]' in lines


def test_every_package_of_the_image_is_pinned_by_its_hash_including_the_extras():
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    commands = [one for line in text.splitlines() if line.startswith("RUN") for one in line.split("&&")]
    installs = [one for one in commands if re.search(r"pip .*(install|wheel) ", one)]
    assert len(installs) == 5
    for one in installs:
        assert "--require-hashes" in one or "--no-deps --no-build-isolation" in one or "--no-index" in one, (
            one
        )
    (extras,) = re.findall(r"'mercato\[([\w,]+)\]'", text)
    assert set(extras.split(",")) == {"otel", "redis", "oidc"}


def test_a_server_installs_the_packages_of_this_source_and_what_the_lock_has(tmp_path: Path):
    where, calls = tmp_path / "mercato-0.1.0", tmp_path / "calls"
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\necho "$@" >> {calls}\n'
        f'[ "$2" != venv ] || {{ mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && cp "$0" "$3/bin/mercato"; }}\n'
    )
    python.chmod(0o700)
    ended = subprocess.run(
        [DEPLOY / "install", where, "mercato[otel]"],
        env={"PATH": os.environ["PATH"], "PYTHON": str(python)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    lines = calls.read_text().splitlines()
    installs = [line for line in lines if line.startswith("-m pip install")]
    own = {line.rpartition("/")[2] for line in installs if "--no-deps --no-build-isolation" in line}
    assert own == {one.parent.name for one in (DEPLOY.parent / "packages").glob("*/pyproject.toml")}
    others = [line for line in installs if "--no-deps" not in line]
    assert len(others) == 3
    assert all("--require-hashes" in line for line in others)
    assert others[-1].endswith("--constraint requirements.lock mercato[otel]")
    assert "pip==" in (where / "pip.txt").read_text()


def test_the_image_has_neither_pip_nor_what_builds_the_packages():
    """Both are installed in the build stage, outside the environment that is copied."""
    text = (DEPLOY / "Dockerfile").read_text()
    assert "python -m venv --without-pip /opt/mercato" in text
    assert "--group" not in "".join(re.findall(r"pip --python .*", text))
    assert re.findall(r"^COPY --from=build (.*)", text, re.MULTILINE) == ["/opt/mercato /opt/mercato"]


def test_every_line_of_the_deployed_files_has_a_comment_above():
    for name in ("Dockerfile", "Dockerfile.patroni", "mercato.service"):
        for block in (DEPLOY / name).read_text().split("\n\n"):
            assert "#" in block or block.startswith("[Install]"), block


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze here")
def test_systemd_accepts_the_unit(tmp_path: Path):
    mercato = Path(sys.executable).with_name("mercato")
    unit = tmp_path / "mercato.service"
    text = (DEPLOY / "mercato.service").read_text()
    assert "/opt/mercato/bin/mercato serve --data-dir /var/lib/mercato" in text
    # Only the service itself is missing on this machine.
    unit.write_text(text.replace("/opt/mercato/bin/mercato", str(mercato)))
    result = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze here")
def test_the_unit_is_exposed_to_little_but_the_network():
    result = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=20", DEPLOY / "mercato.service"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-100:] + result.stderr
    assert re.search(r"^MemoryMax=", (DEPLOY / "mercato.service").read_text(), re.MULTILINE)
