"""The compiled kernel against the exported module in float64: random positions, odd boards, networks and batches."""

from __future__ import annotations

import ctypes
import dataclasses
import gc
import itertools
import mmap
import os
import platform
import re
import selectors
import subprocess
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from safetensors.torch import save_file

from games.core import make
from trainer.exported_module import serving_module
from trainer.network import new_network
from zerofleet.contracts.manifests import Golden, Manifest
from zerofleet.errors import CorruptModel
from zerofleet.evaluators.native import Unsupported, library, load_native, plan
from zerofleet.evaluators.native import split as split_weights
from zerofleet.evaluators.native.build import (
    _COMMON,
    _PORTABLE,
    _X86,
    FOLDER,
    LIBRARY,
    BuildFailed,
    _compiler,
    _defined,
    build,
    fingerprint,
)
from zerofleet.evaluators.native.plan import plan_of
from zerofleet.evaluators.native.split import split
from zerofleet.evaluators.native.tiles import tiling
from zerofleet.presets import NetworkSettings

SMALL = {"blocks": 2, "channels": 24, "policy_channels": 3, "value_channels": 2, "value_hidden": 9}
ROWS = 37


@pytest.fixture(scope="session", autouse=True)
def built() -> None:
    """Fail these tests where the kernel is not built; `make venv` builds it on every machine."""
    found = library.find()
    assert found.library is not None, f"the native kernel is missing: {found.reason}"


def stored(
    folder: Path,
    game_name: str,
    *,
    game_parameters: dict[str, str] | None = None,
    board: tuple[int, int] | None = None,
    **network: object,
):
    """Return spec, manifest and weights' file of a random network, and its exported module in float64.

    `board`: a size that the game does not have.
    """
    spec = make(game_name, **(game_parameters or {})).spec()
    if board is not None:
        spec = dataclasses.replace(spec, planes=(spec.planes[0], *board))
    settings = NetworkSettings(**{**SMALL, **network})
    trained = new_network(spec, settings, seed=3)
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for module in trained.modules():
            if isinstance(module, torch.nn.BatchNorm2d):  # new norms are the identity, which would hide their folding
                for tensor, low, high in (
                    (module.weight, 0.5, 1.2),
                    (module.bias, -0.2, 0.2),
                    (module.running_mean, -0.3, 0.3),
                    (module.running_var, 0.5, 1.5),
                ):
                    tensor.copy_(low + (high - low) * torch.rand(tensor.shape, generator=draw))
            if isinstance(module, torch.nn.Linear):
                module.weight.mul_(4)  # probabilities and values far from equal ones
    served = serving_module(trained, spec)
    heads = ("policy", "value", *served.network.heads)
    empty = np.zeros((1, 1))
    manifest = Manifest(
        model=game_name, game=game_name, parameters={}, rules_version=1, encoder="", planes=spec.planes,
        num_actions=spec.num_actions, max_legal=spec.max_legal, num_players=spec.num_players, parent_version=0, train_steps=0,
        games_seen=0, created_at_ms=0, network=settings.model_dump(), heads=heads, version=1,
        golden=Golden.of(empty, empty, empty, empty),
    )  # fmt: skip
    path = folder / "weights.safetensors"
    save_file({name: tensor.contiguous() for name, tensor in trained.state_dict().items()}, path)
    return spec, manifest, path, served.double()


def positions(spec, rows: int = ROWS) -> tuple[np.ndarray, np.ndarray]:
    """Return random planes, whole ones where the reading has a number of the position, and random legal lists."""
    rng = np.random.default_rng(7)
    planes = rng.random((rows, *spec.planes)) < 0.4
    for row in spec.reading.position if spec.reading is not None else ():
        for plane in np.flatnonzero(row):
            planes[:, plane] = planes[:, plane, :1, :1]
    states = np.packbits(planes.reshape(rows, -1), axis=1, bitorder="little")
    legal = np.full((rows, spec.max_legal), -1, np.int16)
    for listed in legal:
        chosen = rng.choice(spec.num_actions, rng.integers(1, spec.max_legal + 1), replace=False)
        listed[: len(chosen)] = np.sort(chosen)
    return states, legal


def assert_equal_answers(
    got: tuple[np.ndarray, ...], module: torch.nn.Module, states: np.ndarray, legal: np.ndarray, precision: str = "float32"
) -> None:
    with torch.inference_mode():
        policy, value, *extra = (answer.numpy() for answer in module(torch.from_numpy(states), torch.from_numpy(legal)))
    assert policy.astype(float).std() > 0.01
    assert value.std() > 0.01
    np.testing.assert_allclose(got[0], policy, atol=5e-4)
    np.testing.assert_allclose(got[1], value, atol={"float32": 1e-5, "bfloat16x3": 1e-4}[precision])
    assert [answer.dtype for answer in got] == [np.float16, np.float32, *(answer.dtype for answer in extra)]
    for own, wanted in zip(got[2:], extra, strict=True):
        np.testing.assert_allclose(own, wanted, atol=5e-4)


def instruction_sets() -> list[str]:
    return [known.name for known in library.find().instructions] or ["none"]


def default_sets() -> list[str]:
    """Return the instruction sets that some setting selects: the best one, and the best one in float32."""
    found = library.find().instructions
    return list(dict.fromkeys([found[0].name, next(known.name for known in found if not known.group)])) if found else ["none"]


@pytest.mark.parametrize("instructions", instruction_sets())
@pytest.mark.parametrize(
    ("game", "parameters"),
    [
        ("tic_tac_toe", {}),
        ("connect_four", {}),
        ("connect_four", {"rows": "5", "columns": "10"}),
        ("connect_four", {"rows": "4", "columns": "13"}),
        ("chinese_checkers_rhombus", {}),
    ],
    ids=str,
)
def test_every_instruction_set_of_this_processor_answers_as_the_exported_module(tmp_path, game, parameters, instructions):
    spec, manifest, path, module = stored(tmp_path, game, game_parameters=parameters, policy_head="dense")
    states, legal = positions(spec)
    network = load_native(path, manifest, spec, instructions=instructions)
    assert_equal_answers(network.evaluate([states], [legal]), module, states, legal, network.precision)


@pytest.mark.parametrize("instructions", instruction_sets())
@pytest.mark.parametrize("board", [(1, 1), (1, 9), (7, 1), (2, 2), (2, 6), (3, 50)], ids=str)
def test_boards_narrower_than_a_kernel_and_cut_into_unequal_tiles_are_evaluated(tmp_path, board, instructions):
    spec, manifest, path, module = stored(tmp_path, "tic_tac_toe", board=board)
    states, legal = positions(spec)
    network = load_native(path, manifest, spec, instructions=instructions)
    assert_equal_answers(network.evaluate([states], [legal]), module, states, legal, network.precision)


@pytest.mark.parametrize("instructions", default_sets())
@pytest.mark.parametrize(
    "network",
    [
        {"heads": ("reply", "plies_left")},
        {"heads": ("plies_left", "opponents"), "channels": 8},
        {"value_output": "mover", "channels": 40},
        {"value_output": "win_or_loss", "blocks": 1, "channels": 5},
        {"value_output": "win_probability", "convolution_bias": True},
        {"value_output": "points", "policy_channels": 17},
    ],
    ids=str,
)
def test_heads_widths_and_value_outputs_are_those_of_the_exported_module(tmp_path, network, instructions):
    spec, manifest, path, module = stored(tmp_path, "tic_tac_toe", **network)
    states, legal = positions(spec)
    loaded = load_native(path, manifest, spec, instructions=instructions)
    assert_equal_answers(loaded.evaluate([states], [legal]), module, states, legal, loaded.precision)


@pytest.mark.parametrize("instructions", default_sets())
@pytest.mark.parametrize("channels", [64, 96, 128])
def test_wide_networks_in_every_size_of_block_answer_as_the_exported_module(tmp_path, channels, instructions):
    spec, manifest, path, module = stored(tmp_path, "connect_four", channels=channels, blocks=1)
    states, legal = positions(spec, 50)
    answers = []
    for block in (0, 1, 7, 16, 24, 32, 48):
        network = load_native(path, manifest, spec, instructions=instructions, block=block)
        answers.append(network.evaluate([states], [legal]))
    assert_equal_answers(answers[0], module, states, legal, network.precision)
    for others in answers[1:]:
        for one, other in zip(answers[0], others, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("instructions", default_sets())
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("rows", [1, 7, 513])
def test_batches_of_any_size_on_any_number_of_threads_give_each_row_its_own_answer(tmp_path, rows, threads, instructions):
    spec, manifest, path, _ = stored(tmp_path, "tic_tac_toe")
    states, legal = positions(spec, rows)
    network = load_native(path, manifest, spec, threads=threads, instructions=instructions)
    parts = [0, rows // 3, rows]
    spans = [slice(*span) for span in itertools.pairwise(parts)]
    together = network.evaluate([states[span] for span in spans], [legal[span] for span in spans])
    for row in {0, rows // 2, rows - 1}:
        alone = network.evaluate([states[row : row + 1]], [legal[row : row + 1]])
        for one, every in zip(alone, together, strict=True):
            np.testing.assert_array_equal(one[0], every[row])


PRODUCTS = """
#include "winograd.h"

int lanes(void) { return LANES; }

void multiply(long rows, int columns, int k, const float *a, const float *b, float *c) {
    product(rows, columns, k, a, k, b, c, columns);
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("tuning", ["", "-mtune=znver3", "-march=native"])
@pytest.mark.parametrize("instructions", [name for name in instruction_sets() if name != "amx"])
def test_a_row_of_a_product_is_the_same_alone_and_among_others_however_the_compiler_is_tuned(tmp_path, instructions, tuning):
    """Unless they are fused explicitly, gcc 12 splits the sums of some tiles when tuned for znver3, and gcc 16 always."""
    name, size, rows, flags = next(known for known in (_PORTABLE, *_X86) if known[0] == instructions)
    source, made = tmp_path / "products.c", tmp_path / "products.so"
    source.write_text(PRODUCTS)
    tuned = tuning.split() if platform.machine() == "x86_64" else []
    subprocess.run(
        [*_compiler(), *_COMMON, *flags, *tuned, *_defined(name, size, rows), f"-I{FOLDER}", "-shared", source, "-o", made],
        check=True,
        timeout=300,
    )
    compiled = ctypes.CDLL(str(made))
    lanes, k, rng = compiled.lanes(), 96, np.random.default_rng(4)
    left = rng.normal(size=(2 * rows, k)).astype(np.float32)
    panels = [rng.normal(size=(k, width)).astype(np.float32) for width in (2 * lanes, lanes)]
    packed = np.concatenate([panel.ravel() for panel in panels])

    def multiplied(given: np.ndarray) -> np.ndarray:
        answer = np.empty((len(given), 3 * lanes), np.float32)
        pointers = (array.ctypes.data_as(ctypes.c_void_p) for array in (given, packed, answer))
        compiled.multiply(ctypes.c_long(len(given)), 3 * lanes, k, *pointers)
        return answer

    together = multiplied(left)
    exact, right = left.astype(float), np.concatenate(panels, axis=1).astype(float)
    bound = 2 * k * 2.0**-24 * (np.abs(exact) @ np.abs(right))  # a product and a sum rounded for each term
    assert (np.abs(together - exact @ right) <= bound).all()
    for count in range(1, 2 * rows):
        np.testing.assert_array_equal(multiplied(left[:count]), together[:count])


def test_calls_at_once_on_one_network_give_each_its_own_answers(tmp_path):
    spec, manifest, path, _ = stored(tmp_path, "connect_four")
    states, legal = positions(spec, 96)
    network = load_native(path, manifest, spec)
    wanted = network.evaluate([states], [legal])

    def parts(start: int) -> list[tuple[np.ndarray, ...]]:
        return [network.evaluate([states[start:]], [legal[start:]]) for _ in range(20)]

    with ThreadPoolExecutor(3) as at_once:
        for start, found in zip((0, 31, 60), at_once.map(parts, (0, 31, 60)), strict=True):
            for answers in found:
                for got, all_of_them in zip(answers, wanted, strict=True):
                    np.testing.assert_array_equal(got, all_of_them[start:])


def test_the_kernel_between_two_calls_of_torch_in_bfloat16_changes_neither(tmp_path):
    spec, manifest, path, _ = stored(tmp_path, "connect_four")
    states, legal = positions(spec)
    network = load_native(path, manifest, spec)
    draw = torch.Generator().manual_seed(2)
    left, right = (torch.randn((256, 256), generator=draw).bfloat16() for _ in "12")
    product, answers = left @ right, network.evaluate([states], [legal])
    for _ in range(3):
        assert torch.equal(left @ right, product)
        for one, other in zip(answers, network.evaluate([states], [legal]), strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_call_restores_the_configuration_of_the_tiles_that_it_found(tmp_path):
    """Without AMX there is nothing to restore."""
    spec, manifest, path, _ = stored(tmp_path, "tic_tac_toe")
    states, legal = positions(spec)
    configuration = bytes([1, *[0] * 15, *[32, 0] * 8, *[0] * 16, *[5] * 8, *[0] * 8])  # 8 tiles of 5 rows of 32 bytes
    for instructions in (known.name for known in library.find().instructions if known.group):
        network = load_native(path, manifest, spec, instructions=instructions)
        code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        code.write(bytes.fromhex("c4e2784907c3c4e2794907c3"))  # ldtilecfg [rdi]; ret; sttilecfg [rdi]; ret
        address = ctypes.addressof(ctypes.c_char.from_buffer(code))
        load, store = (ctypes.CFUNCTYPE(None, ctypes.c_char_p)(address + at) for at in (0, 6))
        found = ctypes.create_string_buffer(64)
        for wanted in (configuration, bytes(64)):
            load(wanted)
            network.evaluate([states], [legal])
            store(found)
            assert found.raw == wanted


def test_a_network_in_float32_alone_uses_no_products_of_another_format(tmp_path):
    spec, manifest, path, _ = stored(tmp_path, "tic_tac_toe")
    assert load_native(path, manifest, spec, float32=True).precision == "float32"
    best = library.find().instructions[0]
    assert load_native(path, manifest, spec).precision == ("bfloat16x3" if best.group else "float32")


@pytest.mark.parametrize("instructions", instruction_sets())
@pytest.mark.parametrize(("board", "channels"), [((3, 3), 24), ((6, 7), 96), ((1, 4), 33)])
def test_no_set_reads_numbers_that_it_has_not_stored_or_writes_behind_its_memory(tmp_path, board, channels, instructions):
    spec, manifest, path, _ = stored(tmp_path, "tic_tac_toe", board=board, channels=channels)
    (known,) = (known for known in library.find().instructions if known.name == instructions)
    for block, rows in ((1, 1), (5, 5), (16, 11)):
        states, legal = positions(spec, rows)
        made = plan_of(manifest, load_file(path), spec, known, block=block)
        layout = made.layout
        memory = np.full(layout.scratch_floats + 2048, np.nan, np.float32)
        start = -(memory.ctypes.data // 4) % 16
        policy = np.empty((rows, spec.max_legal), np.float32)
        answers = [np.empty((rows, width), np.float32) for width in made.answers[1:]]
        into = (ctypes.c_void_p * layout.heads)(None, *(answer.ctypes.data for answer in answers))
        given = (array.ctypes.data_as(ctypes.c_void_p) for array in (states, legal, policy))
        scratch = ctypes.c_void_p(memory[start:].ctypes.data)
        library.find().library[f"zf_block_{instructions}"](ctypes.byref(layout), rows, *given, into, scratch)
        assert np.isfinite(policy).all()
        assert np.isfinite(answers[0]).all()
        assert np.isnan(memory[:start]).all()
        assert np.isnan(memory[start + layout.scratch_floats :]).all()


def test_sizes_in_the_sources_are_those_of_the_package():
    def constant(source: str, name: str) -> int:
        return int(re.search(rf"\b{name} = (\d+)", (FOLDER / source).read_text())[1])

    assert constant("tower.h", "ZF_PLACES") == library.PLACES
    assert constant("tower.h", "ZF_SKEW") == library.SKEW
    assert constant("split.h", "SIDE") == plan._TILE_ROWS == split_weights._SIDE
    assert constant("split.h", "GROUP") == split_weights._GROUP
    assert {known.group for known in library.find().instructions} <= {0, split_weights._GROUP}


@pytest.mark.parametrize("missing", range(len(instruction_sets())))
def test_a_processor_without_the_best_sets_evaluates_with_the_next(tmp_path, monkeypatch, missing):
    spec, manifest, path, module = stored(tmp_path, "tic_tac_toe")
    found = library.find()
    left = dataclasses.replace(found, instructions=found.instructions[missing:])
    monkeypatch.setattr(library, "find", lambda: left)
    network, exact = (load_native(path, manifest, spec, float32=float32) for float32 in (False, True))
    assert network.backend == f"native_{left.instructions[0].name}"
    assert exact.backend == f"native_{next(known.name for known in left.instructions if not known.group)}"
    states, legal = positions(spec)
    for each in (network, exact):
        assert_equal_answers(each.evaluate([states], [legal]), module, states, legal, each.precision)


WITH_A_SMALL_STACK_OF_SIGNALS = """
import ctypes

class Stack(ctypes.Structure):
    _fields_ = (("address", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))

held = ctypes.create_string_buffer(7168)
assert ctypes.CDLL(None).sigaltstack(ctypes.byref(Stack(ctypes.addressof(held), 0, len(held))), None) == 0

from zerofleet.evaluators.native import library

print(*(known.name for known in library.find().instructions))
"""


def test_where_the_system_refuses_the_registers_of_tiles_the_other_sets_are_left():
    """Linux refuses them to a process whose stack of signals cannot hold them."""
    command = [sys.executable, "-c", WITH_A_SMALL_STACK_OF_SIGNALS]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert names == [known.name for known in library.find().instructions if known.name != "amx"]


def test_split_weights_in_the_order_of_tiles_are_the_weights_to_sixteen_digits():
    points, inputs, outputs = 2, 64, 96
    weights = np.random.default_rng(5).normal(size=(points, inputs, outputs))
    tiles = split(weights).reshape(points, outputs // 32, inputs // 32, 2, 2, 16, 16, 2).astype(np.uint32) << 16
    halves = tiles.view(np.float32).astype(np.float64)
    found = np.zeros_like(weights)
    for n, j in itertools.product(range(inputs), range(outputs)):
        found[:, n, j] = halves[:, j // 32, n // 32, :, j % 32 // 16, n % 32 // 2, j % 16, n % 2].sum(axis=1)
    assert np.abs(found / weights - 1).max() < 2.0**-16
    assert np.abs(halves[:, :, :, 0] - halves[:, :, :, :].sum(axis=3)).max() > 0  # the low halves are not all zero


def test_split_weights_that_are_not_finite_stay_so():
    weights = np.ones((1, 32, 32))
    weights[0, 0, 0], weights[0, 31, 31] = np.nan, np.inf
    found = (split(weights).astype(np.uint32) << 16).view(np.float32)
    assert np.isfinite(found).sum() == 2 * 32 * 32 - 4


def test_the_memory_of_a_network_is_released_with_its_last_reference(tmp_path):
    spec, manifest, path, _ = stored(tmp_path, "tic_tac_toe")
    network = load_native(path, manifest, spec)
    network.evaluate(*([each] for each in positions(spec)))
    weights = weakref.ref(network._plan.arrays[0])
    gc.disable()
    try:
        del network
        assert weights() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("instructions", instruction_sets())
@pytest.mark.parametrize("damaged", ["trunk.stem.weight", "trunk.stem_norm.bias", "trunk.blocks.1.", "policy", "value"])
def test_an_answer_that_is_not_finite_in_torchscript_is_not_finite_in_the_kernel(tmp_path, damaged, instructions):
    spec, manifest, path, module = stored(tmp_path, "tic_tac_toe", policy_head="dense")
    tensors = torch_load(path)
    name = next(name for name in tensors if damaged in name and name.endswith(("weight", "bias")))
    tensors[name].view(-1)[0] = float("nan")
    save_file(tensors, path)
    with torch.no_grad():
        dict(module.network.state_dict())[name].view(-1)[0] = float("nan")
    states, legal = positions(spec)
    with torch.inference_mode():
        wanted = [answer.numpy() for answer in module.float()(torch.from_numpy(states), torch.from_numpy(legal))]
    assert not all(np.isfinite(answer).all() for answer in wanted)
    got = load_native(path, manifest, spec, instructions=instructions).evaluate([states], [legal])
    for own, answer in zip(got, wanted, strict=True):
        lost = ~np.isfinite(answer).all(axis=1)
        assert not np.isfinite(own[lost]).all(axis=1).any()


def test_a_hexagonal_network_ignores_stored_corners_of_its_kernels(tmp_path):
    spec, manifest, path, module = stored(tmp_path, "chinese_checkers_rhombus", policy_head="dense")
    assert spec.lattice == "hexagonal"
    with torch.no_grad():
        tensors = {name: tensor.clone() for name, tensor in torch_load(path).items()}
        for name, tensor in tensors.items():
            if tensor.ndim == 4 and tensor.shape[-1] == 3:
                assert not tensor[:, :, 0, 0].any(), name
                tensor[:, :, 0, 0] = 1.0
    save_file(tensors, path)
    states, legal = positions(spec)
    network = load_native(path, manifest, spec)
    assert_equal_answers(network.evaluate([states], [legal]), module, states, legal, network.precision)


def torch_load(path: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file  # noqa: PLC0415 - beside its one use

    return load_file(path)


@pytest.mark.parametrize(
    ("network", "part"),
    [
        ({"global_pooling": 3}, "network.global_pooling"),
        ({"squeeze": 4}, "network.squeeze"),
        ({"dense": (16,)}, "dense layers"),
        ({"policy_activation": "sigmoid_norm"}, "policy_activation=sigmoid_norm"),
        ({"policy_head": "none"}, "without policy or value"),
        ({"kind": "convolutional", "convolutions": ("same",)}, "network.kind=convolutional"),
    ],
    ids=str,
)
def test_a_network_with_another_part_is_named_as_not_supported(tmp_path, network, part):
    spec, manifest, path, _ = stored(tmp_path, "tic_tac_toe", **network)
    with pytest.raises(Unsupported, match=f"not supported: .*{part}"):
        load_native(path, manifest, spec)


@pytest.mark.parametrize(
    ("network", "part"),
    [
        ({"positions": 19683}, "a network without blocks, channels, policy_channels, value_channels, value_hidden"),
        ({"blocks": 1, "channels": 24}, "a network without policy_channels, value_channels, value_hidden"),
        ({**SMALL, "channels": (8, 16)}, "a network without channels"),
    ],
    ids=str,
)
def test_a_network_of_another_description_is_not_supported(tmp_path, network, part):
    spec, manifest, path, _ = stored(tmp_path, "tic_tac_toe")
    with pytest.raises(Unsupported, match=f"not supported: {part} in its manifest"):
        load_native(path, dataclasses.replace(manifest, network=network), spec)


def test_weights_of_another_architecture_are_not_supported(tmp_path):
    spec, manifest, path, _ = stored(tmp_path, "tic_tac_toe")
    save_file({"table": torch.zeros(9)}, path)
    with pytest.raises(Unsupported, match=r"not supported: weights without a tower \(trunk.stem\)"):
        load_native(path, manifest, spec)


def test_weights_that_do_not_fit_the_manifest_are_corrupt(tmp_path):
    spec, manifest, path, _ = stored(tmp_path, "tic_tac_toe")
    wider = dataclasses.replace(manifest, network={**manifest.network, "channels": 32})
    with pytest.raises(CorruptModel, match=r"trunk.stem_norm.weight are of shape \[24\], want \[32\]"):
        load_native(path, wider, spec)


def test_rows_of_another_game_are_refused_before_the_kernel_reads_them(tmp_path):
    spec, manifest, path, _ = stored(tmp_path, "tic_tac_toe")
    states, legal = positions(spec)
    network = load_native(path, manifest, spec)
    with pytest.raises(ValueError, match="want 3 numbers each"):
        network.evaluate([states[:, :2]], [legal])
    with pytest.raises(ValueError, match=f"got {ROWS} rows of states and {ROWS - 1} of legal actions"):
        network.evaluate([states], [legal[1:]])
    with pytest.raises(ValueError, match="got action 9, want 0 to 8"):
        network.evaluate([states], [np.where(legal == 8, 9, legal)])


@pytest.mark.parametrize(("height", "width", "products"), [(6, 7, 110), (3, 3, 25), (1, 1, 16), (8, 8, 144), (19, 5, 261)])
def test_tiles_write_each_cell_once(height, width, products):
    tiles = tiling(height, width)
    written = [cell for tile in tiles.tiles for cell in tile.outputs if cell >= 0]
    assert sorted(written) == list(range(height * width))
    assert tiles.products == products


def test_without_a_compiler_the_build_states_the_reason(monkeypatch, tmp_path):
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(BuildFailed, match=r"no C compiler found \(no-such-compiler\)"):
        build(into=tmp_path)
    assert list(tmp_path.iterdir()) == []


def stand_in(folder: Path) -> Path:
    """Return a compiler that writes its arguments into the file that it was to make."""
    compiler = folder / "compiler"
    compiler.write_text('#!/bin/sh\nall="$*"\nwhile [ "$1" != -o ]; do shift; done\necho "$all" > "$2"\n')
    compiler.chmod(0o755)
    return compiler


def test_the_compiler_of_the_environment_may_have_options_and_two_builds_at_once_leave_one_library(monkeypatch, tmp_path):
    monkeypatch.setenv("CC", f"{stand_in(tmp_path)} --own '-option of two words'")
    folder = tmp_path / "built"
    folder.mkdir()
    with ThreadPoolExecutor(2) as at_once:
        assert set(at_once.map(lambda _: build(into=folder), range(6))) == {folder / LIBRARY}
    assert (folder / LIBRARY).read_text().startswith("--own -option of two words -std=gnu11")
    assert list(folder.iterdir()) == [folder / LIBRARY]


def test_without_a_compiler_on_the_path_that_of_the_wheel_builds_for_any_processor(monkeypatch, tmp_path):
    (tmp_path / "ziglang").mkdir()
    (tmp_path / "ziglang" / "__init__.py").touch()
    program = """
import os, pathlib, sys
caches = [pathlib.Path(os.environ[f"ZIG_{kind}_CACHE_DIR"]) for kind in ("GLOBAL", "LOCAL")]
for cache in caches:
    (cache / "libc").mkdir(parents=True, exist_ok=True)
pathlib.Path(sys.argv[sys.argv.index("-o") + 1]).write_text(" ".join(sys.argv[1:]))
"""
    (tmp_path / "ziglang" / "__main__.py").write_text(program)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("CC", "ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "built"
    folder.mkdir()
    assert build(into=folder).read_text().startswith("cc -mcpu=baseline -std=gnu11")
    assert list(folder.iterdir()) == [folder / LIBRARY]  # nor does the compiler's cache stay


@pytest.fixture
def endless(tmp_path, monkeypatch):
    """Compiler that waits for a process of its own, which opens the pipes `alive` and `started`; it ends late."""
    alive, started, compiler = tmp_path / "alive", tmp_path / "started", tmp_path / "compiler"
    os.mkfifo(alive)
    os.mkfifo(started)
    compiler.write_text(f"#!/bin/sh\n{{ echo > {started}; sleep 90; }} > {alive} &\nwait\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    return compiler


@contextmanager
def no_process_is_left(endless):
    """At the end of the block, wait until the pipe `alive` has no writer."""
    pipe = os.open(endless.with_name("alive"), os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield
        try:
            os.read(pipe, 1)
        except BlockingIOError:  # a writer that is killed ends soon
            with selectors.DefaultSelector() as selector:
                selector.register(pipe, selectors.EVENT_READ)
                assert selector.select(timeout=60)
        assert os.read(pipe, 1) == b""
    finally:
        os.close(pipe)


def test_a_build_out_of_time_leaves_no_process_of_a_compiler(monkeypatch, tmp_path, endless):
    monkeypatch.setattr("zerofleet.evaluators.native.build._TIMEOUT_S", 1.0)
    (tmp_path / "built").mkdir()
    with no_process_is_left(endless), pytest.raises(BuildFailed, match=r"timed out after 1\.0 seconds"):
        build(into=tmp_path / "built")
    assert list((tmp_path / "built").iterdir()) == []


def test_a_compiler_that_fails_ends_the_others_with_their_processes(tmp_path, endless):
    begin, rest = endless.read_text().split("\n", 1)
    fails = f'case "$*" in *training_portable*) read line < {tmp_path}/started; exit 3;; esac'
    endless.write_text(f"{begin}\n{fails}\n{rest}")
    (tmp_path / "built").mkdir()
    with no_process_is_left(endless), pytest.raises(BuildFailed, match=r"training_portable.* failed"):
        build(into=tmp_path / "built")
    assert list((tmp_path / "built").iterdir()) == []


def test_a_compiler_without_amx_builds_a_library_without_it(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("sys.platform", "linux")
    compiler = stand_in(tmp_path)
    begin, rest = compiler.read_text().split("\n", 1)
    fails = 'case "$*" in *-mamx-tile*) echo "unknown option" >&2; for last; do :; done; echo > "$last"; exit 1;; esac'
    compiler.write_text(f"{begin}\n{fails}\n{rest}")
    monkeypatch.setenv("CC", str(compiler))
    (tmp_path / "built").mkdir()
    linked = build(into=tmp_path / "built").read_text()
    assert "tower_avx512.o" in linked
    assert "tower_amx.o" not in linked
    assert "-DZF_AMX" not in linked
    assert re.search(r"note: built without AMX: .* failed:\nunknown option", capsys.readouterr().err)
    monkeypatch.setenv("CC", str(stand_in(tmp_path)))
    assert "-DZF_AMX" in build(into=tmp_path / "built").read_text()
    monkeypatch.setattr("sys.platform", "darwin")
    assert "-DZF_AMX" not in build(into=tmp_path / "built").read_text()


def test_a_folder_that_cannot_be_written_fails_the_build_with_the_reason(monkeypatch, tmp_path):
    monkeypatch.setenv("CC", str(stand_in(tmp_path)))
    with pytest.raises(BuildFailed, match=f"absent/{LIBRARY} cannot be written: .*No such file"):
        build(into=tmp_path / "absent")


def test_a_missing_or_foreign_library_is_found_with_the_reason(tmp_path):
    absent = library.find(tmp_path / "absent.so")
    assert absent.library is None
    assert "is not built; with a C compiler: python -m zerofleet.evaluators.native" in absent.reason
    (tmp_path / "text.so").write_text("no library")
    assert "cannot be loaded" in library.find(tmp_path / "text.so").reason


def test_a_library_of_other_sources_is_not_used(monkeypatch):
    monkeypatch.setattr(library, "fingerprint", lambda: "another")
    assert "built from other sources" in library.find.__wrapped__().reason
    assert len(fingerprint()) == 16


def test_a_library_without_its_sources_is_not_used(monkeypatch):
    def gone() -> str:
        raise FileNotFoundError("tower.c is gone")

    monkeypatch.setattr(library, "fingerprint", gone)
    assert "cannot be loaded: tower.c is gone" in library.find.__wrapped__().reason
