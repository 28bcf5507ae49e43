"""Export: a network as a version of the model store, which is also a Triton model repository.

A version contains the served TorchScript module, the bare weights as safetensors, the code for Triton's Python backend, and
a manifest with golden positions: this network's evaluations, to be compared wherever it is loaded. A network with values
that are not finite, with outputs of a wrong form, or whose script evaluates differently, is not exported. What is exported is a
`Served`, which every learner makes in its own way; `served_network` makes that of a `Network`.
"""

from __future__ import annotations

import io
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from safetensors.torch import load_file as load_safetensors
from safetensors.torch import save as save_safetensors
from torch import Tensor
from torch.jit import _recursive as recursive

from games.core import Game
from games.positions import parameters_text
from trainer.exported_module import serving_module
from trainer.network import Network, new_network
from trainer.settings import TritonBackend
from zerofleet.contracts.encodings import encoder_fingerprint, sample_positions
from zerofleet.contracts.heads import BASE_HEADS, outputs_of
from zerofleet.contracts.manifests import Golden, Manifest, NetworkDict, check_golden, require_golden
from zerofleet.contracts.model_checks import WEIGHTS_FILE
from zerofleet.contracts.naming import LEGAL_TENSOR, STATE_TENSOR, model_name
from zerofleet.contracts.priorities import Priority
from zerofleet.errors import CorruptModel, Diverged, UnfitModel
from zerofleet.presets import NetworkSettings
from zerofleet.storage.model_store import ModelStore

__all__ = [
    "Exporter",
    "Lineage",
    "Served",
    "export_network",
    "export_served",
    "exported_network",
    "script",
    "served_network",
    "stored_weights",
    "triton_config",
]

PARSING_ATTEMPTS = 5
_GOLDEN_POSITIONS = 8
_GOLDEN_GAMES = 4
_GOLDEN_SEED = 20181207  # the day AlphaZero appeared in Science


@dataclass(frozen=True, slots=True)
class Lineage:
    """Origin of a network."""

    parent_version: int = 0  # 0 = none
    train_steps: int = 0
    games_seen: int = 0


@dataclass(frozen=True, slots=True)
class Served:
    """Model ready for export, on the CPU."""

    module: torch.nn.Module
    """Scriptable, in evaluation mode, with the inputs and outputs of `ServingModule.forward`."""
    weights: Mapping[str, Tensor]
    """Bare weights by name."""
    network: NetworkDict
    """Description of the network for the manifest."""
    extra_heads: tuple[str, ...] = ()
    """Outputs of the module besides policy and value, in order."""


class Exporter(Protocol):
    """Function that publishes a model and returns its version: `export_served`, or a fake that needs no TorchScript."""

    def __call__(
        self, store: ModelStore, game: Game, served: Served, *, lineage: Lineage, backend: TritonBackend, max_batch: int
    ) -> int:
        """See `export_served`."""
        ...


def served_network(network: Network, game: Game, settings: NetworkSettings) -> Served:
    """Return the served form of a copy of `network`."""
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}
    module = serving_module(network, game.spec())
    return Served(module, weights, settings.model_dump(), module.network.heads)


def export_network(store: ModelStore, game: Game, network: Network, settings: NetworkSettings, *, lineage: Lineage) -> int:
    """Publish `network` and return its version; the network itself is not modified. Raises as `export_served` does."""
    return export_served(store, game, served_network(network, game, settings), lineage=lineage)


def exported_network(store: ModelStore, game: Game, manifest: Manifest) -> Network:
    """Return the network of a verified version, in evaluation mode; the inverse of `export_network`."""
    network = new_network(game.spec(), NetworkSettings.model_validate(manifest.network), seed=0)
    network.load_state_dict(stored_weights(store, manifest.model, manifest.version))
    return network.eval()


def stored_weights(store: ModelStore, model: str, version: int) -> dict[str, Tensor]:
    """Return the bare weights of a verified version by name."""
    return load_safetensors(store.directory(model, version) / WEIGHTS_FILE)


def export_served(
    store: ModelStore,
    game: Game,
    served: Served,
    *,
    lineage: Lineage,
    backend: TritonBackend = "python",
    max_batch: int = 1024,
) -> int:
    """Publish a model and return its version.

    Raises `Diverged` for weights that are not finite, `UnfitModel` for such evaluations, for outputs of a wrong form and
    for a model without weights; `CorruptModel` and `Unavailable` for a fault of the store.
    """
    if not served.weights:
        raise UnfitModel("the model has no weights, which no reader accepts; return the learner's arrays from `arrays`")
    if broken := [name for name, tensor in served.weights.items() if not tensor.isfinite().all()]:
        raise Diverged(f"weights {', '.join(broken[:3])} are not finite; the network is not exported")
    scripted = script(served.module)
    manifest = _manifest(game, served, lineage)
    _require_sound(scripted, manifest)
    archive = io.BytesIO()
    torch.jit.save(scripted, archive)
    files: dict[str, bytes | Path] = {
        "model.pt": archive.getvalue(),
        # Equal weights files are one version of a store: the steps distinguish one whose game changed no weight.
        "weights.safetensors": save_safetensors(dict(served.weights), metadata={"train_steps": str(lineage.train_steps)}),
        "model.py": Path(__file__).with_name("triton_model.py").read_bytes(),
    }
    config = triton_config(game, heads=manifest.heads, backend=backend, max_batch=max_batch)
    return store.publish(model_name(game), files, manifest, config=config)


def script(module: torch.nn.Module) -> torch.jit.ScriptModule:
    """Compile the served form. It is not frozen, so that a server can move it to a device first.

    In CPython 3.11 the depth of a syntax tree under construction is counted once for all threads, so that torch's parsing
    may fail while another thread formats a traceback, which parses source as well. It is repeated then.
    """
    if module.training:
        raise UnfitModel("in training mode an evaluation would depend on the rest of its batch; call eval() before export")
    for _ in range(PARSING_ATTEMPTS - 1):
        try:
            return _scripted(module)
        except SystemError as error:
            if "recursion depth mismatch" not in str(error):
                raise
            _forget_types()
    return _scripted(module)


def _forget_types() -> None:
    """Have torch compile all modules anew: a failure leaves types without some of their methods."""
    torch._C._jit_clear_class_registry()
    recursive.concrete_type_store = recursive.ConcreteTypeStore()
    torch.jit._state._clear_class_state()


def _scripted(module: torch.nn.Module) -> torch.jit.ScriptModule:
    scripted: torch.jit.ScriptModule = torch.jit.script(module)
    return scripted


def triton_config(
    game: Game, *, heads: Sequence[str] = BASE_HEADS, backend: TritonBackend = "python", max_batch: int = 1024
) -> str:
    """Return `config.pbtxt`: tensors, dynamic batching, and the latest two versions by default."""
    spec = game.spec()
    engine = 'backend: "python"' if backend == "python" else 'platform: "pytorch_libtorch"\ndefault_model_filename: "model.pt"'
    outputs = ",\n".join(
        f'  {{ name: "{output.name}" data_type: TYPE_{output.datatype} dims: [ {output.width} ] }}'
        for output in outputs_of(heads, max_legal=spec.max_legal, num_players=spec.num_players, num_actions=spec.num_actions)
    )
    return f"""\
name: "{model_name(game)}"
{engine}
max_batch_size: {max_batch}
input [
  {{ name: "{STATE_TENSOR}" data_type: TYPE_UINT8 dims: [ {spec.packed_bytes} ] }},
  {{ name: "{LEGAL_TENSOR}" data_type: TYPE_INT16 dims: [ {spec.max_legal} ] }}
]
output [
{outputs}
]
version_policy: {{ latest {{ num_versions: 2 }} }}
dynamic_batching {{
  max_queue_delay_microseconds: 1000
  priority_levels: {Priority.LOW:d}
  default_priority_level: {Priority.LOW:d}
  default_queue_policy {{ max_queue_size: 256 timeout_action: REJECT }}
}}
instance_group [ {{ count: 1 kind: KIND_AUTO }} ]
"""


def _manifest(game: Game, served: Served, lineage: Lineage) -> Manifest:
    spec = game.spec()
    states, legal = sample_positions(game, games=_GOLDEN_GAMES, seed=_GOLDEN_SEED)
    chosen = np.linspace(0, len(states) - 1, min(_GOLDEN_POSITIONS, len(states))).astype(int)
    states, legal = states[chosen], legal[chosen]
    policy, value, *extra_heads = _answers(served.module, states, legal)
    return Manifest(
        model=model_name(game),
        game=spec.name,
        parameters=parameters_text(game),
        rules_version=spec.rules_version,
        encoder=encoder_fingerprint(game),
        planes=spec.planes,
        num_actions=spec.num_actions,
        max_legal=spec.max_legal,
        num_players=spec.num_players,
        parent_version=lineage.parent_version,
        train_steps=lineage.train_steps,
        games_seen=lineage.games_seen,
        created_at_ms=time.time_ns() // 1_000_000,
        network=served.network,
        heads=(*BASE_HEADS, *served.extra_heads),
        golden=Golden.of(states, legal, policy, value, extra_heads),
        torch=torch.__version__,
    )


def _require_sound(scripted: torch.nn.Module, manifest: Manifest) -> None:
    """Raise `UnfitModel` unless the golden positions have valid outputs, and the script has the same."""
    try:
        require_golden(manifest, remedy="correct the forward of the exported module")
        states, legal, _, _ = manifest.golden.arrays()
        policy, value, *extra_heads = _answers(scripted, states, legal)
        check_golden(manifest, policy, value, extra_heads)
    except CorruptModel as error:
        raise UnfitModel(str(error)) from error


def _answers(module: torch.nn.Module, states: np.ndarray, legal: np.ndarray) -> list[np.ndarray]:
    """Return policy, value and extra heads."""
    with torch.inference_mode():
        answers: tuple[Tensor, ...] = module(torch.from_numpy(states.copy()), torch.from_numpy(legal.copy()))
    return [answer.numpy() for answer in answers]
