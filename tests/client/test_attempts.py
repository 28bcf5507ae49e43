"""When a failed call is repeated, by a clock of the test."""

from __future__ import annotations

import importlib

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture
def attempts_of(library):
    """Return a function that makes attempts of ten seconds, and the clock that they read."""
    now = [100.0]
    module = importlib.import_module("zerofleet_client.attempts")
    return lambda: (module.Attempts(10.0, clock=lambda: now[0]), now)


def test_an_overload_is_retried_until_no_pause_fits(attempts_of, library):
    attempts, now = attempts_of()
    for _ in range(5):
        assert 0 <= attempts.pause_s(library.Overloaded("full")) <= 2.0
    now[0] += 10.0
    assert attempts.left_s() == 0.0
    with pytest.raises(library.Overloaded, match="full"):
        attempts.pause_s(library.Overloaded("full"))


def test_a_last_attempt_without_an_answer_is_reported_as_the_overload_before(attempts_of, library):
    attempts, now = attempts_of()
    attempts.pause_s(library.Overloaded("full"))
    now[0] += 11.0
    with pytest.raises(library.Overloaded, match="full"):
        attempts.pause_s(library.Unavailable("no answer in time"))


@pytest.mark.parametrize("name", ["Unavailable", "InvalidRequest", "PermissionRefused", "ModelNotFound"])
def test_other_errors_are_final(attempts_of, library, name):
    attempts, _ = attempts_of()
    attempts.pause_s(library.Overloaded("full"))
    error = getattr(library, name)("as it is")
    with pytest.raises(type(error), match="as it is"):
        attempts.pause_s(error)
