"""torch's optimisers without torch's compiler.

Methods of `torch.optim.Optimizer` import `torch._dynamo` when they are called, to keep themselves out of compiled graphs: 1.5
seconds of processor time and 65 MB for the first optimiser of a process. No learner here compiles its steps. These classes have
the same methods without that wrapper; arithmetic, states and options are torch's, except `differentiable`, which is ignored.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch.optim import Optimizer

__all__ = ["SGD", "AdamW"]


class _Uncompiled(Optimizer):
    """Optimiser whose methods are the innermost functions of torch's."""

    add_param_group: Any = inspect.unwrap(Optimizer.add_param_group)
    load_state_dict: Any = inspect.unwrap(Optimizer.load_state_dict)
    state_dict: Any = inspect.unwrap(Optimizer.state_dict)
    zero_grad: Any = inspect.unwrap(Optimizer.zero_grad)


class SGD(_Uncompiled, torch.optim.SGD):
    """`torch.optim.SGD`."""

    step: Any = torch.no_grad()(inspect.unwrap(torch.optim.SGD.step))


class AdamW(_Uncompiled, torch.optim.AdamW):
    """`torch.optim.AdamW`."""

    step: Any = torch.no_grad()(inspect.unwrap(torch.optim.AdamW.step))
