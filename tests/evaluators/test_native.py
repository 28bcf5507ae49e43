"""The compiled kernel against the exported module in float64: random positions, odd boards, networks and batches."""

from __future__ import annotations

import dataclasses
import gc
import itertools
import os
import selectors
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from games.core import make
from trainer.exported_module import serving_module
from trainer.network import new_network
from zerofleet.contracts.manifests import Golden, Manifest
from zerofleet.errors import CorruptModel
from zerofleet.evaluators.native import Unsupported, library, load_native
from zerofleet.evaluators.native.build import LIBRARY, BuildFailed, build, fingerprint
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


def assert_equal_answers(got: tuple[np.ndarray, ...], module: torch.nn.Module, states: np.ndarray, legal: np.ndarray) -> None:
    with torch.inference_mode():
        policy, value, *extra = (answer.numpy() for answer in module(torch.from_numpy(states), torch.from_numpy(legal)))
    assert policy.astype(float).std() > 0.01
    assert value.std() > 0.01
    np.testing.assert_allclose(got[0], policy, atol=5e-4)
    np.testing.assert_allclose(got[1], value, atol=1e-5)
    assert [answer.dtype for answer in got] == [np.float16, np.float32, *(answer.dtype for answer in extra)]
    for own, wanted in zip(got[2:], extra, strict=True):
        np.testing.assert_allclose(own, wanted, atol=5e-4)


def instruction_sets() -> list[str]:
    return [known.name for known in library.find().instructions] or ["none"]


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
    assert_equal_answers(network.evaluate([states], [legal]), module, states, legal)


@pytest.mark.parametrize("instructions", instruction_sets())
@pytest.mark.parametrize("board", [(1, 1), (1, 9), (7, 1), (2, 2), (2, 6), (3, 50)], ids=str)
def test_boards_narrower_than_a_kernel_and_cut_into_unequal_tiles_are_evaluated(tmp_path, board, instructions):
    spec, manifest, path, module = stored(tmp_path, "tic_tac_toe", board=board)
    states, legal = positions(spec)
    network = load_native(path, manifest, spec, instructions=instructions)
    assert_equal_answers(network.evaluate([states], [legal]), module, states, legal)


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
def test_heads_widths_and_value_outputs_are_those_of_the_exported_module(tmp_path, network):
    spec, manifest, path, module = stored(tmp_path, "tic_tac_toe", **network)
    states, legal = positions(spec)
    assert_equal_answers(load_native(path, manifest, spec).evaluate([states], [legal]), module, states, legal)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("rows", [1, 7, 513])
def test_batches_of_any_size_on_any_number_of_threads_give_each_row_its_own_answer(tmp_path, rows, threads):
    spec, manifest, path, _ = stored(tmp_path, "tic_tac_toe")
    states, legal = positions(spec, rows)
    network = load_native(path, manifest, spec, threads=threads)
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
    assert_equal_answers(load_native(path, manifest, spec).evaluate([states], [legal]), module, states, legal)


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
