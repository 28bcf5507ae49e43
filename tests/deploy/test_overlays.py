"""What the overlays for GPUs and for several nodes have of their own."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from manifests import OVERLAYS, ROOT, container, environment, of_kind, pods, workloads

from games.core import make
from zerofleet.contracts.naming import model_name
from zerofleet.presets import preset
from zerofleet.rpc.security.tokens import TOKEN_HEADERS
from zerofleet.search import SearchBlock
from zerofleet.service.settings import read_settings
from zerofleet.testing import built_in_games

WORKER_BYTES = 300 << 20  # of a worker before its first block: interpreter, libraries, compiled code; measured with 228 MiB
RESTRICTED = {"model-repository", "model-config", "shared-memory", "trace", "logging"}


@pytest.fixture
def gpu(render) -> list[dict[str, Any]]:
    return list(render("overlays/gpu"))


@pytest.fixture
def multi_node(render) -> list[dict[str, Any]]:
    return list(render("overlays/multi-node"))


def _built_for_a_gpu() -> dict[str, tuple[str, str]]:
    """Return the image that compose builds for a GPU and the memory it gives there, by service."""
    return {
        name: (each["image"], each["deploy"]["resources"]["limits"]["memory"].upper() + "i")
        for name, each in _services("compose.gpu.yml").items()
        if "build" in each
    }


def _services(file: str) -> dict[str, Any]:
    """Return the services of a compose file with the default of each variable."""
    text = re.sub(r"\$\{\w+:?-([^}]*)\}", r"\1", (ROOT / file).read_text()).replace("!override", "")
    services: dict[str, Any] = yaml.safe_load(text)["services"]
    return services


def _flags(documents: list[dict[str, Any]]) -> dict[str, str]:
    return dict(each.removeprefix("--").split("=", 1) for each in container(documents, "inference-server")["args"])


def test_triton_loads_models_only_on_request_and_stays_ready_meanwhile(gpu) -> None:
    flags = _flags(gpu)
    assert flags["model-control-mode"] == "explicit"
    assert flags["strict-readiness"] == "false"
    assert "load-model" not in flags
    ports = {port["name"]: str(port["containerPort"]) for port in container(gpu, "inference-server")["ports"]}
    assert (flags["grpc-port"], flags["http-port"], flags["metrics-port"]) == (ports["grpc"], ports["http"], ports["metrics"])
    pod = pods(gpu)["inference-server"]["spec"]
    assert int(flags["exit-timeout-secs"]) + 5 < pod["terminationGracePeriodSeconds"]


def test_tritons_admin_calls_require_the_key_held_only_by_the_gatekeeper(gpu) -> None:
    for name in ("grpc-restricted-protocol", "http-restricted-api"):
        protocols, _, key = _flags(gpu)[name].partition(":")
        header, _, value = key.partition("=")
        assert set(protocols.split(",")) == RESTRICTED
        assert value == "$(CONTROL_KEY)"
        assert f"triton-grpc-protocol-{header}" in TOKEN_HEADERS
    (key,) = container(gpu, "inference-server")["env"]
    assert key["valueFrom"]["secretKeyRef"] == {"name": "zerofleet-control", "key": "token"}
    mounted = {
        name
        for name, pod in pods(gpu).items()
        for volume in pod["spec"]["volumes"]
        if volume.get("secret", {}).get("secretName") == "zerofleet-control"
    }
    assert mounted == {"gatekeeper"}


def test_readiness_of_triton_is_that_of_the_model(gpu) -> None:
    variables = environment(gpu, "gatekeeper")
    model = model_name(make(variables["ZEROFLEET_GAME"]))
    probe = container(gpu, "inference-server")["readinessProbe"]["httpGet"]
    assert probe["path"] == f"/v2/models/{model}/ready"


@pytest.mark.parametrize("place", [*(path.name for path in OVERLAYS), "docker-compose.yml", "compose.gpu.yml"])
def test_a_worker_of_any_game_fits_into_its_memory(render, place: str) -> None:
    size, limit = _worker_of_compose(place) if place.endswith(".yml") else _worker_of_pod(render(f"overlays/{place}"))
    for name in built_in_games():
        game = make(name)
        chosen = preset(game, size)
        blocks = chosen.selfplay.lanes * SearchBlock(game, chosen.search, slots=chosen.selfplay.slots).nbytes
        assert WORKER_BYTES + blocks < limit, f"{name} of preset {size} in {place}: blocks of {blocks >> 20} MiB"


def _worker_of_pod(documents: list[dict[str, Any]]) -> tuple[str, int]:
    """Return preset and memory limit of a worker; all games of a block at their last ply take what its arrays have."""
    resources = container(documents, "selfplay-worker")["resources"]
    assert resources["requests"]["memory"] == resources["limits"]["memory"]
    return environment(documents, "selfplay-worker")["ZEROFLEET_PRESET"], _bytes(resources["limits"]["memory"])


def _worker_of_compose(file: str) -> tuple[str, int]:
    worker = _services("docker-compose.yml")["selfplay_worker"] | _services(file)["selfplay_worker"]
    return worker["environment"]["ZEROFLEET_PRESET"], _bytes(worker["deploy"]["resources"]["limits"]["memory"])


def _bytes(memory: str) -> int:
    """Return a limit in bytes; `g` of compose is `Gi` of Kubernetes."""
    number, gib, _ = memory.lower().partition("g")
    assert gib, memory
    return int(number) << 30


def test_triton_serves_what_the_trainer_exports_for_it(gpu) -> None:
    assert environment(gpu, "trainer")["ZEROFLEET_TRITON_BACKEND"] == "pytorch_libtorch"
    assert _flags(gpu)["model-repository"] == "/models"
    (models,) = (each for each in container(gpu, "inference-server")["volumeMounts"] if each["name"] == "models")
    assert models == {"name": "models", "mountPath": "/models", "readOnly": True}


@pytest.mark.parametrize(("overlay", "component"), [("gpu", []), ("multi-node", []), ("local", ["accelerators"])])
def test_pods_with_a_gpu_have_a_cuda_image_and_more_memory(composed, overlay: str, component: list[str]) -> None:
    documents = composed(overlay, *component)
    built = _built_for_a_gpu()
    for name in pods(documents):
        each = container(documents, name)
        asks = "nvidia.com/gpu" in each["resources"]["limits"]
        assert ("ZEROFLEET_DEVICE", "cuda") not in environment(documents, name).items() or asks
        if not each["image"].startswith("zerofleet/"):
            assert not asks or "tritonserver" in each["image"]
        elif asks:
            assert (each["image"], each["resources"]["limits"]["memory"]) == built[name.replace("-", "_")]
            assert each["resources"]["requests"]["memory"] == each["resources"]["limits"]["memory"]
            assert environment(documents, name)["ZEROFLEET_DEVICE"] == "cuda"
        else:
            assert each["image"] not in {image for image, _ in built.values()}


def test_retagging_changes_only_the_tag_and_a_users_overlay_overrides_it(composed) -> None:
    own = [{"name": "zerofleet/trainer", "newName": "registry.example/trainer"}]
    documents = composed("multi-node", images=own)
    assert container(documents, "trainer")["image"] == "registry.example/trainer:0.1.0-gpu"
    assert container(documents, "gatekeeper")["image"] == "zerofleet/gatekeeper:0.1.0"
    documents = composed("local", "accelerators", images=[{**own[0], "newTag": "0.2.0-gpu"}])
    assert container(documents, "trainer")["image"] == "registry.example/trainer:0.2.0-gpu"


def test_gpus_are_requested_where_they_are_used(gpu, multi_node) -> None:
    for documents in (gpu, multi_node):
        users = {name for name in pods(documents) if "nvidia.com/gpu" in container(documents, name)["resources"]["limits"]}
        assert users == {"inference-server", "trainer"}
        assert environment(documents, "selfplay-worker")["ZEROFLEET_PRESET"] == "gpu"


def test_several_nodes_share_models_only_through_the_bucket(multi_node) -> None:
    assert "models" not in of_kind(multi_node, "PersistentVolumeClaim")
    for name in ("inference-server", "gatekeeper", "trainer"):
        assert environment(multi_node, name)["ZEROFLEET_MODEL_STORE"] == "s3://zerofleet/models"
        secrets = [each["secretRef"]["name"] for each in container(multi_node, name)["envFrom"] if "secretRef" in each]
        assert secrets == [f"zerofleet-object-store-{name}"]  # a key of its own, with the rights of its role
        assert environment(multi_node, name)["AWS_ENDPOINT_URL"].startswith("https://")
    assert "zerofleet-object-store" not in str(pods(multi_node)["selfplay-worker"])
    policy = of_kind(multi_node, "NetworkPolicy")["to-object-store"]["spec"]
    (who,) = policy["podSelector"]["matchExpressions"]
    assert set(who["values"]) == {"inference-server", "gatekeeper", "trainer", "ui"}


def test_replicas_of_the_inference_server_are_several_and_never_fewer_while_they_are_replaced(multi_node) -> None:
    spec = workloads(multi_node)["inference-server"]["spec"]
    assert spec["replicas"] >= 2
    assert spec["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    assert "podAntiAffinity" in spec["template"]["spec"]["affinity"]


def test_ranks_of_the_trainer_find_each_other(multi_node) -> None:
    trainer = workloads(multi_node)["trainer"]["spec"]
    each = container(multi_node, "trainer")
    assert each["command"] == ["torchrun"]
    flags = dict(word.removeprefix("--").split("=") for word in each["args"] if "=" in word)
    assert each["args"][-2:] == ["-m", "trainer"]
    assert int(flags["nnodes"]) == trainer["replicas"]
    assert flags["master-addr"] == f"trainer-0.{trainer['serviceName']}"
    assert int(flags["master-port"]) in {port["containerPort"] for port in each["ports"]}
    (index,) = (variable for variable in each["env"] if variable["name"] == "POD_INDEX")
    assert flags["node-rank"] == "$(POD_INDEX)"
    assert index["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.labels['apps.kubernetes.io/pod-index']"
    # They are started together, replaced together, and named before they are ready.
    assert (trainer["podManagementPolicy"], trainer["updateStrategy"]) == ("Parallel", {"type": "OnDelete"})
    assert of_kind(multi_node, "Service")["trainer"]["spec"]["publishNotReadyAddresses"] is True
    policy = of_kind(multi_node, "NetworkPolicy")["between-ranks"]["spec"]
    (rule,) = policy["ingress"]
    assert rule["from"] == policy["egress"][0]["to"] == [{"podSelector": policy["podSelector"]}]


def test_the_arguments_of_torchrun_exist(multi_node) -> None:
    from torch.distributed.run import get_args_parser  # noqa: PLC0415 - slow to import

    words = [re.sub(r"\$\(POD_INDEX\)", "1", word) for word in container(multi_node, "trainer")["args"]]
    parsed = get_args_parser().parse_args(words)
    assert (parsed.nnodes, parsed.nproc_per_node, parsed.node_rank, parsed.max_restarts) == ("2", "1", 1, 0)
    assert (parsed.master_addr, parsed.master_port, parsed.module) == ("trainer-0.trainer", 29500, True)
    assert parsed.training_script == "trainer"


def test_workers_ask_the_inference_server_and_open_no_bucket(multi_node) -> None:
    from selfplay_worker.settings import WorkerSettings  # noqa: PLC0415

    settings, _ = read_settings(WorkerSettings, [], environment(multi_node, "selfplay-worker"))
    assert settings.selfplay.mode == "search" or settings.afterstates.evaluation == "server"
