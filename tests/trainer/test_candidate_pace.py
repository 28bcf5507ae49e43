"""How far apart candidates are."""

import pytest

from trainer.candidates import samples_between_candidates
from zerofleet.presets import TrainSettings


@pytest.mark.parametrize(
    ("samples", "growth", "wanted"),
    [(0, 0.1, 20_000), (150_000, 0.1, 20_000), (200_000, 0.1, 20_000), (1_000_000, 0.1, 100_000), (1_000_000, 0.0, 20_000)],
)
def test_candidates_come_at_a_steady_pace_first_and_then_as_the_run_grows(samples, growth, wanted):
    settings = TrainSettings(samples_per_candidate=20_000, candidate_growth=growth)
    assert samples_between_candidates(samples, settings) == wanted
