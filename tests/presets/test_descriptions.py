"""Descriptions of settings are the docstrings below the fields."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, Field, create_model

from zerofleet.presets.descriptions import description


class Plain(BaseModel):
    """Settings."""

    rate: float = 0.1
    """Share of its error
    by which a value changes."""
    rounds: int = Field(default=3, description="Rounds of a game.")
    """Not this text."""
    bare: int = 1


class Heir(Plain):
    """Settings that declare one field of the base again."""

    bare: int = 2
    """Described here alone."""


def test_a_description_is_the_docstring_below_the_field():
    assert description(Plain, "rate") == "Share of its error\nby which a value changes."


def test_a_description_given_with_the_field_comes_first():
    assert description(Plain, "rounds") == "Rounds of a game."


def test_a_field_without_docstring_has_none():
    assert description(Plain, "bare") == ""


def test_fields_are_described_where_they_were_declared_last():
    made = create_model("Made", __base__=Heir, own=(int, 1))
    assert [description(made, name) for name in ("rate", "bare", "own")] == [
        "Share of its error\nby which a value changes.",
        "Described here alone.",
        "",
    ]


def test_a_class_within_a_function_is_described():
    class Local(BaseModel):
        depth: int = 1
        """Plies."""

    assert description(Local, "depth") == "Plies."


def test_an_unknown_field_is_an_error():
    with pytest.raises(KeyError):
        description(Plain, "speed")
