"""A whole cluster is hurt in every way an operator fears; at the end every published game is counted exactly once.

The tests share one cluster and run in the order of the file: each leaves it healthy, the last one counts.
"""

import time

import pytest

import games
from zerofleet.game_log import GameLog
from zerofleet.model_store import ModelStore
from zerofleet.naming import model_name

GAME = "connect_four"
SERVICES = ("redis", "inference_server", "gatekeeper", "trainer", "selfplay_worker")
COLD_START_S = 180.0
PARTITION_S = 60.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def test_it_trains_a_candidate_within_three_minutes_and_promotes_one(cluster):
    cluster.compose("up", "--detach")
    took_s = cluster.wait(
        "a trained candidate",
        lambda: cluster.metrics("trainer").total("zerofleet_candidate_version") >= 2,
        seconds=COLD_START_S,
    )
    print(f"first trained candidate {took_s:.0f} s after the containers were started")
    cluster.wait("a promotion after the first champion", lambda: cluster.champion() >= 2, seconds=600)


@pytest.mark.parametrize("service", SERVICES)
def test_it_recovers_when_a_service_is_killed(cluster, service):
    before = cluster.container(service).attrs["RestartCount"]
    cluster.kill(service)
    cluster.wait("the engine starts it again", lambda: cluster.container(service).attrs["RestartCount"] > before, seconds=60)
    cluster.wait_for_recovery()


def test_it_recovers_when_redis_is_restarted(cluster):
    cluster.container("redis").restart()
    cluster.wait_for_recovery()


def test_it_recovers_when_the_trainer_was_cut_off_for_a_minute(cluster):
    trainer = cluster.container("trainer")
    networks = [cluster.docker.networks.get(f"{cluster.project}_{name}") for name in ("fleet", "stream")]
    for network in networks:
        network.disconnect(trainer)
    over_s = time.monotonic() + PARTITION_S
    cluster.wait("the minute is over", lambda: time.monotonic() >= over_s, seconds=2 * PARTITION_S)
    for network in networks:
        network.connect(trainer, aliases=["trainer"])
    cluster.wait_for_recovery()


def test_it_recovers_when_the_inference_server_is_rolled(cluster):
    before = cluster.container("inference_server").id
    cluster.compose("up", "--detach", "--no-deps", "--force-recreate", "inference_server")
    assert cluster.container("inference_server").id != before
    cluster.wait_for_recovery()


def test_every_published_game_is_counted_exactly_once_and_the_champion_is_valid(cluster, tmp_path):
    cluster.compose("stop", "selfplay_worker")

    def is_drained():
        page = cluster.metrics("trainer")
        return [page.value(f"zerofleet_stream_{what}_entries") for what in ("lag", "pending", "dead")] == [0, 0, 0]

    cluster.wait("the stream is empty", is_drained, seconds=180)
    cluster.compose("stop", "trainer")

    sent = cluster.published(tmp_path)
    with GameLog.open(cluster.copy("trainer", "/data/replay", tmp_path), writer=False) as log:
        stored = list(log.uids())
    assert sent
    assert len(stored) == len(set(stored))
    assert set(stored) == set(sent)

    game = games.core.make(GAME)
    store = ModelStore(cluster.copy("gatekeeper", "/data/models", tmp_path))
    champion = store.champion(model_name(game))
    assert champion is not None
    store.verify(model_name(game), champion.version, game=game)
