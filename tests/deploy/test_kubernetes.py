"""The Kubernetes definitions: valid for three versions, and with settings that the services have."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from gatekeeper.settings import GatekeeperSettings
from inference_server.settings import ServerSettings
from selfplay_worker.settings import WorkerSettings
from trainer.settings import TrainerSettings
from zerofleet.settings import ServiceSettings, read_settings
from zerofleet.settings_sources import leaf_names

ROOT = Path(__file__).parents[2]
OVERLAYS = sorted(path.parent for path in (ROOT / "deploy/kubernetes/overlays").glob("*/kustomization.yaml"))
VERSIONS = ("1.32", "1.35", "1.37")
SERVICES: dict[str, type[ServiceSettings]] = {
    "inference-server": ServerSettings,
    "selfplay-worker": WorkerSettings,
    "trainer": TrainerSettings,
    "gatekeeper": GatekeeperSettings,
}

_spec = importlib.util.spec_from_file_location("kustomize", Path(__file__).with_name("kustomize.py"))
assert _spec is not None
assert _spec.loader is not None
kustomize = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(kustomize)


@pytest.fixture(params=OVERLAYS, ids=lambda path: path.name)
def documents(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    rendered: list[dict[str, Any]] = kustomize.render(request.param)
    return rendered


def of_kind(documents: list[dict[str, Any]], *kinds: str) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in documents if each["kind"] in kinds}


def pods(documents: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {name: each["spec"]["template"] for name, each in of_kind(documents, "Deployment", "StatefulSet").items()}


def environment(documents: list[dict[str, Any]], service: str) -> dict[str, str]:
    """Return the environment a pod gets; a field of the pod stands for itself."""
    container = pods(documents)[service]["spec"]["containers"][0]
    maps = of_kind(documents, "ConfigMap")
    variables = {}
    for source in container["envFrom"]:
        variables |= maps[source["configMapRef"]["name"]]["data"]
    return variables | {each["name"]: each.get("value", "from-the-pod") for each in container["env"]}


def test_the_overlays_are_found() -> None:
    assert [path.name for path in OVERLAYS] == ["local"]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_document_is_valid_for_three_versions_of_kubernetes(documents: list[dict[str, Any]], version: str) -> None:
    for document in documents:
        kubernetes_validate.validate(document, version, strict=True)


def test_a_misspelt_field_is_not_valid(documents: list[dict[str, Any]]) -> None:
    deployment = of_kind(documents, "Deployment")["selfplay-worker"]
    deployment["spec"]["replica"] = 3
    with pytest.raises(kubernetes_validate.ValidationError, match="replica"):
        kubernetes_validate.validate(deployment, VERSIONS[0], strict=True)


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_takes_every_setting_it_is_given(documents: list[dict[str, Any]], service: str, tmp_path: Path) -> None:
    variables = environment(documents, service)
    names = {"ZEROFLEET_" + name.upper().replace(".", "__") for name in leaf_names(SERVICES[service])}
    given = {name for name in variables if name.startswith("ZEROFLEET_")}
    assert {name.removesuffix("_FILE") for name in given} <= names
    if "ZEROFLEET_TOKEN_FILE" in variables:
        (tmp_path / "token").write_text("a token for this test")
        variables["ZEROFLEET_TOKEN_FILE"] = str(tmp_path / "token")
    settings, origins = read_settings(SERVICES[service], [], variables)
    assert settings.metrics_host == "0.0.0.0"
    assert origins["metrics_port"] == "environment"


def test_addresses_name_services_and_ports_that_are_there(documents: list[dict[str, Any]]) -> None:
    services = of_kind(documents, "Service")
    ports = {f"{name}:{port['port']}" for name, each in services.items() for port in each["spec"]["ports"]}
    for service in SERVICES:
        variables = environment(documents, service)
        for setting in ("ZEROFLEET_INFERENCE_ADDRESS", "ZEROFLEET_GATEKEEPER_ADDRESS"):
            assert variables.get(setting, next(iter(ports))) in ports
        if url := variables.get("ZEROFLEET_STREAM_URL"):
            assert url.split("@")[1].split("/")[0] in ports


def test_each_edge_of_the_network_is_allowed_at_both_of_its_ends(documents: list[dict[str, Any]]) -> None:
    policies = of_kind(documents, "NetworkPolicy")
    assert policies["default-deny"]["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    for service in SERVICES:
        variables = environment(documents, service)
        addresses = [variables.get(f"ZEROFLEET_{name}_ADDRESS") for name in ("INFERENCE", "GATEKEEPER")]
        if url := variables.get("ZEROFLEET_STREAM_URL"):
            addresses.append(url.split("@")[1].split("/")[0])
        for address in filter(None, addresses):
            server, port = address.split(":")
            rule = policies[f"to-{server}"]["spec"]["ingress"][0]
            assert {"podSelector": {"matchLabels": {"app.kubernetes.io/name": service}}} in rule["from"]
            edge = {
                "to": [{"podSelector": {"matchLabels": {"app.kubernetes.io/name": server}}}],
                "ports": [{"protocol": "TCP", "port": int(port)}],
            }
            assert edge in policies[f"from-{service}"]["spec"]["egress"]


def test_no_pod_runs_as_root_or_writes_its_image_or_has_a_capability(documents: list[dict[str, Any]]) -> None:
    assert set(pods(documents)) == {*SERVICES, "redis"}
    for pod in pods(documents).values():
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        assert pod["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["spec"]["automountServiceAccountToken"] is False
        for container in pod["spec"]["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }


def test_every_pod_has_three_probes_a_limit_and_a_disruption_budget(documents: list[dict[str, Any]]) -> None:
    assert set(of_kind(documents, "PodDisruptionBudget")) == set(pods(documents))
    for pod in pods(documents).values():
        container = pod["spec"]["containers"][0]
        assert {"startupProbe", "readinessProbe", "livenessProbe"} <= set(container)
        assert "memory" in container["resources"]["limits"]
        ports = {port["containerPort"] for port in container["ports"]}
        assert all(container[probe]["grpc"]["port"] in ports for probe in container if "grpc" in str(container[probe])[:8])


def test_the_platform_waits_longer_than_the_service(documents: list[dict[str, Any]]) -> None:
    for service, cls in SERVICES.items():
        spec = pods(documents)[service]["spec"]
        pause = int(spec["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][1])
        assert spec["terminationGracePeriodSeconds"] > pause + cls.model_fields["grace_s"].default


def test_selectors_choose_the_pods_of_their_own_workload(documents: list[dict[str, Any]]) -> None:
    for name, workload in of_kind(documents, "Deployment", "StatefulSet").items():
        labels = workload["spec"]["template"]["metadata"]["labels"]
        assert workload["spec"]["selector"]["matchLabels"].items() <= labels.items()
        assert of_kind(documents, "Service")[name]["spec"]["selector"].items() <= labels.items()
        assert of_kind(documents, "PodDisruptionBudget")[name]["spec"]["selector"]["matchLabels"].items() <= labels.items()
