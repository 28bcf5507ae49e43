"""The compiled kernel in training: gradients against float64, whole networks against torch, and everything left to torch."""

from __future__ import annotations

import copy
import itertools
import threading
from pathlib import Path

import pytest
import torch
from structlog.testing import capture_logs
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from games.core import make
from trainer import compiled_tower
from trainer.compiled_tower import obstacle, with_compiled_units
from trainer.compiled_units import chain, convolution, fits
from trainer.learner import Learner
from trainer.network import new_network
from trainer.norms import with_global_norms
from trainer.optimisation import estimate_statistics
from trainer.samples import extract
from trainer.window import SampleWindow
from zerofleet.contracts.records import decode_record, encode_record, validate
from zerofleet.contracts.records.samples import random_game
from zerofleet.evaluators import native
from zerofleet.evaluators.native import library
from zerofleet.evaluators.native.training import MOST_THREADS, Kernel, unsupported
from zerofleet.presets import NetworkSettings, TrainSettings

CPU = torch.device("cpu")
BOARDS = [
    # height, width, positions, channels of the input and of the output
    (6, 7, 13, 32, 32),
    (6, 7, 19, 3, 12),
    (9, 9, 7, 16, 24),
    (11, 11, 3, 24, 16),
    (8, 8, 5, 16, 16),
    (3, 3, 7, 8, 8),
    (1, 5, 7, 8, 8),
    (1, 1, 4, 8, 8),
]


@pytest.fixture(scope="session", autouse=True)
def built() -> None:
    """Fail these tests where the kernel is not built; `make venv` builds it on every machine."""
    found = library.find()
    assert found.library is not None, f"the native kernel is missing: {found.reason}"


def instruction_sets() -> list[str]:
    """Return those that train: in float32."""
    return [known.name for known in library.find().instructions if not known.is_split]


def test_training_uses_the_best_set_in_float32_and_refuses_one_of_another_format():
    assert Kernel.of(6, 7).instructions.name == instruction_sets()[0]
    assert Kernel.of(6, 7).instructions.precision == "float32"
    for name in {known.name for known in library.find().instructions}.symmetric_difference(instruction_sets()) | {"mmx"}:
        with pytest.raises(ValueError, match=f"the kernel does not train with the instruction set {name}"):
            Kernel.of(6, 7, name)


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def error(got: torch.Tensor, exact: torch.Tensor) -> float:
    return ((got.double() - exact).norm() / exact.norm()).item()


def results(function, tensors: list[torch.Tensor], gradient: torch.Tensor) -> list[torch.Tensor]:
    """Return the output of a function and its gradients."""
    tensors = [tensor.clone().requires_grad_() for tensor in tensors]
    out = function(*tensors)
    return [out.detach(), *torch.autograd.grad(out, tensors, gradient)]


def assert_accurate(own: list[torch.Tensor], torchs: list[torch.Tensor], exact: list[torch.Tensor]) -> None:
    """Errors of the norm at most 1e-4, and ten times torch's own."""
    for mine, theirs, wanted in zip(own, torchs, exact, strict=True):
        assert mine.shape == wanted.shape
        assert error(mine, wanted) <= min(1e-4, 10 * max(error(theirs, wanted), 1e-7))


@pytest.mark.parametrize("name", instruction_sets())
@pytest.mark.parametrize(("height", "width", "batch", "inputs", "outputs"), BOARDS)
def test_a_convolution_and_both_gradients_are_those_of_float64(name, height, width, batch, inputs, outputs):
    kernel = Kernel.of(height, width, name)
    tensors = [drawn(batch, inputs, height, width), drawn(outputs, inputs, 3, 3, seed=1) / (3 * inputs**0.5)]
    gradient = drawn(batch, outputs, height, width, seed=2)

    def plain(x, weight):
        return functional.conv2d(x, weight, padding=1)

    exact = results(plain, [tensor.double() for tensor in tensors], gradient.double())
    own = results(lambda x, weight: convolution(x, weight, kernel), tensors, gradient)
    assert_accurate(own, results(plain, tensors, gradient), exact)


def norms_of(features: int, number: int) -> list[nn.BatchNorm2d]:
    norms = [nn.BatchNorm2d(features) for _ in range(number)]
    with torch.no_grad():
        for i, norm in enumerate(norms):
            norm.weight.copy_(drawn(features, seed=10 + i))
            norm.bias.copy_(drawn(features, seed=20 + i))
    return norms


def plain_chain(x, weights, norms, residual):
    y = x
    for weight, norm in zip(weights, norms, strict=True):
        y = functional.relu(y) if y is not x else y
        y = norm(functional.conv2d(y, weight, padding=1))
    return functional.relu(x + y if residual else y)


@pytest.mark.parametrize("name", instruction_sets())
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("inputs", "features", "units"), [(3, 12, 1), (16, 16, 2)])
def test_a_chain_with_norms_and_residual_has_the_gradients_and_statistics_of_torch(name, threads, inputs, features, units):
    kernel, residual = Kernel.of(6, 7, name), units == 2
    x, gradient = drawn(110, inputs, 6, 7), drawn(110, features, 6, 7, seed=2)  # a block for each thread and more
    weights = [drawn(features, inputs, 3, 3, seed=3 + i) / (3 * inputs**0.5) for i in range(units)]
    outcomes, statistics = [], []
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for kind in ("own", "torch", "exact"):
            norms = norms_of(features, units)
            dtype = torch.float64 if kind == "exact" else torch.float32
            for norm in norms:
                norm.to(dtype)

            def run(x, *weights, kind=kind, norms=norms):
                if kind == "own":
                    return chain(x, weights, norms, residual=residual, kernel=kernel)
                return plain_chain(x, weights, norms, residual)

            tensors = [tensor.to(dtype).requires_grad_() for tensor in (x, *weights)]
            out = run(*tensors)
            parameters = [parameter for norm in norms for parameter in norm.parameters()]
            gradients = torch.autograd.grad(out, [*tensors, *parameters], gradient.to(dtype))
            assert all(int(norm.num_batches_tracked) == 1 for norm in norms)
            statistics.append(torch.stack([buffer for norm in norms for buffer in (norm.running_mean, norm.running_var)]))
            outcomes.append([out.detach(), *gradients])
    finally:
        torch.set_num_threads(before)
    assert_accurate(*outcomes)
    torch.testing.assert_close(statistics[0].double(), statistics[2], rtol=1e-5, atol=1e-7)  # of values with deviation 1


@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_inputs_give_the_same_bits(threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        x, weight, gradient = drawn(50, 16, 6, 7), drawn(16, 16, 3, 3, seed=1), drawn(50, 16, 6, 7, seed=2)
        first, second = (
            results(lambda x, w: chain(x, [w], norms_of(16, 1), residual=True), [x, weight], gradient) for _ in "12"
        )
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


def test_a_number_that_is_not_finite_reaches_output_and_gradient():
    x = drawn(4, 8, 3, 3)
    x[1, 2, 0, 0] = torch.nan
    got = results(lambda x, w: chain(x, [w], norms_of(8, 1), residual=False), [x, drawn(8, 8, 3, 3)], torch.ones(4, 8, 3, 3))
    assert got[0].isnan().any()
    assert not got[2].isfinite().all()


FAR_FROM_ZERO = 1e-5  # rounding of about 1e-6 moves no input of a relu across 0, which would change gradients by 1e-3


class LeastInputOfRelu(TorchFunctionMode):
    """Smallest absolute value of all inputs of relu."""

    found = float("inf")

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is functional.relu:
            self.found = min(self.found, args[0].abs().min().item())
        return func(*args, **(kwargs or {}))


def network_of(game_name: str = "connect_four", **settings: object):
    small = {"blocks": 2, "channels": 16, "policy_channels": 2, "value_channels": 2, "value_hidden": 8, **settings}
    spec = make(game_name).spec()
    network = new_network(spec, NetworkSettings(**small), seed=2).to(memory_format=torch.channels_last).train()
    with torch.no_grad():
        for block in network.trunk.blocks:  # a new block is the identity
            block.norm2.weight.copy_(drawn(len(block.norm2.weight), seed=5))
    for seed in itertools.count(6):
        planes = (drawn(24, *spec.planes, seed=seed) > 0).float()
        with LeastInputOfRelu() as least:
            copy.deepcopy(network)(planes)
        if least.found > FAR_FROM_ZERO:
            break
    return network, planes


class OneRank:
    """Exchange of a single rank; like a connection, it cannot be copied."""

    def __init__(self):
        self.lock = threading.Lock()

    def gather(self, tensor):
        return tensor[None]

    def add_up(self, tensor):
        pass


@pytest.mark.parametrize("instructions", instruction_sets())
@pytest.mark.parametrize(
    ("game_name", "settings"),
    [
        ("connect_four", {}),
        ("connect_four", {"channels": 20}),
        ("connect_four", {"global_pooling": 8}),
        ("connect_four", {"squeeze": 4}),
        ("connect_four", {"convolution_bias": True}),
        ("abalone", {"channels": 8, "blocks": 1}),
        ("connect_four", {"ranks": True}),
    ],
)
def test_a_networks_step_and_its_parameters_are_those_of_torch(game_name, settings, instructions):
    over_ranks = settings.pop("ranks", False) if (settings := dict(settings)) else False
    network, planes = network_of(game_name, **settings)
    other = copy.deepcopy(network)
    kernel = Kernel.of(*planes.shape[2:], instructions)
    view = with_compiled_units(with_global_norms(other, OneRank()) if over_ranks else other, kernel=kernel)
    names = list(other.state_dict())
    for called in (network, view):
        logits, value, _ = called(planes)
        (logits.square().mean() + value.square().mean()).backward()
    assert list(other.state_dict()) == names
    for (name, parameter), (_, own) in zip(network.named_parameters(), other.named_parameters(), strict=True):
        torch.testing.assert_close(
            own.grad, parameter.grad, rtol=2e-3, atol=2e-5, msg=lambda text, name=name: f"{name}: {text}"
        )
    for (name, buffer), (_, own) in zip(network.named_buffers(), other.named_buffers(), strict=True):
        torch.testing.assert_close(own, buffer, rtol=1e-4, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("instructions", instruction_sets())
@pytest.mark.parametrize(
    ("game_name", "settings"),
    [("connect_four", {}), ("connect_four", {"global_pooling": 8}), ("abalone", {"channels": 8, "blocks": 1})],
)
def test_the_mean_statistics_of_several_batches_are_those_of_torch(game_name, settings, instructions):
    network, planes = network_of(game_name, **settings)
    batches = [planes, planes.flip(0)[:9], planes[3:15] * 0.5]  # a mean over batches, whatever their sizes
    for norm in (module for module in network.modules() if isinstance(module, nn.BatchNorm2d)):
        norm.running_mean.fill_(3.0)  # of other weights
    other = copy.deepcopy(network)
    view = with_compiled_units(other, kernel=Kernel.of(*planes.shape[2:], instructions))
    for called in (network, view):
        estimate_statistics(called, batches)
        assert not any(module.training for module in called.modules())
        assert all(norm.momentum == 0.1 for norm in called.modules() if isinstance(norm, nn.BatchNorm2d))
    for (name, buffer), (_, own) in zip(network.named_buffers(), other.named_buffers(), strict=True):
        torch.testing.assert_close(own, buffer, rtol=1e-4, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}")
    counts = [int(buffer) for name, buffer in other.named_buffers() if name.endswith("num_batches_tracked")]
    assert counts == [len(batches)] * len(counts)


@pytest.mark.parametrize("residual", [False, True])
def test_a_chain_without_gradients_has_the_same_bits_and_leaves_its_input(residual):
    x, weights = drawn(20, 16, 6, 7), [drawn(16, 16, 3, 3, seed=1 + i) / 12 for i in range(2)]
    before, kept, norms = x.clone(), norms_of(16, 2), norms_of(16, 2)
    wanted = chain(x.requires_grad_(), weights, kept, residual=residual)
    with torch.no_grad():
        got = chain(x, weights, norms, residual=residual)
    assert torch.equal(got, wanted)
    assert torch.equal(x, before)
    assert got.grad_fn is None
    for one, other in zip(kept, norms, strict=True):
        assert torch.equal(one.running_mean, other.running_mean)
        assert torch.equal(one.running_var, other.running_var)


def learner_of(convolutions: str) -> Learner:
    game = make("tic_tac_toe")
    train = TrainSettings(batch_size=64, min_samples=1, warmup_steps=1, max_reuse=1e9, convolutions=convolutions)
    network = NetworkSettings(blocks=1, channels=8, policy_channels=2, value_channels=2, value_hidden=8)
    window = SampleWindow(game.spec(), train)
    for seed in range(10):
        payload = encode_record(random_game(game, seed), worker_id="w", uid=f"{seed:032x}")
        window.add(extract(validate(decode_record(payload)), train))
    return Learner(game.spec(), new_network(game.spec(), network, seed=1), train, window, seed=5)


def test_steps_with_the_kernel_and_with_torch_have_nearly_equal_losses(monkeypatch):
    monkeypatch.setattr(compiled_tower, "_LEAST_LANES", 1)
    own, torchs = learner_of("auto"), learner_of("torch")
    assert own.convolutions.startswith("native_")
    assert torchs.convolutions == "torch"
    losses = [[learner.step().total for _ in range(8)] for learner in (own, torchs)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert losses[0][-1] != losses[0][0]


def test_a_candidate_has_statistics_of_the_kernel_which_are_nearly_torchs(monkeypatch):
    monkeypatch.setattr(compiled_tower, "_LEAST_LANES", 1)
    own, torchs = learner_of("auto"), learner_of("torch")
    own.step()
    torchs.load_weights(own.network.state_dict())
    torchs.average, torchs.state.step = own.average, own.state.step
    calls = []
    monkeypatch.setattr(Kernel, "forward", lambda *given, forward=Kernel.forward: (calls.append(1), forward(*given)))
    one, other = own.candidate().state_dict(), torchs.candidate().state_dict()
    assert len(calls) == 3 * 8  # of the stem and a block, in each batch; none by the other learner
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    assert not torch.equal(one["trunk.stem_norm.running_mean"], own.network.state_dict()["trunk.stem_norm.running_mean"])
    assert not any(module.training for module in own.candidate().modules())


def test_threads_that_the_kernel_leaves_idle_are_logged(monkeypatch):
    monkeypatch.setattr(compiled_tower, "_LEAST_LANES", 1)
    limits = []
    for threads in (MOST_THREADS, MOST_THREADS + 1):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        with capture_logs() as events:
            learner_of("auto")
        limits.append([(e["threads"], e["wanted"]) for e in events if e["event"] == "learner.convolutions_limited"])
    assert limits == [[], [(64, 65)]]
    source = (Path(native.__file__).parent / "training_calls.c").read_text()
    assert f"MOST_THREADS = {MOST_THREADS}," in source


def test_a_trainer_without_the_library_trains_with_torch(monkeypatch):
    monkeypatch.setattr(library, "find", lambda: library.Found(None, reason="libzerofleet.so is not built"))
    unsupported.cache_clear()
    try:
        learner = learner_of("auto")
        assert learner.convolutions == "torch"
        assert not learner.step().skipped
    finally:
        monkeypatch.undo()
        unsupported.cache_clear()


def test_what_the_kernel_does_not_support_is_left_to_torch():
    network, planes = network_of()
    weight = network.trunk.stem.weight
    assert fits(planes, weight)
    assert not fits(planes.double(), weight.double())
    assert not fits(planes[:0], weight)
    assert not fits(torch.zeros(1, 3, 40, 40), weight)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not fits(planes, weight)
    view = with_compiled_units(network)
    exact = with_compiled_units(copy.deepcopy(network).double())
    torch.testing.assert_close(exact(planes.double())[0], view(planes)[0].double(), rtol=1e-3, atol=1e-4, check_dtype=False)
    view.eval()
    network.eval()
    assert torch.equal(view(planes)[0], network(planes)[0])
    assert "cuda" in obstacle(network, torch.device("cuda"), (6, 7))
    assert "tower" in obstacle(new_network(make("tic_tac_toe").spec(), NetworkSettings(kind="perceptron"), seed=0), CPU, (3, 3))
    assert "too large" in obstacle(network, CPU, (40, 40))
    assert obstacle(network, CPU, (6, 7)) in ("", "the processor has no AVX2")


def test_a_second_derivative_is_refused():
    x = drawn(2, 8, 3, 3).requires_grad_()
    (gradient,) = torch.autograd.grad(convolution(x, drawn(8, 8, 3, 3)).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


@pytest.mark.parametrize("part", ["trunk.stem.weight", "trunk.blocks.0.norm1.bias", "trunk.blocks.0.conv2.weight"])
def test_a_weight_that_is_not_finite_skips_the_step_and_leaves_the_statistics(monkeypatch, part):
    monkeypatch.setattr(compiled_tower, "_LEAST_LANES", 1)
    learner = learner_of("auto")
    learner.step()
    before = [buffer.clone() for buffer in learner.network.buffers()]
    with torch.no_grad():
        learner.network.get_parameter(part)[-1] = torch.nan
    assert learner.step().skipped
    assert all(torch.equal(one, other) for one, other in zip(before, learner.network.buffers(), strict=True))
