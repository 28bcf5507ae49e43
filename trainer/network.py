"""The network: a residual tower with a policy head and a value head, and the form of it that is served.

    planes ── stem ── blocks ── ─┬─ policy: 1x1 convolution, linear ──► logits of every action
                                 └─ value:  1x1 convolution, linear, linear, tanh ──► expected score of each player

The architecture is AlphaZero's (Silver et al. 2018) at any size, for any planes. `ServingModule` wraps it with what stands
on the wire: packed bits in, probabilities of the listed actions out.

Axes: B batch, C planes, H x W cells, F channels of the tower, A actions, L listed actions, P players.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from games.core import GameSpec
from zerofleet.presets import NetworkSettings

__all__ = ["Network", "ServingModule", "new_network", "unpack_planes"]


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions and the input added to their result (He et al. 2016)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, kernel_size=3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, kernel_size=3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)
        nn.init.zeros_(self.norm2.weight)  # a new block is the identity: deep towers train from the first step

    def forward(self, x: Tensor) -> Tensor:
        """float [B, F, H, W] to the same shape."""
        y = functional.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        return functional.relu(x + y)


class Network(nn.Module):
    """Planes in; logits and values for the player to move out."""

    def __init__(self, spec: GameSpec, settings: NetworkSettings) -> None:
        super().__init__()
        self.heads = tuple(settings.heads)
        self.policy_activation = settings.policy_activation
        planes, height, width = spec.planes
        channels = settings.channels
        self.stem = nn.Conv2d(planes, channels, kernel_size=3, padding=1, bias=False)
        self.stem_norm = nn.BatchNorm2d(channels)
        self.blocks = nn.Sequential(*(ResidualBlock(channels) for _ in range(settings.blocks)))

        self.policy_conv = nn.Conv2d(channels, settings.policy_channels, kernel_size=1, bias=False)
        self.policy_norm = nn.BatchNorm2d(settings.policy_channels)
        self.policy_out = nn.Linear(settings.policy_channels * height * width, spec.num_actions)

        self.value_conv = nn.Conv2d(channels, settings.value_channels, kernel_size=1, bias=False)
        self.value_norm = nn.BatchNorm2d(settings.value_channels)
        self.value_hidden = nn.Linear(settings.value_channels * height * width, settings.value_hidden)
        self.value_out = nn.Linear(settings.value_hidden, spec.num_players)

    def forward(self, planes: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Evaluate positions.

        `planes`: float [B, C, H, W]. Returns `logits` float32 [B, A] of all actions, legal or not, and `value`
        float32 [B, P] in [-1, 1], whose index 0 is the player to move and which goes on in seat order, and what the extra heads
        say, in the order of `heads`.
        """
        x = functional.relu(self.stem_norm(self.stem(planes)))  # [B, F, H, W]
        x = self.blocks(x)

        p = functional.relu(self.policy_norm(self.policy_conv(x)))
        logits = self.policy_out(p.flatten(1))

        v = functional.relu(self.value_norm(self.value_conv(x)))
        v = functional.relu(self.value_hidden(v.flatten(1)))
        extra: list[Tensor] = []
        return logits.float(), torch.tanh(self.value_out(v).float()), extra


def new_network(spec: GameSpec, settings: NetworkSettings, *, seed: int) -> Network:
    """Return a randomly initialised network; the same seed gives the same weights. The global generator is not touched."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Network(spec, settings)


class ServingModule(nn.Module):
    """The network as it stands on the wire; scriptable.

    It computes in the type of its weights: exported in float32, which is what a CPU runs. A server with a GPU calls
    `.to(device).half()` after loading, and gets half precision; the softmax and the tanh stay in float32.
    """

    def __init__(self, network: Network, spec: GameSpec) -> None:
        super().__init__()
        self.planes, self.height, self.width = spec.planes
        self.network = network

    def forward(self, state: Tensor, legal: Tensor) -> tuple[Tensor, Tensor]:
        """Evaluate packed positions.

        `state`: uint8 [B, packed_bytes]; `legal`: int16 [B, L], padded with -1. Returns `policy` float16 [B, L], softmax
        over the listed actions and 0 at padding, and `value` float32 [B, P].
        """
        bits = unpack_planes(state, self.planes, self.height, self.width)
        logits, value, _ = self.network(bits.to(self.network.stem.weight.dtype))
        index = legal.to(torch.int64)
        listed = index >= 0
        chosen = logits.gather(1, index.clamp(min=0)).masked_fill(~listed, -1e30)  # finite: a row of padding stays finite
        policy = torch.softmax(chosen, dim=1) * listed
        return policy.half(), value


def unpack_planes(state: Tensor, planes: int, height: int, width: int) -> Tensor:
    """Turn packed bits, uint8 [B, packed_bytes], least bit of each byte first, into uint8 planes [B, C, H, W]."""
    shifts = torch.arange(8, dtype=torch.uint8, device=state.device)
    bits = state.unsqueeze(2).bitwise_right_shift(shifts).bitwise_and(1)  # [B, packed_bytes, 8]
    return bits.flatten(1)[:, : planes * height * width].reshape(-1, planes, height, width)
