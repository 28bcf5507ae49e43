"""SIGKILL between every two effects of a promotion at once, a measurement and a rollback: the next start finishes the work."""

import pytest
from killed_process import MODEL, PROMOTION, fill, kill, result_of, run

VICTIM = "watch_victim.py"

# In the order in which a promotion at once and a rollback pass them; the champion they leave behind.
POINTS = [
    *PROMOTION,
    ("gatekeeper_after_result", 2),
    ("gatekeeper_after_result:7", 2),
    ("gatekeeper_before_rollback", 2),
    ("gatekeeper_after_epoch_before_champion:2", 2),
    ("store_before_champion:2", 2),
    ("store_after_champion_before_history:2", 1),
    ("gatekeeper_after_champion:2", 1),
    ("gatekeeper_after_rollback", 1),
    ("gatekeeper_after_verdict:2", 1),
]


@pytest.fixture(scope="session")
def expected(tmp_path_factory, fakes):
    """Output of a run without a kill."""
    directory = tmp_path_factory.mktemp("undisturbed")
    fill(fakes[0](directory / "models"), 3)
    return result_of(run(VICTIM, directory))


@pytest.mark.slow
@pytest.mark.parametrize(("point", "champion"), POINTS)
def test_a_kill_leaves_a_valid_champion_and_the_weaker_version_is_rolled_back(tmp_path, models, expected, point, champion):
    fill(models, 3)
    store = kill(VICTIM, tmp_path, point, champion=champion)
    finished = result_of(run(VICTIM, tmp_path))
    assert finished["statuses"] == expected["statuses"] == {"2": "weaker", "3": "promoted"}
    assert finished["matches"] == expected["matches"]  # as if nothing had happened: no game counted twice, none lost
    assert finished["epochs"] == sorted(set(finished["epochs"]))
    # The rollback happened once, and version 2 was not promoted again.
    assert [c.version for c in store.history(MODEL)] == [1, 2, 1, 3]
