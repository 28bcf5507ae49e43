"""A resource is shared so that no peer, and no number of greedy ones, leaves a newcomer nothing."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from zerofleet.rpc.security.shares import Shares, peer_of


def take_all(shares: Shares, peer: str | None) -> int:
    taken = 0
    while shares.take(peer):
        taken += 1
    return taken


def test_one_peer_gets_half_and_the_next_a_half_of_the_rest():
    shares = Shares(64)
    assert [take_all(shares, peer) for peer in ("a", "b", "c")] == [32, 16, 8]
    assert shares.taken == 56


def test_a_newcomer_finds_room_beside_many_greedy_peers():
    shares = Shares(1024)
    for _ in range(100):  # rounds, in which the greedy ones take turns
        for peer in range(50):
            shares.take(f"greedy {peer}")
    assert shares.take("newcomer")


def test_the_owner_of_the_run_may_take_all_that_is_free():
    shares = Shares(10)
    assert take_all(shares, "a") == 5
    assert take_all(shares, None) == 5


def test_units_that_do_not_fit_are_not_taken():
    shares = Shares(100)
    assert not shares.take("a", 101)
    assert shares.take("a", 40)
    assert not shares.take("a", 40)
    assert shares.take("b", 40)
    assert shares.taken == 80


@example([("a", 0), ("a", 0)])
@given(st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 50))))
def test_what_is_given_back_can_be_taken_again(requests):
    shares = Shares(100)
    held = [(peer, units) for peer, units in requests if shares.take(peer, units)]
    assert shares.taken == sum(units for _, units in held) <= 100
    for peer, units in held:
        shares.give_back(peer, units)
    assert shares.taken == 0
    assert shares._by_peer == {}  # nothing is kept of a peer that is gone
    assert take_all(shares, "a") == 50


@pytest.mark.parametrize(
    ("peer", "name"),
    [
        ("ipv4:10.0.0.7:51234", "10.0.0.7"),
        ("ipv6:%5B2001:db8:1:2:3:4:5:6%5D:80", "2001:db8:1:2::/64"),
        ("ipv6:[2001:db8:1:2:ffff::1]:80", "2001:db8:1:2::/64"),
        ("ipv6:%5B::ffff:10.0.0.7%5D:51234", "10.0.0.7"),
        ("unix:", None),
        ("unix:/run/socket", None),
    ],
)
def test_the_share_is_that_of_an_address_without_its_port(peer, name):
    assert peer_of(peer) == name
