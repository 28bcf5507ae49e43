"""Play the match of a ladder as the gatekeeper does; print, as JSON, what its event loop loaded or compiled meanwhile."""

import asyncio
import json
import sys
from pathlib import Path

import numpy as np

from games.core import make
from zerofleet.agents import make_agent
from zerofleet.evaluators.base import Evaluation
from zerofleet.evaluators.uniform import UniformEvaluator
from zerofleet.strength.matches import MatchSettings, MatchTerms, Player, Scoreboard, play_games

sys.path.insert(0, str(Path(__file__).parents[1]))

from event_loop import watch


class ReceivedAnswers:
    """Uniform evaluations in memory that cannot be written, like those of a message."""

    def __init__(self, game):
        self._uniform = UniformEvaluator(game.spec().num_players)

    async def evaluate(self, batch, *, version):
        answer = await self._uniform.evaluate(batch, version=version)
        value = np.frombuffer(answer.value.tobytes(), np.float32).reshape(answer.value.shape)
        return Evaluation(answer.policy, value, version)


async def main():
    game = make("tic_tac_toe")
    terms = MatchTerms(
        match_id="ladder/model:1/alpha_beta:1",
        game=game,
        players=(Player.named("model:1"), Player.named("alpha_beta:1")),
        seed=1,
        opening_plies=1,
        max_groups=2,
    )
    board, seen = Scoreboard(terms), watch()
    settings = MatchSettings(simulations=4, slots=2)
    async for result in play_games(
        game, board.open_pairings(), ReceivedAnswers(game), settings=settings, make_agent=make_agent
    ):
        board.record(result)
    print(json.dumps({"games": len(board.results()), "on the event loop": seen}))


if __name__ == "__main__":
    asyncio.run(main())
