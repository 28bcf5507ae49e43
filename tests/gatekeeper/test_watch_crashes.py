"""SIGKILL between every two effects of a promotion at once, a measurement and a rollback: the next start finishes the work."""

import pytest
from killed_process import MODEL, PROMOTION, fill, kill, result_of, run

VICTIM = "watch_victim"

# Crash points in the order in which a promotion at once and a rollback pass them, and the champion they leave behind. The
# processes of one list die one after another, each in the work that its predecessor left; a new list begins where a restart
# skips the next point.
DEATHS = [
    [*PROMOTION[:4], ("gatekeeper_after_verdict", 2)],
    [
        ("gatekeeper_after_champion", 2),
        ("gatekeeper_after_result", 2),
        ("gatekeeper_after_result:7", 2),
        ("gatekeeper_before_rollback", 2),
        ("gatekeeper_after_epoch_before_champion", 2),
        ("store_before_champion", 2),
        ("store_after_champion_before_history", 1),
    ],
    [
        ("gatekeeper_before_verdict", 2),
        ("gatekeeper_after_champion", 1),
        ("gatekeeper_after_rollback", 1),
        ("gatekeeper_after_verdict", 1),
    ],
]


@pytest.fixture(scope="session")
def expected(tmp_path_factory, fakes):
    """Output of a run without a kill."""
    directory = tmp_path_factory.mktemp("undisturbed")
    fill(fakes[0](directory / "models"), 3)
    return result_of(run(VICTIM, directory))


@pytest.mark.slow
@pytest.mark.parametrize("deaths", DEATHS, ids=["promotion", "rollback", "after the rollback"])
def test_kills_leave_a_valid_champion_and_the_weaker_version_is_rolled_back(tmp_path, models, expected, deaths):
    fill(models, 3)
    for point, champion in deaths:
        store = kill(VICTIM, tmp_path, point, champion=champion)
    finished = result_of(run(VICTIM, tmp_path))
    assert finished["statuses"] == expected["statuses"] == {"2": "weaker", "3": "promoted"}
    assert finished["matches"] == expected["matches"]  # as if nothing had happened: no game counted twice, none lost
    assert finished["epochs"] == sorted(set(finished["epochs"]))
    # The rollback happened once, and version 2 was not promoted again.
    assert [c.version for c in store.history(MODEL)] == [1, 2, 1, 3]
