"""The compiled kernel against the exported module in float64: random positions, odd boards, networks and batches."""

from __future__ import annotations

import ctypes
import dataclasses
import gc
import itertools
import mmap
import re
import subprocess
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from random_networks import assert_equal_answers, instruction_sets, positions, stored
from safetensors.numpy import load_file
from safetensors.torch import save_file

from zerofleet.evaluators.native import library, load_native, plan
from zerofleet.evaluators.native import split as split_weights
from zerofleet.evaluators.native.build import FOLDER
from zerofleet.evaluators.native.plan import plan_of
from zerofleet.evaluators.native.split import split
from zerofleet.evaluators.native.tiles import tiling

pytestmark = pytest.mark.usefixtures("built")


def default_sets() -> list[str]:
    """Return the instruction sets that some setting selects: the best one, and the best one in float32."""
    found = library.find().instructions
    return (
        list(dict.fromkeys([found[0].name, next(known.name for known in found if not known.is_split)])) if found else ["none"]
    )


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
    for instructions in (known.name for known in library.find().instructions if known.is_split):
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
    assert load_native(path, manifest, spec).precision == ("bfloat16x3" if best.is_split else "float32")


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


@pytest.mark.parametrize("missing", range(len(instruction_sets())))
def test_a_processor_without_the_best_sets_evaluates_with_the_next(tmp_path, monkeypatch, missing):
    spec, manifest, path, module = stored(tmp_path, "tic_tac_toe")
    found = library.find()
    left = dataclasses.replace(found, instructions=found.instructions[missing:])
    monkeypatch.setattr(library, "find", lambda: left)
    network, exact = (load_native(path, manifest, spec, float32=float32) for float32 in (False, True))
    assert network.backend == f"native_{left.instructions[0].name}"
    assert exact.backend == f"native_{next(known.name for known in left.instructions if not known.is_split)}"
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


@pytest.mark.parametrize("inputs", [16, 32, 48, 64])
def test_split_weights_in_the_order_of_tiles_are_the_weights_to_sixteen_digits(inputs):
    points, outputs, groups = 2, 80, -(-inputs // 32)
    weights = np.random.default_rng(5).normal(size=(points, inputs, outputs))
    rest = (split(weights).astype(np.uint32) << 16).view(np.float32).astype(np.float64).reshape(points, -1)
    for at in (0, 32, 64):
        columns = min(32, outputs - at)
        size = groups * 2 * columns * 32
        tiles, rest = rest[:, :size].reshape(points, groups, 2, columns // 16, 16, 16, 2), rest[:, size:]
        found = np.zeros((points, inputs, columns))
        for n, j in itertools.product(range(inputs), range(columns)):
            found[:, n, j] = tiles[:, n // 32, :, j // 16, n % 32 // 2, j % 16, n % 2].sum(axis=1)
        assert np.abs(found / weights[:, :, at : at + columns] - 1).max() < 2.0**-16
        assert np.abs(tiles[:, :, 1]).max() > 0  # the low halves are not all zero
        if inputs % 32:  # the high halves again, for the low halves of a row, and zeros
            high, low = tiles[:, -1, 0], tiles[:, -1, 1]
            assert np.array_equal(high[:, :, :8], high[:, :, 8:])
            assert not low[:, :, 8:].any()
    assert not rest.size


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


@pytest.mark.parametrize(("height", "width", "products"), [(6, 7, 110), (3, 3, 25), (1, 1, 16), (8, 8, 144), (19, 5, 261)])
def test_tiles_write_each_cell_once(height, width, products):
    tiles = tiling(height, width)
    written = [cell for tile in tiles.tiles for cell in tile.outputs if cell >= 0]
    assert sorted(written) == list(range(height * width))
    assert tiles.products == products
