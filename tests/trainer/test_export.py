"""Export: a stored version loads, answers its golden positions, and is what Triton expects."""

from __future__ import annotations

import ast
import importlib.util
import itertools
import sys
import types
from dataclasses import replace

import numpy as np
import pytest
import torch
from google.protobuf import text_format
from safetensors.torch import load_file
from tritonclient.grpc import model_config_pb2

from trainer import export
from trainer.export import Lineage, Served, export_network, export_served, triton_config
from trainer.network import new_network
from zerofleet.contracts.manifests import check_golden
from zerofleet.contracts.naming import model_name
from zerofleet.errors import UnfitModel


@pytest.fixture
def version(store, game, network, small):
    return export_network(store, game, network, small, lineage=Lineage(parent_version=0, train_steps=5, games_seen=7))


def test_a_stored_version_verifies_for_its_game_and_has_its_lineage(store, game, small, version):
    manifest = store.verify("tic_tac_toe", version, game=game)
    assert (manifest.train_steps, manifest.games_seen) == (5, 7)
    assert manifest.network == small.model_dump()
    assert set(manifest.files) == {"model.pt", "model.py", "weights.safetensors"}


def test_the_stored_script_reproduces_the_golden_positions(store, version):
    module = torch.jit.load(store.directory("tic_tac_toe", version) / "model.pt")
    manifest = store.manifest("tic_tac_toe", version)
    states, legal, _, _ = manifest.golden.arrays()
    with torch.inference_mode():
        policy, value = module(torch.from_numpy(states.copy()), torch.from_numpy(legal.copy()))
    check_golden(manifest, policy.numpy(), value.numpy())
    assert len(states) == 8


def test_export_leaves_the_network_in_training_mode_and_its_weights_alone(store, game, network, small):
    network.train()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    version = export_network(store, game, network, small, lineage=Lineage())
    assert network.training
    stored = load_file(store.directory("tic_tac_toe", version) / "weights.safetensors")
    for name, tensor in network.state_dict().items():
        assert torch.equal(tensor, before[name])
        assert torch.equal(tensor, stored[name])


@pytest.mark.parametrize("parsed", [0, 5, 11])
def test_an_export_is_repeated_when_another_thread_disturbs_the_parsing_of_its_source(
    store, game, network, small, monkeypatch, parsed
):
    export._forget_types()  # so that torch parses as much as in a new process
    parse, calls = ast.parse, itertools.count()

    def disturbed(*given, **options):
        if next(calls) == parsed:
            raise SystemError("AST constructor recursion depth mismatch (before=87, after=116)")
        return parse(*given, **options)

    monkeypatch.setattr(ast, "parse", disturbed)
    assert export_network(store, game, network, small, lineage=Lineage()) == 1
    assert next(calls) > parsed + 1


def test_an_export_that_is_disturbed_every_time_fails(network, monkeypatch):
    monkeypatch.setattr(torch.jit, "script", lambda _: (_ for _ in ()).throw(SystemError("recursion depth mismatch")))
    with pytest.raises(SystemError):
        export.script(network.eval())


def test_another_fault_of_the_interpreter_is_not_repeated(network, monkeypatch):
    faults = [SystemError("error return without exception set")]
    monkeypatch.setattr(torch.jit, "script", lambda _: (_ for _ in ()).throw(faults.pop()))
    with pytest.raises(SystemError, match="without exception"):
        export.script(network.eval())


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_network_that_is_not_finite_is_not_exported(store, game, network, small, bad):
    with torch.no_grad():
        network.value.out.bias[0] = bad
    with pytest.raises(UnfitModel, match=r"value\.out\.bias"):
        export_network(store, game, network, small, lineage=Lineage())
    assert store.versions("tic_tac_toe") == []


class Answers(torch.nn.Module):
    """Module with one policy and one value for every position."""

    def __init__(self, policy, value):
        super().__init__()
        self.policy, self.value = (torch.nn.Parameter(torch.tensor(row), requires_grad=False) for row in (policy, value))

    def forward(self, state: torch.Tensor, legal: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        listed = (legal >= 0).float()
        policy = self.policy * listed / listed.sum(1, keepdim=True)
        return policy.half(), self.value.expand(len(state), -1)


@pytest.mark.parametrize(
    ("policy", "value", "said"),
    [
        ([1.0], [0.5], r"widths \[3, 9, 9, 1\], want \[3, 9, 9, 2\] of state, legal, policy, value; correct the forward of"),
        ([0.5], [0.5, -0.5], "policies that do not sum to 1 over the listed actions; correct the forward of"),
        ([1.0], [5.0, -5.0], r"outputs of value outside \[-1, 1\]; correct the forward of"),
        ([float("nan")], [0.5, -0.5], r"outputs of policy outside \[0, 1\]; correct the forward of"),
    ],
)
def test_a_module_with_outputs_of_a_wrong_form_is_not_exported(store, game, policy, value, said):
    module = Answers(policy, value).eval()
    served = Served(module, {"weight": torch.zeros(1)}, {"kind": "answers"})
    with pytest.raises(UnfitModel, match=said):
        export_served(store, game, served, lineage=Lineage())
    assert store.versions("tic_tac_toe") == []
    right = Answers([1.0], [0.5, -0.5]).eval()
    assert export_served(store, game, replace(served, module=right), lineage=Lineage()) == 1


def test_a_model_without_weights_is_not_exported(store, game):
    served = Served(Answers([1.0], [0.5, -0.5]).eval(), {}, {"kind": "answers"})
    with pytest.raises(UnfitModel, match=r"no weights.*return the learner's arrays"):
        export_served(store, game, served, lineage=Lineage())
    assert store.versions("tic_tac_toe") == []


@pytest.mark.parametrize("backend", ["python", "pytorch_libtorch"])
def test_the_configuration_parses_as_tritons_model_config(connect_four, backend):
    text = triton_config(connect_four, backend=backend, max_batch=256)
    config = text_format.Parse(text, model_config_pb2.ModelConfig())
    assert config.name == model_name(connect_four)
    assert config.max_batch_size == 256
    assert (config.dynamic_batching.priority_levels, config.dynamic_batching.default_priority_level) == (2, 2)
    assert [list(tensor.dims) for tensor in config.input] == [[16], [7]]
    assert [list(tensor.dims) for tensor in config.output] == [[7], [2]]
    assert (config.backend, config.platform) == (("python", "") if backend == "python" else ("", "pytorch_libtorch"))


@pytest.fixture
def both_heads(store, game, small):
    """A stored version with both extra heads."""
    settings = small.model_copy(update={"heads": ("opponents", "plies_left")})
    return export_network(store, game, new_network(game.spec(), settings, seed=1), settings, lineage=Lineage())


def test_extra_heads_are_in_the_manifest_its_golden_values_and_the_configuration(store, both_heads):
    manifest = store.verify("tic_tac_toe", both_heads)
    assert manifest.heads == ("policy", "value", "opponents", "plies_left")
    assert [head.shape for head in manifest.golden.head_arrays()] == [(8, 9), (8, 1)]
    config = text_format.Parse((store.root / "tic_tac_toe" / "config.pbtxt").read_text(), model_config_pb2.ModelConfig())
    types = (model_config_pb2.TYPE_FP16, model_config_pb2.TYPE_FP32)
    assert [(tensor.name, tensor.data_type, list(tensor.dims)) for tensor in config.output] == [
        ("policy__0", types[0], [9]),
        ("value__1", types[1], [2]),
        ("head__2", types[0], [9]),
        ("head__3", types[1], [1]),
    ]


def test_an_auxiliary_head_is_stored_with_the_weights_and_absent_from_manifest_and_script(store, game, small):
    settings = small.model_copy(update={"heads": ("reply", "plies_left"), "squeeze": 4, "global_pooling": 2})
    version = export_network(store, game, new_network(game.spec(), settings, seed=1), settings, lineage=Lineage())
    manifest = store.verify("tic_tac_toe", version, game=game)
    assert manifest.heads == ("policy", "value", "plies_left")
    assert settings.describes(manifest.network)
    weights = load_file(store.directory("tic_tac_toe", version) / "weights.safetensors")
    again = new_network(game.spec(), settings, seed=2)
    again.load_state_dict(weights)
    assert any(name.startswith("extra.0.") for name in weights)
    module = torch.jit.load(store.directory("tic_tac_toe", version) / "model.pt")
    assert [name for name, _ in module.network.extra.named_children()] == ["0"]


class _Tensor:
    def __init__(self, name, array):
        self.name, self.array = name, array

    def as_numpy(self):
        return self.array


class _Response:
    def __init__(self, tensors=(), error=None):
        self.tensors = {tensor.name: tensor.array for tensor in tensors}
        self.error = error


class _Error:
    INVALID_ARG = "invalid argument"

    def __init__(self, text, code):
        self.text, self.code = text, code


class _Request:
    def __init__(self, states, legal, outputs):
        self.tensors = {"state__0": _Tensor("state__0", states), "legal__1": _Tensor("legal__1", legal)}
        self.outputs = outputs

    def requested_output_names(self):
        return self.outputs


class _TritonModelException(Exception):
    pass


@pytest.fixture
def triton_model(monkeypatch):
    """The module that Triton's Python backend would import, with a stand-in for what Triton provides."""
    provided = types.ModuleType("triton_python_backend_utils")
    provided.Tensor = _Tensor
    provided.InferenceResponse = _Response
    provided.TritonModelException = _TritonModelException
    provided.TritonError = _Error
    provided.get_input_tensor_by_name = lambda request, name: request.tensors[name]
    monkeypatch.setitem(sys.modules, "triton_python_backend_utils", provided)

    def load(store, version):
        path = store.directory("tic_tac_toe", version) / "model.py"
        spec = importlib.util.spec_from_file_location("stored_model", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        model = module.TritonPythonModel()
        model.initialize(
            {
                "model_repository": str(store.root / "tic_tac_toe"),
                "model_version": str(version),
                "model_instance_kind": "CPU",
                "model_instance_device_id": "0",
            }
        )
        return model

    return load


def test_tritons_model_returns_to_each_request_of_a_batch_its_own_rows(store, version, triton_model):
    model = triton_model(store, version)
    states, legal, policy, value = store.manifest("tic_tac_toe", version).golden.arrays()
    cuts = [slice(0, 1), slice(1, 5), slice(5, 8)]
    requests = [_Request(states[cut], legal[cut], ["policy__0", "value__1"]) for cut in cuts]
    for cut, response in zip(cuts, model.execute(requests), strict=True):
        np.testing.assert_allclose(response.tensors["policy__0"], policy[cut], atol=1e-3)
        np.testing.assert_allclose(response.tensors["value__1"], value[cut], atol=1e-5)
        assert response.tensors["policy__0"].dtype == np.float16


def test_tritons_model_returns_the_requested_heads(store, both_heads, triton_model):
    model = triton_model(store, both_heads)
    golden = store.manifest("tic_tac_toe", both_heads).golden
    states, legal, policy, value = golden.arrays()
    opponents, plies_left = golden.head_arrays()
    wanted = {"policy__0": policy, "value__1": value, "head__2": opponents, "head__3": plies_left}
    asked = [["value__1"], ["policy__0", "value__1", "head__3"], list(wanted), ["policy__0", "head__4"]]
    requests = [_Request(states[2 * i : 2 * i + 2], legal[2 * i : 2 * i + 2], names) for i, names in enumerate(asked)]
    *answered, refused = model.execute(requests)
    for i, response in enumerate(answered):
        assert list(response.tensors) == asked[i]
        for name, rows in response.tensors.items():
            np.testing.assert_allclose(rows, wanted[name][2 * i : 2 * i + 2], atol=1e-3)
    assert refused.error.code == _Error.INVALID_ARG
    assert refused.error.text == "unknown output head__4; this version has policy__0, value__1, head__2, head__3"


def test_tritons_model_refuses_a_changed_file(store, version, triton_model):
    path = store.directory("tic_tac_toe", version) / "model.pt"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(_TritonModelException, match="changed"):
        triton_model(store, version)


def test_tritons_model_refuses_a_module_that_fails_its_golden_positions(store, game, network, small, triton_model):
    first = export_network(store, game, network, small, lineage=Lineage())
    with torch.no_grad():
        network.value.out.bias[0] += 1.0
    second = export_network(store, game, network, small, lineage=Lineage())
    ours, theirs = (store.directory("tic_tac_toe", version) for version in (first, second))
    (ours / "model.pt").write_bytes((theirs / "model.pt").read_bytes())
    manifest = (ours / "manifest.json").read_text()
    old, new = (store.manifest("tic_tac_toe", version).files["model.pt"].sha256 for version in (first, second))
    (ours / "manifest.json").write_text(manifest.replace(old, new))
    with pytest.raises(_TritonModelException, match="golden"):
        triton_model(store, first)


def test_an_archive_is_small_enough_to_publish_often(store, version):
    size = (store.directory("tic_tac_toe", version) / "model.pt").stat().st_size
    assert size < 200_000
