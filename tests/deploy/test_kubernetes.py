"""Every overlay: valid for three versions of Kubernetes, and with settings, addresses and ports that the services have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from manifests import (
    OVERLAYS,
    SERVICES,
    VERSIONS,
    addresses,
    container,
    environment,
    label_of,
    of_kind,
    own_services,
    pods,
    validate,
    workloads,
)

from zerofleet.service.settings import read_settings
from zerofleet.service.settings_sources import leaf_names

SAFE = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}


def test_the_overlays_are_found() -> None:
    assert [path.name for path in OVERLAYS] == ["gpu", "local", "multi-node"]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_document_is_valid_for_three_versions_of_kubernetes(documents: list[dict[str, Any]], version: str) -> None:
    for document in documents:
        validate(document, version)


def test_a_misspelt_field_is_not_valid(documents: list[dict[str, Any]]) -> None:
    deployment = of_kind(documents, "Deployment")["selfplay-worker"]
    deployment["spec"]["replica"] = 3
    with pytest.raises(kubernetes_validate.ValidationError, match="replica"):
        validate(deployment, VERSIONS[0])


def test_everything_is_in_one_namespace(documents: list[dict[str, Any]]) -> None:
    assert {each["metadata"]["namespace"] for each in documents} == {"zerofleet"}


def test_a_service_takes_every_setting_it_is_given(documents: list[dict[str, Any]], tmp_path: Path) -> None:
    for service in own_services(documents):
        variables = environment(documents, service)
        names = {"ZEROFLEET_" + name.upper().replace(".", "__") for name in leaf_names(SERVICES[service])}
        given = {name for name in variables if name.startswith("ZEROFLEET_")}
        assert {name.removesuffix("_FILE") for name in given} <= names | {"ZEROFLEET_MODEL_STORE"}
        if "ZEROFLEET_TOKEN_FILE" in variables:
            (tmp_path / "token").write_text("a token for this test")
            variables["ZEROFLEET_TOKEN_FILE"] = str(tmp_path / "token")
        settings, origins = read_settings(SERVICES[service], [], variables)
        assert settings.metrics_host == "0.0.0.0"
        assert origins["metrics_port"] == "environment"


def test_addresses_name_existing_services_and_ports(documents: list[dict[str, Any]]) -> None:
    services = of_kind(documents, "Service")
    ports = {(name, port["port"]) for name, each in services.items() for port in each["spec"]["ports"]}
    for service in own_services(documents):
        assert set(addresses(documents, service)) <= ports


def test_ports_of_a_service_are_ports_of_its_pods(documents: list[dict[str, Any]]) -> None:
    for service in of_kind(documents, "Service").values():
        names = {port["name"]: port["containerPort"] for port in container(documents, _workload(service))["ports"]}
        for port in service["spec"]["ports"]:
            assert names[port["targetPort"]] == port["port"]


def test_clients_see_every_replica_of_the_inference_server(documents: list[dict[str, Any]]) -> None:
    services = of_kind(documents, "Service")
    assert services["inference-server"]["spec"]["clusterIP"] == "None"
    assert "publishNotReadyAddresses" not in services["inference-server"]["spec"]
    # A replica without a model is not ready, and gets one only where the gatekeeper sees it.
    assert services["inference-control"]["spec"]["clusterIP"] == "None"
    assert services["inference-control"]["spec"]["publishNotReadyAddresses"] is True
    assert environment(documents, "gatekeeper")["ZEROFLEET_CONTROL_ADDRESS"] == "dns:///inference-control:8001"


def test_each_edge_of_the_network_is_allowed_at_both_of_its_ends(documents: list[dict[str, Any]]) -> None:
    policies = of_kind(documents, "NetworkPolicy")
    assert policies["default-deny"]["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    for service in own_services(documents):
        for name, port in addresses(documents, service):
            server = label_of(documents, name)
            rule = policies[f"to-{server}"]["spec"]["ingress"][0]
            assert {"podSelector": {"matchLabels": {"app.kubernetes.io/name": service}}} in rule["from"]
            edge = {
                "to": [{"podSelector": {"matchLabels": {"app.kubernetes.io/name": server}}}],
                "ports": [{"protocol": "TCP", "port": port}],
            }
            assert edge in policies[f"from-{service}"]["spec"]["egress"]


def test_no_pod_runs_as_root_or_writes_its_image_or_has_a_capability(documents: list[dict[str, Any]]) -> None:
    assert set(pods(documents)) == {*SERVICES, "redis"}
    for pod in pods(documents).values():
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        assert pod["spec"]["securityContext"]["runAsUser"] >= 999
        assert pod["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["spec"]["automountServiceAccountToken"] is False
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod["spec"])
        for each in pod["spec"]["containers"]:
            assert each["securityContext"] == SAFE


def test_every_pod_has_three_probes_a_limit_and_a_disruption_budget(documents: list[dict[str, Any]]) -> None:
    assert set(of_kind(documents, "PodDisruptionBudget")) == set(pods(documents))
    for name in pods(documents):
        each = container(documents, name)
        assert {"startupProbe", "readinessProbe", "livenessProbe"} <= set(each)
        assert "memory" in each["resources"]["limits"]
        ports = {port["name"]: port["containerPort"] for port in each["ports"]}
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            for kind in ("grpc", "httpGet", "tcpSocket"):
                port = each[probe].get(kind, {}).get("port", next(iter(ports)))
                assert port in ports or port in ports.values()


def test_an_unready_pod_blocks_no_drain_of_its_node(documents: list[dict[str, Any]]) -> None:
    """By default its eviction is refused where a budget allows one pod to be unavailable: that pod is already."""
    for budget in of_kind(documents, "PodDisruptionBudget").values():
        assert budget["spec"]["maxUnavailable"] == 1
        assert budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


def test_probes_map_service_health_to_readiness_and_process_health_to_liveness(
    documents: list[dict[str, Any]],
) -> None:
    wanted = {"inference-server": "inference.GRPCInferenceService", "gatekeeper": "zerofleet.v1.Gatekeeper"}
    for name in set(own_services(documents)) & set(wanted):
        each = container(documents, name)
        assert each["startupProbe"]["grpc"]["service"] == each["readinessProbe"]["grpc"]["service"] == wanted[name]
        assert "service" not in each["livenessProbe"]["grpc"]


def test_the_grace_period_of_a_pod_exceeds_that_of_its_service(documents: list[dict[str, Any]]) -> None:
    for service, cls in SERVICES.items():
        spec = pods(documents)[service]["spec"]
        pause = int(spec["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][1])
        assert spec["terminationGracePeriodSeconds"] > pause + cls.model_fields["grace_s"].default


def test_single_replica_workloads_never_run_twice(documents: list[dict[str, Any]]) -> None:
    """A StatefulSet ends a pod before it starts its successor; two gatekeepers or trainers would fight for their lock."""
    stateful = of_kind(documents, "StatefulSet")
    assert {"redis", "gatekeeper", "trainer"} == set(stateful)
    assert stateful["redis"]["spec"]["replicas"] == stateful["gatekeeper"]["spec"]["replicas"] == 1


def test_selectors_choose_the_pods_of_their_own_workload(documents: list[dict[str, Any]]) -> None:
    for name, workload in workloads(documents).items():
        labels = workload["spec"]["template"]["metadata"]["labels"]
        assert workload["spec"]["selector"]["matchLabels"].items() <= labels.items()
        assert of_kind(documents, "Service")[name]["spec"]["selector"].items() <= labels.items()
        assert of_kind(documents, "PodDisruptionBudget")[name]["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_every_mount_has_its_volume_and_every_volume_is_mounted(documents: list[dict[str, Any]]) -> None:
    for name, workload in workloads(documents).items():
        claims = {each["metadata"]["name"] for each in workload["spec"].get("volumeClaimTemplates", [])}
        volumes = {each["name"] for each in workload["spec"]["template"]["spec"]["volumes"]} | claims
        assert {mount["name"] for mount in container(documents, name)["volumeMounts"]} == volumes
        for volume in workload["spec"]["template"]["spec"]["volumes"]:
            if claim := volume.get("persistentVolumeClaim"):
                assert claim["claimName"] in of_kind(documents, "PersistentVolumeClaim")


def _workload(service: dict[str, Any]) -> str:
    return str(service["spec"]["selector"]["app.kubernetes.io/name"])
