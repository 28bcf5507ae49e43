"""Ready-made runtimes in int8 beside the compiled kernel and TorchScript: processor time a position, one thread each.

    pip install onnx onnxruntime openvino nncf
    python -m benchmarks.int8 --sizes 2x32 3x48 4x64 --batches 256 512 --rounds 7

The network has random weights. Its tower with norms folded, which the kernel reads, is written as an ONNX graph from planes to
logits and values before tanh; numpy unpacks the planes before, and computes softmax over legal actions and tanh after, within
the measured time. Quantised are convolutions and dense layers, with ranges from positions of random games. Turns alternate, in
the reverse order in every other round; a ratio is the median over rounds, with its quartiles.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import nncf
import numpy as np
import onnx
import onnxruntime
import openvino
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from benchmarks.random_network import random_version
from games.core import Game, GameSpec, make
from inference_server.backend import TorchBackend
from inference_server.native_backend import NativeBackend
from zerofleet.contracts.encodings import sample_positions
from zerofleet.contracts.manifests import Manifest
from zerofleet.contracts.model_checks import WEIGHTS_FILE
from zerofleet.evaluators.native.folded import FoldedHead, FoldedTower, folded_tower, read_weights

KERNEL = "kernel"
CALIBRATED_ON = 1024  # positions

Answers: TypeAlias = Sequence[np.ndarray]  # policy [B, L], value [B, P] and what else a program returns
Evaluate: TypeAlias = Callable[[np.ndarray, np.ndarray], Answers]
"""Evaluation of packed states [B, bytes] and legal actions [B, L]."""


class _Graph:
    """ONNX graph that grows by layers; each returns the name of its output."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def add(self, kind: str, *inputs: str, **attributes: object) -> str:
        name = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def constant(self, values: np.ndarray) -> str:
        name = f"weight{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(values.astype(np.float32), name))
        return name

    def convolution(self, x: str, kernels: np.ndarray, bias: np.ndarray) -> str:
        pad = kernels.shape[2] // 2
        return self.add("Conv", x, self.constant(kernels), self.constant(bias), pads=[pad] * 4)

    def dense(self, x: str, layer: tuple[np.ndarray, np.ndarray]) -> str:
        return self.add("Gemm", x, self.constant(layer[0]), self.constant(layer[1]), transB=1)

    def head(self, x: str, head: FoldedHead) -> str:
        found = self.add("Relu", self.convolution(x, head.kernels[:, :, None, None], head.bias))
        found = self.add("Flatten", found)
        if head.hidden is not None:
            found = self.add("Relu", self.dense(found, head.hidden))
        return self.dense(found, head.out)


def write_graph(tower: FoldedTower, planes: tuple[int, ...], path: Path) -> None:
    """Write the tower as ONNX: planes float32 [B, C, H, W] to logits [B, actions] and values [B, players]."""
    graph = _Graph()
    x = graph.add("Relu", graph.convolution("planes", *tower.convolutions[0]))
    for first, second in zip(tower.convolutions[1::2], tower.convolutions[2::2], strict=True):
        inner = graph.add("Relu", graph.convolution(x, *first))
        x = graph.add("Relu", graph.add("Add", graph.convolution(inner, *second), x))
    outputs = [graph.head(x, head) for head in tower.heads[:2]]
    shown = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", head.answers])
        for name, head in zip(outputs, tower.heads, strict=False)
    ]
    given = helper.make_tensor_value_info("planes", TensorProto.FLOAT, ["rows", *planes])
    model = helper.make_model(
        helper.make_graph(graph.nodes, "tower", [given], shown, graph.weights), opset_imports=[helper.make_opsetid("", 17)]
    )
    model.ir_version = 10
    onnx.checker.check_model(model)
    onnx.save(model, path)


def unpacked(states: np.ndarray, spec: GameSpec) -> np.ndarray:
    """Return planes float32 [B, C, H, W] of packed states."""
    bits = np.unpackbits(states, axis=1, count=int(np.prod(spec.planes)), bitorder="little")
    return bits.reshape(len(states), *spec.planes).astype(np.float32)


def answer(logits: np.ndarray, values: np.ndarray, legal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return policy float16 [B, L] over legal actions, padded with -1, and values float32 [B, P] in [-1, 1]."""
    chosen = np.where(legal >= 0, np.take_along_axis(logits, np.maximum(legal, 0).astype(np.int64), axis=1), -np.inf)
    policy = np.exp(chosen - chosen.max(axis=1, keepdims=True))
    return (policy / policy.sum(axis=1, keepdims=True)).astype(np.float16), np.tanh(values)


class _Positions(CalibrationDataReader):  # type: ignore[misc]  # the base has no types
    def __init__(self, planes: np.ndarray) -> None:
        self._left = iter([{"planes": planes}])

    def get_next(self) -> dict[str, np.ndarray] | None:
        """Return the next batch; None after the last."""
        return next(self._left, None)


def _by_onnxruntime(path: Path, spec: GameSpec) -> Evaluate:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def evaluate(states: np.ndarray, legal: np.ndarray) -> Answers:
        logits, values = session.run(None, {"planes": unpacked(states, spec)})
        return answer(logits, values, legal)

    return evaluate


def _by_openvino(model: openvino.Model, spec: GameSpec) -> Evaluate:
    settings = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    compiled = openvino.Core().compile_model(model, "CPU", settings)

    def evaluate(states: np.ndarray, legal: np.ndarray) -> Answers:
        found = compiled([unpacked(states, spec)])
        return answer(found[0], found[1], legal)

    return evaluate


def runtimes(path: Path, manifest: Manifest, spec: GameSpec, planes: np.ndarray, folder: Path) -> dict[str, Evaluate]:
    """Return all programs by name; `planes` calibrate the ranges of int8."""
    tower = folded_tower(manifest, read_weights(path.with_name(WEIGHTS_FILE)), spec)
    plain, prepared = folder / "float32.onnx", folder / "prepared.onnx"
    write_graph(tower, spec.planes, plain)
    quant_pre_process(plain, prepared)
    found: dict[str, Evaluate] = {}
    for backend, name in ((NativeBackend(), KERNEL), (TorchBackend("cpu", "float32", 1), "TorchScript")):
        network = backend.load(path, manifest, max_batch=1)
        found[name] = lambda states, legal, network=network: network.evaluate([states], [legal])  # type: ignore[misc]
    found["ONNX Runtime, float32"] = _by_onnxruntime(plain, spec)
    found["OpenVINO, float32"] = _by_openvino(openvino.Core().read_model(plain), spec)
    kinds: Mapping[str, tuple[QuantType, bool]] = {
        "ONNX Runtime, int8, signed weights": (QuantType.QInt8, False),
        "ONNX Runtime, int8, weights of 7 bits": (QuantType.QInt8, True),
    }
    for name, (weights, reduced) in kinds.items():
        quantised = folder / f"{len(found)}.onnx"
        quantize_static(
            prepared,
            quantised,
            _Positions(planes),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            reduce_range=reduced,
            activation_type=QuantType.QUInt8,
            weight_type=weights,
        )
        found[name] = _by_onnxruntime(quantised, spec)
    batches = nncf.Dataset(np.array_split(planes, 8))
    mixed = nncf.quantize(openvino.Core().read_model(plain), batches, preset=nncf.QuantizationPreset.MIXED)
    found["OpenVINO, int8"] = _by_openvino(mixed, spec)
    return found


def _difference(one: Answers, other: Answers) -> tuple[float, float]:
    """Return the largest differences in a probability and in a value."""
    policies, values = (np.abs(np.asarray(a, np.float32) - b).max() for a, b in zip(one[:2], other[:2], strict=True))
    return float(policies), float(values)


def measured(
    programs: Mapping[str, Evaluate], states: np.ndarray, legal: np.ndarray, *, rounds: int, turn_s: float
) -> dict[str, list[float]]:
    """Return microseconds of processor time a position of each program in each round."""
    for evaluate in programs.values():
        evaluate(states, legal)
    found: dict[str, list[float]] = {name: [] for name in programs}
    for turn in range(rounds):
        for name in list(programs)[:: 1 if turn % 2 == 0 else -1]:
            began, calls = time.process_time(), 0
            while (spent := time.process_time() - began) < turn_s:
                programs[name](states, legal)
                calls += 1
            found[name].append(spent / (calls * len(states)) * 1e6)
    return found


def _report(size: str, batch: int, found: Mapping[str, list[float]], differences: Mapping[str, tuple[float, float]]) -> None:
    for name, times in found.items():
        ratios = [kernel / own for kernel, own in zip(found[KERNEL], times, strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        policy, value = differences[name]
        sys.stdout.write(
            f"{size:>6}  {batch:>5}  {name:<38} {statistics.median(times):8.1f} us  {middle:5.2f} ({low:.2f} to {high:.2f})"
            f"  {policy:.1e}  {value:.1e}\n"
        )
    sys.stdout.flush()


def _compare(game: Game, size: str, asked: argparse.Namespace) -> None:
    blocks, channels = map(int, size.split("x"))
    spec = game.spec()
    states, legal = sample_positions(game, games=400, seed=0)
    with random_version(game, blocks=blocks, channels=channels) as (path, manifest), tempfile.TemporaryDirectory() as folder:
        programs = runtimes(path, manifest, spec, unpacked(states[:CALIBRATED_ON], spec), Path(folder))
        for batch in asked.batches:
            rows = slice(CALIBRATED_ON, CALIBRATED_ON + batch)
            answers = {name: evaluate(states[rows], legal[rows]) for name, evaluate in programs.items()}
            differences = {name: _difference(answers["TorchScript"], own) for name, own in answers.items()}
            found = measured(programs, states[rows], legal[rows], rounds=asked.rounds, turn_s=asked.turn)
            _report(size, batch, found, differences)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--game", default="connect_four")
    parser.add_argument("--sizes", nargs="+", default=["2x32", "3x48", "4x64"], help="blocks x channels")
    parser.add_argument("--batches", nargs="+", type=int, default=[256, 512])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--turn", type=float, default=0.12, help="processor seconds of a turn (default: 0.12)")
    asked = parser.parse_args()
    versions = {"ONNX Runtime": onnxruntime.__version__, "OpenVINO": openvino.__version__, "NNCF": nncf.__version__}
    sys.stdout.write(
        ", ".join(f"{name} {version}" for name, version in versions.items()) + f"; load {os.getloadavg()[0]:.1f}\n"
    )
    sys.stdout.write(
        "  size  batch  program                                    a position  rate to the kernel     policy  value\n"
    )
    for size in asked.sizes:
        _compare(make(asked.game), size, asked)


if __name__ == "__main__":
    main()
