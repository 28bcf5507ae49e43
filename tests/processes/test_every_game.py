"""Every game trains: the whole loop in its smallest form, from nothing to a network that plays after training.

As processes: a game of three players and hidden information; all other tests of processes play tic-tac-toe, a duel of open
information. The other games: the same lane, intake, trainer and network file in this process, and a match of the last version.
What a gate and a wire do is the same for all games, and is tested with tic-tac-toe.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

import games
from laboratory.loop import Loop
from zerofleet.contracts.naming import model_name
from zerofleet.presets import preset
from zerofleet.presets.trial import Trial
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.strength.learning.judges import MatchJudge
from zerofleet.testing import built_in_games

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1100)]  # a machine that is loaded takes minutes

StartRun = Callable[..., AbstractAsyncContextManager[Any]]
CheckPromises = Callable[..., Any]

# A few games side by side, a few simulations a move: long games too are over within seconds. What is tested is that the
# loop goes round, so the gate lets nearly everything pass.
MINIMAL = (
    "train.batch_size=32",
    "train.min_samples=100",
    "train.samples_per_candidate=100",
    "search.full_search_share=1",
    "selfplay.lanes=1",
    "selfplay.slots=4",
    "gate.max_pairs=1",
    "gate.ladder_games=0",
    "gatekeeper.match_slots=8",
    "search.simulations=4",
    "search.fast_simulations=2",
    "gate.simulations=2",
    "gate.mode=share",
    "gate.share=0.01",
)


IN_A_FLEET = "take_six"


async def test_a_game_of_three_players_and_hidden_information_trains_until_a_candidate_is_promoted(
    start_run: StartRun, check_promises: CheckPromises, tmp_path: Path
) -> None:
    game = games.make(IN_A_FLEET)
    assert (game.spec().num_players, game.spec().information) == (3, "hidden")
    words = [word for item in MINIMAL for word in ("--set", item)]
    async with start_run("--seed", "1", *words, game=IN_A_FLEET) as run:
        await run.until("candidate 1 promoted: first champion")
        await run.until(r"candidate [2-9]\d* promoted")
        text = await run.end()
    assert run.process.returncode == 0, text
    assert "error" not in text.lower(), text
    champion = DirectoryStore(tmp_path / "run" / "models").champion(model_name(game))
    assert champion is not None
    assert champion.version > 1
    await check_promises(run.paths, model_name(game))


@pytest.mark.parametrize("name", [name for name in built_in_games() if name != IN_A_FLEET])
async def test_every_other_game_trains_in_one_process_until_a_trained_version_plays(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laboratory.loop.TURN_GAMES", 2)  # games of Abalone have hundreds of samples
    game, events = games.make(name), list[dict[str, Any]]()
    settings = {
        "train.batch_size": "32",
        "train.min_samples": "100",
        "train.samples_per_candidate": "100",
        "train.candidate_growth": "0",
        "search.full_search_share": "1",
        "selfplay.lanes": "1",
        "selfplay.slots": "4",
    }
    if preset(game, "tiny").search.simulations:
        settings |= {"search.simulations": "4", "search.fast_simulations": "2"}
    trial = Trial(game=name, preset="tiny", settings=settings, seed=1, samples=300, judge_every=300.0)
    judge = MatchJudge(game, ["random"], games=2, simulations=2, seed=1, opening_plies=2)
    await Loop(trial, tmp_path, judge=judge, emit=events.append).run()
    judged, end = [event for event in events if event["event"] != "progress"]
    assert end["version"] > 1
    assert end["steps"] > 0
    assert all(0 <= measure["value"] <= 1 for measure in judged["measures"])
    DirectoryStore(tmp_path / "models").verify(model_name(game), end["version"], game=game)
