"""Reuse of a compiled script: the candidates of a trainer differ in their weights alone.

Compiling parses the source of every submodule anew, several times as long as all else in an export. Where torch finds the same
types and constants in a module as in the last one, the last script takes over its tensors and numbers instead; the stored
archive has the same bytes as that of a new script.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.jit import ScriptModule
from torch.jit import _recursive as recursive

__all__ = ["ScriptReuse"]


class ScriptReuse:
    """Lends the script of a module to one caller at a time; any thread may call."""

    def __init__(self, compile_script: Callable[[nn.Module], ScriptModule]) -> None:
        self._compile = compile_script
        self._spare: list[ScriptModule] = []  # at most one; a caller takes it out, so no two share it

    @contextmanager
    def scripted(self, module: nn.Module) -> Iterator[ScriptModule]:
        """Provide the script of `module`, which must be in evaluation mode; it is valid within the block alone."""
        script = self._refilled(module) or self._compile(module)
        yield script
        self._spare[:] = [script]

    def _refilled(self, module: nn.Module) -> ScriptModule | None:
        """Return the spare script with the contents of `module`; None where there is none, or its types differ."""
        try:
            spare = self._spare.pop()
        except IndexError:
            return None
        if not isinstance(spare, torch.jit._script.RecursiveScriptModule) or module.training:
            return None
        try:
            concrete = recursive.get_module_concrete_type(module)  # type: ignore[no-untyped-call]
        except SystemError:  # see `trainer.export.script`, which tries again
            return None
        if concrete is not spare._concrete_type:
            return None
        _refill(spare._c, module, concrete)
        return spare


def _refill(script: Any, module: nn.Module, concrete: Any) -> None:
    """Replace tensors and plain attributes, as torch sets them in a new script."""
    for name in concrete.get_attributes():
        script.setattr(name, getattr(module, name))
    for name, inner in concrete.get_modules():
        _refill(script.getattr(name), getattr(module, name), inner)
