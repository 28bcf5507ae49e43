"""Dense layers: activation, normalisation, dropout and initial weights, as the theses of `docs/networks.md` have them.

Axes: B batch, F features.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from zerofleet.presets import NetworkSettings

__all__ = ["Dropout", "dense_layers", "draw_initial_weights", "without_dropout"]

_ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid}
_SMALL = 0.05  # standard deviation of the small initial weights


class FeatureNorm(nn.Module):
    """Batch norm of flat features, held as a `BatchNorm2d` of single cells.

    So all that treats the norms of towers (statistics of the average, several processes) also applies to it.
    """

    def __init__(self, features: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(features)

    def forward(self, x: Tensor) -> Tensor:
        """Map float [B, F] to the same shape."""
        y: Tensor = self.norm(x[:, :, None, None])
        return y.flatten(1)


class Dropout(nn.Module):
    """Dropout (Srivastava et al. 2014) whose masks follow from a stored count of draws, so that resumed training repeats them.

    Processes that train one network together draw equal masks for their parts of a batch. Exports are made without it
    (`without_dropout`).
    """

    def __init__(self, rate: float, place: int) -> None:
        """`place`: number of the layer in its network, which distinguishes its masks."""
        super().__init__()
        self.draws: Tensor  # int64 []
        self.rate, self.place = rate, place
        self.register_buffer("draws", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        """Map floats of any shape to the same shape: a share `rate` is set to 0, the rest divided by 1 - `rate`."""
        if not self.training:
            return x
        generator = torch.Generator(x.device).manual_seed(int(self.draws) * 1009 + self.place)
        with torch.no_grad():
            self.draws += 1
        kept = torch.rand(x.shape, generator=generator, device=x.device) >= self.rate
        return x * kept / (1.0 - self.rate)


def dense_layers(inputs: int, widths: tuple[int, ...], settings: NetworkSettings) -> nn.Sequential:
    """Return layers from `inputs` features to each of the widths in turn."""
    layers: list[nn.Module] = []
    for place, (before, after) in enumerate(zip((inputs, *widths), widths, strict=False)):
        norm = _norm(after, settings)
        layers += [nn.Linear(before, after)]
        layers += norm if settings.normalise == "before" else []
        layers += [_ACTIVATIONS[settings.activation]()]
        layers += norm if settings.normalise == "after" else []
        layers += [Dropout(settings.dropout, place)] if settings.dropout else []
    return nn.Sequential(*layers)


def _norm(features: int, settings: NetworkSettings) -> list[nn.Module]:
    if settings.normalisation == "none":
        return []
    return [FeatureNorm(features) if settings.normalisation == "batch" else nn.LayerNorm(features)]


@torch.no_grad()
def draw_initial_weights(network: nn.Module, kind: str) -> None:
    """Draw the weights of all dense layers from the global generator, by `NetworkSettings.initial_weights`."""
    if kind == "torch":
        return
    for layer in network.modules():
        if isinstance(layer, nn.Linear):
            if kind == "glorot":
                nn.init.xavier_uniform_(layer.weight)
            else:
                deviation = {"small": _SMALL, "normal": 1.0, "fan_in": layer.in_features**-0.5}[kind]
                nn.init.normal_(layer.weight, std=deviation)
            if kind in ("small", "glorot"):
                nn.init.zeros_(layer.bias)
            else:
                nn.init.normal_(layer.bias)


def without_dropout(module: nn.Module) -> None:
    """Replace, in place, every `Dropout` below `module` by the identity, which it is outside of training."""
    for name, child in module.named_children():
        if isinstance(child, Dropout):
            setattr(module, name, nn.Identity())
        else:
            without_dropout(child)
