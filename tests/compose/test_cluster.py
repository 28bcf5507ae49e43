"""A whole cluster is hurt in every way an operator fears; at the end every published game is counted exactly once.

The tests share one cluster and run in the order of the file: each leaves it healthy, the last one counts.
"""

import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import quote

import pytest

import games
from zerofleet.contracts.naming import model_name
from zerofleet.storage.game_log import GameLog
from zerofleet.storage.model_store import DirectoryStore

GAME = "connect_four"
SERVICES = ("redis", "inference_server", "gatekeeper", "trainer", "selfplay_worker")
COLD_START_S = 180.0  # what is wanted; a busy machine takes longer, and that is no fault of the cluster
# Set on a machine that does nothing else; elsewhere five times as long passes.
ENFORCED = bool(os.environ.get("ZEROFLEET_COLD_START"))
PARTITION_S = 60.0
BOARD = Path(__file__).parents[2] / "deploy/monitoring/grafana/dashboards/zerofleet.json"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def test_a_cluster_trains_and_promotes_a_candidate(cluster):
    began_s = time.monotonic()
    cluster.compose("up", "--detach")
    up_s = time.monotonic() - began_s
    cluster.wait(
        "a trained candidate",
        lambda: cluster.metrics("trainer").total("zerofleet_candidate_version") >= 2,
        seconds=5 * COLD_START_S,
    )
    took_s = time.monotonic() - began_s
    print(f"compose up took {up_s:.0f} s; first trained candidate {took_s:.0f} s after it began; wanted: {COLD_START_S:.0f} s")
    assert took_s < COLD_START_S or not ENFORCED
    cluster.wait("a promotion after the first champion", lambda: cluster.champion() >= 2, seconds=600)


def test_the_command_line_of_the_host_reaches_the_cluster(cluster):
    opinion = zerofleet("evaluate", GAME, "--address", cluster.address("inference_server", 8001))
    assert opinion["model_version"] >= 1
    assert len(opinion["moves"]) == 7

    listed = zerofleet("models", "list", GAME, "--address", cluster.address("gatekeeper", 8002))
    assert [row["status"] for row in listed["versions"]].count("champion") == 1


def test_the_pages_of_the_profile_ui_answer_on_loopback_and_list_the_run(cluster):
    cluster.compose("--profile", "ui", "up", "--detach", "ui")

    def answers():
        try:
            return cluster.page("/login")[0] == 200
        except OSError:  # the server does not listen yet
            return False

    cluster.wait("the pages answer", answers, seconds=180)
    token = token_of_the_pages(cluster)
    assert cluster.page("/api/v1/runs") == (
        401,
        '{"error":"a token is required: enter it at /login, or send it as Authorization: Bearer"}',
    )

    status, text = cluster.page("/api/v1/runs", token)
    listed = json.loads(text)
    assert (status, listed["unreadable"]) == (200, [])
    (run,) = listed["runs"]
    assert run["game"] == GAME
    assert run["champion"] >= 1
    home = f"/runs/{quote(run['name'], safe='')}"
    for page in ("overview", "curves", "ladder", "models", "matches", "games", "watch", "cluster"):
        status, text = cluster.page(f"{home}/{page}", token)
        assert (status, run["name"] in text) == (200, True), page
    assert json.loads(cluster.page(f"/api/v1{home}/games", token)[1])["total"] >= 1
    order = {"version": 1, "champion": run["champion"]}
    refused = cluster.page(f"/api/v1{home}/champion", token, order)
    assert (refused[0], "only an operator" in refused[1]) == (403, True)


def test_a_person_plays_against_the_champion_on_the_pages_of_the_cluster(cluster):
    token = token_of_the_pages(cluster)
    (run,) = json.loads(cluster.page("/api/v1/runs", token)[1])["runs"]
    wish = {"game": GAME, "run": run["name"], "opponent": "champion", "simulations": 8, "seat": 2}
    status, begun = cluster.page("/api/v1/tables", token, wish)
    assert status in {200, 201}, begun
    moved = json.loads(cluster.page(f"/api/v1/tables/{json.loads(begun)['id']}?wait=1", token)[1])
    assert (moved["fault"], len(moved["moves"]), moved["is_turn"]) == ("", 1, True)


def token_of_the_pages(cluster):
    code, output = cluster.container("ui").exec_run(["cat", "/run/credentials/ui/token"])
    assert code == 0
    return output.decode().strip()


def test_prometheus_finds_every_service_and_evaluates_every_alert(cluster):
    cluster.compose("up", "--detach", "prometheus")

    def all_up():
        found = (cluster.prometheus("targets", state="active") or {"activeTargets": []})["activeTargets"]
        return {target["labels"]["job"]: target["health"] for target in found} == dict.fromkeys(set(SERVICES) - {"redis"}, "up")

    cluster.wait("every service is scraped", all_up, seconds=180)

    def rules():
        return [rule for group in cluster.prometheus("rules")["groups"] for rule in group["rules"]]

    cluster.wait("every alert was evaluated", lambda: all(rule["health"] == "ok" for rule in rules()), seconds=180)


@pytest.mark.parametrize("service", SERVICES)
def test_a_cluster_recovers_when_a_service_is_killed(cluster, service):
    before = cluster.container(service).attrs["RestartCount"]
    cluster.kill(service)
    cluster.wait("the engine starts it again", lambda: cluster.container(service).attrs["RestartCount"] > before, seconds=60)
    cluster.wait_for_recovery()


def test_a_cluster_recovers_when_redis_is_restarted(cluster):
    cluster.container("redis").restart()
    cluster.wait_for_recovery()


def test_a_cluster_recovers_when_the_trainer_was_cut_off_for_a_minute(cluster):
    trainer = cluster.container("trainer")
    networks = [cluster.docker.networks.get(f"{cluster.project}_{name}") for name in ("fleet", "stream")]
    for network in networks:
        network.disconnect(trainer)
    over_s = time.monotonic() + PARTITION_S
    cluster.wait("the minute is over", lambda: time.monotonic() >= over_s, seconds=2 * PARTITION_S)
    for network in networks:
        network.connect(trainer, aliases=["trainer"])
    cluster.wait_for_recovery()


def test_a_cluster_recovers_when_the_inference_server_is_replaced(cluster):
    before = cluster.container("inference_server").id
    cluster.compose("up", "--detach", "--no-deps", "--force-recreate", "inference_server")
    assert cluster.container("inference_server").id != before
    cluster.wait_for_recovery()


def test_a_backup_taken_while_games_arrive_is_complete(cluster, tmp_path):
    def do(command):
        code, output = cluster.container("gatekeeper").exec_run(command)
        assert code == 0, output.decode()
        return output.decode()

    stored = cluster.games_stored()
    do("zerofleet backup /data --to /backups")
    (taken,) = do("ls /backups").split()
    do(f"zerofleet restore /backups/{taken} /backups/again")
    again = cluster.copy("gatekeeper", "/backups/again", tmp_path)
    with GameLog.open(again / "replay", writer=False) as log:
        assert len(set(log.uids())) >= stored
    require_valid_champion(again / "models")


def test_every_panel_of_the_dashboard_has_data(cluster):
    asked = {
        panel["title"]: [target["expr"] for target in panel["targets"]] for panel in json.loads(BOARD.read_text())["panels"]
    }
    empty = dict(asked)

    def is_shown():
        for title in [title for title, queries in empty.items() if all(has_data(cluster, query) for query in queries)]:
            del empty[title]
        return not empty

    try:
        cluster.wait("data in every panel", is_shown, seconds=300)
    except AssertionError:
        pytest.fail(f"no data in {sorted(empty)}")


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

    require_valid_champion(cluster.copy("gatekeeper", "/data/models", tmp_path))


def require_valid_champion(models):
    """Fail unless the store has a champion whose files are those of its manifest."""
    game = games.core.make(GAME)
    store = DirectoryStore(models)
    champion = store.champion(model_name(game))
    assert champion is not None
    store.verify(model_name(game), champion.version, game=game)


def zerofleet(*arguments):
    """Run the command line outside of the containers; return what it says as JSON."""
    command = [Path(sys.executable).with_name("zerofleet"), *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def has_data(cluster, query):
    """Whether a query has a number just now."""
    found = cluster.prometheus("query", query=query)
    return found is not None and any(math.isfinite(float(series["value"][1])) for series in found["result"])
