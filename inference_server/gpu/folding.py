"""Norms of a TorchScript network folded into its convolutions in float64, before its weights are rounded."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["fold_norms"]


@torch.no_grad()
def fold_norms(script: Any) -> None:
    """Multiply, in place, the weights of each convolution by the scale of the norm behind it, which keeps the shift alone.

    `torch.jit.freeze` does the rest in the type of the weights: in half precision it would round scale and weights before
    their product. A norm belongs to the convolution of its name (`conv1` and `norm1`, `stem` and `stem_norm`) or, in a
    sequence, to the one before it. One without such a convolution is left alone. The golden positions decide about the rest.
    """
    modules = dict(script.named_modules())
    for name, norm in modules.items():
        if norm.original_name != "BatchNorm2d":
            continue
        convolution = next((modules[other] for other in _before(name) if other in modules), None)
        if convolution is None or convolution.original_name != "Conv2d":
            continue
        scale = norm.weight.double() / torch.sqrt(norm.running_var.double() + norm.eps)
        before = torch.zeros_like(scale) if convolution.bias is None else convolution.bias.double()
        norm.bias.copy_((before - norm.running_mean.double()) * scale + norm.bias.double())
        convolution.weight.copy_(convolution.weight.double() * scale[:, None, None, None])
        if convolution.bias is not None:
            convolution.bias.zero_()
        norm.weight.fill_(1.0)
        norm.running_mean.zero_()
        norm.running_var.fill_(1.0 - norm.eps)  # so that its scale is 1


def _before(name: str) -> list[str]:
    """Return the names that a convolution in front of a norm may have."""
    parent, dot, last = name.rpartition(".")
    if last.isdigit():
        return [f"{parent}{dot}{int(last) - 1}"]
    return [parent + dot + last.replace("norm", "conv"), parent + dot + last.removesuffix("_norm")]
