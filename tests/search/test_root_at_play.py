"""Searches of `benchmarks.root_at_play`."""

from benchmarks.root_at_play import searches


def test_each_root_is_searched_with_each_number_of_pending_leaves():
    found = dict(searches(64, [0.3, 1.0], [1, 4]))
    assert list(found) == [
        "puct",
        "gumbel, scale 0.3",
        "gumbel, scale 1.0",
        "puct, 4 leaves",
        "gumbel, scale 0.3, 4 leaves",
        "gumbel, scale 1.0, 4 leaves",
    ]
    assert [settings.leaves_per_game for settings in found.values()] == [1, 1, 1, 4, 4, 4]
    assert [settings.root_policy for settings in found.values()] == 2 * ["puct", "gumbel", "gumbel"]
    assert {settings.simulations for settings in found.values()} == {64}


def test_the_policy_alone_is_measured_once():
    ((name, settings),) = searches(0, [0.3, 1.0], [1, 4])
    assert (name, settings.simulations) == ("policy alone", 0)
