"""Norms over the batch of all ranks: with one rank they are torch's own; parts of a batch together are the whole."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import nn

from trainer.network import new_network
from trainer.norms import GlobalBatchNorm2d, with_global_norms


class Alone:
    """One rank."""

    def gather(self, tensor):
        return tensor[None]

    def add_up(self, tensor):
        pass


class Threads:
    """As many ranks as threads, which meet at a barrier."""

    def __init__(self, size):
        self.barrier = threading.Barrier(size, timeout=60)
        self.size = size

    def rank(self, number, slots):
        everyone = self

        class Rank:
            def gather(self, tensor):
                slots[number] = tensor
                everyone.barrier.wait()
                together = torch.stack(slots)
                everyone.barrier.wait()
                return together

            def add_up(self, tensor):
                tensor.copy_(self.gather(tensor.clone()).sum(0))

        return Rank()


def data(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * 3 + 1


def trained_once(norm, x, gradient):
    x = x.clone().requires_grad_()
    norm.zero_grad()
    y = norm(x)
    y.backward(gradient)
    return y.detach(), x.grad, norm.weight.grad, norm.bias.grad


def norm_of(features=5):
    norm = nn.BatchNorm2d(features)
    with torch.no_grad():
        norm.weight.copy_(data(features, seed=5))
        norm.bias.copy_(data(features, seed=6))
    return norm


@pytest.mark.parametrize("momentum", [0.1, None])
def test_with_one_rank_the_global_norm_equals_torchs_batch_norm(momentum):
    torchs, source = norm_of(), norm_of()
    torchs.momentum = source.momentum = momentum
    ours = GlobalBatchNorm2d(source, Alone())
    for seed in range(3):
        x, gradient = data(7, 5, 3, 4, seed=seed), data(7, 5, 3, 4, seed=seed + 10)
        for got, wanted in zip(trained_once(ours, x, gradient), trained_once(torchs, x, gradient), strict=True):
            torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)
    for name, wanted in torchs.state_dict().items():
        torch.testing.assert_close(source.state_dict()[name], wanted)  # the norm it was made of follows


def test_uneven_parts_of_a_batch_on_three_ranks_are_normalised_like_the_whole_batch():
    x, gradient = data(10, 5, 3, 4), data(10, 5, 3, 4, seed=1)
    whole = norm_of()
    wanted = trained_once(whole, x, gradient)
    bounds, slots, threads, ranks = [(0, 3), (3, 6), (6, 10)], [None] * 3, Threads(3), {}

    def work(number, begin, end):
        norm = GlobalBatchNorm2d(norm_of(), threads.rank(number, slots))
        ranks[number] = norm, trained_once(norm, x[begin:end], gradient[begin:end])

    workers = [threading.Thread(target=work, args=(i, *bound)) for i, bound in enumerate(bounds)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    results = [ranks[i][1] for i in range(3)]
    for part, place in ((0, torch.cat), (1, torch.cat), (2, sum), (3, sum)):
        torch.testing.assert_close(place([result[part] for result in results]), wanted[part], rtol=1e-4, atol=1e-4)
    for number in range(3):
        norm = ranks[number][0]
        torch.testing.assert_close(norm.running_mean, whole.running_mean)
        torch.testing.assert_close(norm.running_var, whole.running_var)
        assert torch.equal(norm.running_var, ranks[0][0].running_var)  # bit by bit the same on every rank


def test_merged_moments_far_from_zero_keep_their_precision():
    x = data(8, 5, 3, 4) * 1e-2 + 1e3  # a sum of squares in float32 would say nothing of the variance
    ours, torchs = GlobalBatchNorm2d(norm_of(), Alone()), norm_of()
    torch.testing.assert_close(ours(x).detach(), torchs(x).detach(), rtol=0, atol=2e-2)
    torch.testing.assert_close(ours.running_var, torchs.running_var, rtol=1e-3, atol=1e-6)


def test_a_view_shares_the_networks_tensors_and_leaves_its_norms_unchanged(game, small):
    network = new_network(game.spec(), small, seed=1)
    view = with_global_norms(network, Alone())
    for mine, theirs in zip(network.parameters(), view.parameters(), strict=True):
        assert mine is theirs
    assert all(mine is theirs for mine, theirs in zip(network.buffers(), view.buffers(), strict=True))
    kinds = {type(module) for module in network.modules()}
    assert nn.BatchNorm2d in kinds
    assert GlobalBatchNorm2d not in kinds
    assert sum(type(module) is nn.BatchNorm2d for module in view.modules()) == 0
    planes = torch.zeros(4, *game.spec().planes)
    torch.testing.assert_close(view.train()(planes)[0], network.train()(planes)[0])
