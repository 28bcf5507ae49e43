"""Learners: a trainer runs the one that `train.learner` names.

Its class has the members of `trainer.learners.contract.Learning`; `zerofleet.presets.learners` declares those that exist.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

from zerofleet.errors import ConfigurationError
from zerofleet.presets.learners import declared

if TYPE_CHECKING:
    from trainer.learners.contract import Learning

__all__ = ["learner_class"]


def learner_class(name: str) -> type[Learning]:
    """Return the class of a learner; its module is imported now, so that a trainer loads one learner only.

    Raises `ConfigurationError` for an unknown learner, and for one that cannot be imported.
    """
    implementation = declared(name).implementation
    module, _, member = implementation.partition(":")
    try:
        return cast("type[Learning]", getattr(import_module(module), member))
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"train.learner={name}: {implementation} cannot be imported: {error}") from error
