"""Reuse of a compiled script: the same archive as a new script, and never that of another module."""

from __future__ import annotations

import io

import pytest
import torch
from torch import nn

from trainer import export
from trainer.exported_module import serving_module
from trainer.network import new_network
from trainer.script_reuse import ScriptReuse
from zerofleet.errors import CorruptModel


def archive_of(script: torch.jit.ScriptModule) -> bytes:
    file = io.BytesIO()
    torch.jit.save(script, file)
    return file.getvalue()


@pytest.fixture
def compiled() -> list[nn.Module]:
    """Modules that were compiled."""
    return []


@pytest.fixture
def reuse(compiled) -> ScriptReuse:
    def compile_script(module):
        compiled.append(module)
        return export.script(module)

    return ScriptReuse(compile_script)


@pytest.mark.parametrize(
    "changes",
    [{}, {"heads": ("plies_left",), "global_pooling": 4, "squeeze": 4}, {"kind": "perceptron", "hidden": (8,)}],
    ids=str,
)
def test_the_archive_of_a_reused_script_has_the_bytes_of_a_new_one(game, small, reuse, compiled, changes):
    settings = small.model_copy(update=changes)
    modules = [serving_module(new_network(game.spec(), settings, seed=seed), game.spec()) for seed in range(3)]
    archives = []
    for module in modules:
        with reuse.scripted(module) as script:
            archives.append(archive_of(script))
    assert compiled == modules[:1]
    assert archives == [archive_of(export.script(module)) for module in modules]
    assert len(set(archives)) == 3


def test_a_module_of_another_architecture_is_compiled_anew(game, small, reuse, compiled):
    wider = small.model_copy(update={"heads": ("opponents",)})
    modules = [serving_module(new_network(game.spec(), settings, seed=1), game.spec()) for settings in (small, wider, small)]
    states, legal = torch.zeros(2, game.spec().packed_bytes, dtype=torch.uint8), torch.zeros(2, 9, dtype=torch.int16)
    for module in modules:
        with reuse.scripted(module) as script:
            for got, wanted in zip(script(states, legal), module(states, legal), strict=True):
                torch.testing.assert_close(got, wanted)
    assert compiled == modules


class Scaled(nn.Module):
    """Module with a number that is stored with the tensors, and a constant of the code."""

    __constants__ = ("power",)

    def __init__(self, factor: float, power: int) -> None:
        super().__init__()
        self.factor, self.power = factor, power

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.factor * x**self.power


def test_a_reused_script_has_the_numbers_of_its_module_and_other_constants_are_compiled(reuse, compiled):
    x = torch.tensor([2.0])
    for factor, power, wanted, compilations in ((1.0, 2, 4.0, 1), (5.0, 2, 20.0, 1), (5.0, 3, 40.0, 2)):
        with reuse.scripted(Scaled(factor, power).eval()) as script:
            assert script(x).item() == wanted
        assert len(compiled) == compilations


def test_a_script_in_use_or_of_a_failed_export_is_not_lent_again(reuse, compiled):
    with reuse.scripted(Scaled(1.0, 2).eval()) as one, reuse.scripted(Scaled(2.0, 2).eval()) as other:
        assert (one(torch.ones(1)).item(), other(torch.ones(1)).item()) == (1.0, 2.0)
    assert len(compiled) == 2
    with pytest.raises(CorruptModel), reuse.scripted(Scaled(3.0, 2).eval()):
        raise CorruptModel("golden positions differ")
    with reuse.scripted(Scaled(4.0, 2).eval()):
        assert len(compiled) == 3


def test_a_module_in_training_mode_is_refused_although_a_script_is_spare(reuse):
    with reuse.scripted(Scaled(1.0, 2).eval()):
        pass
    with pytest.raises(CorruptModel, match="training mode"), reuse.scripted(Scaled(1.0, 2).train()):
        pytest.fail("provided a script")
