"""OpenSpiel's Python AlphaZero at Connect Four: learning in one process, judged at given processor seconds.

    python -m benchmarks.peers.open_spiel_peer --positions positions.jsonl --out rows.jsonl --at 300,600 --settings readme

The parts are OpenSpiel's: network, update, buffer, search, game loop of an actor. Its `alpha_zero.alpha_zero` starts them as
processes; here collecting and learning alternate in one process, in the order of its learner. README.md beside this file has
the settings and lists every difference.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import importlib.metadata
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.peers.judge import Examination, Finished, Progress, command_line, examination_of, limit_threads
from benchmarks.peers.rules import Seen, check_agreement

__all__ = ["PACKAGES", "SETTINGS", "Learner", "Modules", "Settings", "main"]

PACKAGES = ("open_spiel", "jax", "flax")
CLOSE = 1e-4
"""Largest difference between the outputs of compiled and plain inference."""
CHECKED_MOVES = ((), (3,), (3, 3, 2, 4), (0, 6, 1, 5, 2, 4))
SEARCH_SEED = 0


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of `open_spiel/python/examples/alpha_zero.py`; the defaults are its own."""

    nn_api: str = "linen"
    nn_model: str = "resnet"
    nn_width: int = 256
    nn_depth: int = 2
    uct_c: float = 1.41
    max_simulations: int = 40
    train_batch_size: int = 128
    replay_buffer_size: int = 2**13
    replay_buffer_reuse: int = 4
    learning_rate: float = 1e-3
    weight_decay: float = 1e-4
    policy_epsilon: float = 0.25
    policy_alpha: float = 1.0
    temperature: float = 1.0
    temperature_drop: int = 2
    compiled: bool = False
    """Whether inference is compiled; OpenSpiel leaves it uncompiled."""

    def changed(self, **changes: int) -> Settings:
        """Return the settings with other numbers."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]


SETTINGS = {
    "readme": Settings(
        nn_depth=10,
        uct_c=2.0,
        max_simulations=100,
        train_batch_size=1024,
        replay_buffer_size=2**14,
        temperature_drop=10,
    ),
    "example": Settings(),
    "small": Settings(nn_width=64, uct_c=2.0, temperature_drop=10, compiled=True),
}
"""Settings by name: the README's command for Connect Four, the defaults, and a network that suits the budget."""


@dataclass(frozen=True, slots=True)
class Modules:
    """Parts of OpenSpiel, imported after the limit on threads."""

    alpha_zero: ModuleType
    buffer: ModuleType
    evaluator: ModuleType
    mcts: ModuleType
    utils: ModuleType
    jax: ModuleType
    game: Any
    """Connect Four of `pyspiel`."""

    @classmethod
    def load(cls) -> Modules:
        """Import the parts."""
        load, room = importlib.import_module, "open_spiel.python.algorithms"
        return cls(
            alpha_zero=load(f"{room}.alpha_zero.alpha_zero"),
            buffer=load(f"{room}.alpha_zero.replay_buffer"),
            evaluator=load(f"{room}.alpha_zero.evaluator"),
            mcts=load(f"{room}.mcts"),
            utils=load(f"{room}.alpha_zero.utils"),
            jax=load("jax"),
            game=load("pyspiel").load_game("connect_four"),
        )

    def state(self, moves: Sequence[int]) -> Any:
        state = self.game.new_initial_state()
        for move in moves:
            state.apply_action(move)
        return state

    def look(self, moves: Sequence[int]) -> Seen:
        """Return legal actions and winner after some moves by OpenSpiel's rules."""
        state = self.state(moves)
        if not state.is_terminal():
            return Seen(tuple(state.legal_actions()), None)
        returns = state.returns()
        return Seen((), returns.index(1.0) if 1.0 in returns else None)


class _CompiledModel:
    """Inference of a `flax.linen` model as one compiled function, with NumPy results."""

    def __init__(self, modules: Modules, model: Any) -> None:
        self.evaluations = 0
        """Number of evaluated positions."""
        self._model = model
        self._predict = modules.jax.jit(model._state.apply_fn, static_argnames=("training", "mutable"))
        for moves in CHECKED_MOVES:
            state = modules.state(moves)
            inputs = np.array(state.observation_tensor()), np.array(state.legal_actions_mask())
            value, policy = self.inference(*inputs)
            plain_value, plain_policy = model.inference(*inputs)
            if abs(value - float(plain_value)) > CLOSE or np.abs(policy - np.asarray(plain_policy)).max() > CLOSE:
                raise RuntimeError(f"compiled inference differs from OpenSpiel's after {moves}")

    def inference(self, observation: np.ndarray, legals_mask: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the value for the first player and the probabilities of actions, float32 [7]."""
        state = self._model._state
        variables = {"params": state.params, "batch_stats": state.batch_stats}
        self.evaluations += 1
        logits, value = self._predict(variables, observation.astype(np.float32), training=False, mutable=False)
        allowed = np.where(legals_mask, np.asarray(logits), -np.inf)
        weights = np.exp(allowed - allowed.max())
        return float(value), weights / weights.sum()


class _SilentLogger:
    """Logger that the game loop asks for."""

    def print(self, *_: Any) -> None:
        """Discard a line."""

    def opt_print(self, *_: Any) -> None:
        """Discard a line."""


class Learner:
    """One process with a model, its buffer and its bots; also the player that is judged."""

    def __init__(self, modules: Modules, settings: Settings, seed: int) -> None:
        self._modules = modules
        self._settings = settings
        self._random = np.random.RandomState(seed)
        self._model = modules.utils.api_selector(settings.nn_api).Model.build_model(
            settings.nn_model,
            modules.game.observation_tensor_shape(),
            modules.game.num_distinct_actions(),
            settings.nn_width,
            settings.nn_depth,
            settings.weight_decay,
            settings.learning_rate,
            None,
            seed=seed,
        )
        self._inference = _CompiledModel(modules, self._model) if settings.compiled else self._model
        self._buffer = modules.buffer.Buffer(settings.replay_buffer_size, seed=seed)
        self._games = self._samples = self._updates = 0
        self.forget()

    @property
    def progress(self) -> Progress:
        """Amount of self-play and training so far."""
        return Progress(self._games, self._samples, self._updates)

    @property
    def evaluations(self) -> int:
        """Number of positions that compiled inference evaluated."""
        return int(self._inference.evaluations)

    def by_policy(self, moves: Sequence[int]) -> int:
        """See `Player.by_policy`."""
        prior = self._fresh_evaluator().prior(self._modules.state(moves))
        return int(max(prior, key=lambda entry: float(entry[1]))[0])

    def by_search(self, moves: Sequence[int], simulations: int) -> int:
        """See `Player.by_search`."""
        random = np.random.RandomState(SEARCH_SEED)
        bot = self._bot(self._fresh_evaluator(), simulations, random=random, noise=None)
        return int(bot.step(self._modules.state(moves)))

    def learn(self, examination: Examination) -> None:
        """Collect and learn in turn; raises `Finished` at the end of the budget."""
        settings = self._settings
        while True:
            wanted = self._samples + settings.replay_buffer_size // settings.replay_buffer_reuse
            while self._samples < wanted:
                self.play()
                examination.look(self, self.progress)
            for _ in range(len(self._buffer) // settings.train_batch_size):
                self._model.update(self._buffer.sample(settings.train_batch_size))
                self._updates += 1
                examination.look(self, self.progress)
            self.forget()

    def play(self) -> None:
        """Play one game and store its positions."""
        settings = self._settings
        trajectory = self._modules.alpha_zero._play_game(
            _SilentLogger(), self._games, self._modules.game, self._bots, settings.temperature, settings.temperature_drop
        )
        outcome = np.float32(trajectory.returns[0])  # the model's value is for the first player
        for state in trajectory.states:
            self._buffer.append(
                self._modules.utils.TrainInput(
                    observation=np.array(state.observation, dtype=np.float32),
                    legals_mask=np.array(state.legals_mask, dtype=np.bool_),
                    policy=np.array(state.policy, dtype=np.float32),
                    value=outcome,
                )
            )
        self._games += 1
        self._samples += len(trajectory.states)

    def forget(self) -> None:
        """Replace the evaluator, whose cache belongs to earlier weights, and the bots that use it."""
        evaluator, settings = self._fresh_evaluator(), self._settings
        noise = (settings.policy_epsilon, settings.policy_alpha)
        self._bots = [self._bot(evaluator, settings.max_simulations, random=self._random, noise=noise) for _ in range(2)]

    def _fresh_evaluator(self) -> Any:
        return self._modules.evaluator.AlphaZeroEvaluator(self._modules.game, self._inference)

    def _bot(
        self, evaluator: Any, simulations: int, *, random: np.random.RandomState, noise: tuple[float, float] | None
    ) -> Any:
        """Return a bot as `alpha_zero._init_bot` does, with a seeded generator."""
        return self._modules.mcts.MCTSBot(
            self._modules.game,
            self._settings.uct_c,
            simulations,
            evaluator,
            solve=False,
            random_state=random,
            dirichlet_noise=noise,
            child_selection_fn=self._modules.mcts.SearchNode.puct_value,
            dont_return_chance_node=True,
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Learn until the last mark and append a row for each."""
    module = "benchmarks.peers.open_spiel_peer"
    parser = command_line(module, __doc__.splitlines()[0], settings=SETTINGS, default="readme")
    chosen = parser.parse_args(arguments)
    limit_threads()
    version = " ".join(f"{package} {importlib.metadata.version(package)}" for package in PACKAGES)
    examination = examination_of(chosen, "open_spiel", version)
    modules = Modules.load()
    with examination.clock.left_out():
        check_agreement("OpenSpiel", modules.look)
    np.random.seed(chosen.seed)
    with contextlib.suppress(Finished):
        Learner(modules, SETTINGS[chosen.settings], chosen.seed).learn(examination)


if __name__ == "__main__":
    main()
