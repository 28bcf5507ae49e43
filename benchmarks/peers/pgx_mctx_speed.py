"""pgx and mctx at Connect Four for `benchmarks.peers.throughput`: self-play of one batch of games, compiled by XLA.

Rules by pgx, search by `mctx.gumbel_muzero_policy`, and a residual tower in plain JAX of the same size as Zerofleet's: a stem
and blocks of two 3x3 convolutions, policy and value heads of 8 channels, a dense layer of 64. It has no norms, which inference
folds into the convolutions anyway. One move of all games is one call of one compiled function; rules, search and network stay
on the device. mctx evaluates one position in each simulation, also where the game is over, and one at the root.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.peers.rules import COLUMNS, ROWS, Seen, check_agreement
from benchmarks.peers.turns import Counts, clock_for, command_line, prepare_jax, random_openings, require_jax_on, take_turns

__all__ = ["Play", "Size", "main", "parameters", "shapes"]

PACKAGES = ("pgx", "mctx", "jax")
PLANES = 2
HEAD_CHANNELS, HIDDEN = 8, 64  # as `NetworkSettings` of the product
CHECKED_GAMES = 10
WEIGHTS_SEED, GAMES_SEED = 0, 1


@dataclass(frozen=True, slots=True)
class Size:
    """Size of the residual tower."""

    blocks: int
    channels: int


def shapes(size: Size) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the weights by name: convolutions [height, width, inputs, outputs], dense [inputs, outputs]."""
    wide, cells = size.channels, ROWS * COLUMNS
    tower = {f"block{n}_{half}": (3, 3, wide, wide) for n in range(size.blocks) for half in (1, 2)}
    return {
        "stem": (3, 3, PLANES, wide),
        **tower,
        "policy": (1, 1, wide, HEAD_CHANNELS),
        "logits": (cells * HEAD_CHANNELS, COLUMNS),
        "value": (1, 1, wide, HEAD_CHANNELS),
        "hidden": (cells * HEAD_CHANNELS, HIDDEN),
        "outcome": (HIDDEN, 1),
    }


def parameters(size: Size) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return random weights (He et al. 2015) and biases of 0 by name, float32."""
    rng = np.random.default_rng(WEIGHTS_SEED)
    found = {}
    for name, shape in shapes(size).items():
        scale = np.sqrt(2.0 / np.prod(shape[:-1]))
        found[name] = (rng.normal(0.0, scale, shape).astype(np.float32), np.zeros(shape[-1], np.float32))
    return found


@dataclass(frozen=True, slots=True)
class _Modules:
    """Packages of the peer, imported after the limit on threads."""

    jax: ModuleType
    mctx: ModuleType
    jnp: ModuleType
    game: Any
    """Connect Four of pgx."""

    @classmethod
    def load(cls) -> _Modules:
        load = importlib.import_module
        return cls(jax=load("jax"), mctx=load("mctx"), jnp=load("jax.numpy"), game=load("pgx").make("connect_four"))


class _Network:
    """Residual tower; a method is traced by XLA."""

    def __init__(self, modules: _Modules, size: Size, dtype: Any) -> None:
        self._modules = modules
        self._blocks = size.blocks
        self._dtype = dtype

    def __call__(self, weights: Any, observation: Any) -> tuple[Any, Any]:
        """Return logits [B, 7] and value [B] for the player to move, float32, from planes bool [B, 6, 7, 2]."""
        jax, jnp = self._modules.jax, self._modules.jnp
        relu = jax.nn.relu
        x = relu(self._convolved(weights["stem"], observation.astype(self._dtype)))
        for n in range(self._blocks):
            inner = relu(self._convolved(weights[f"block{n}_1"], x))
            x = relu(x + self._convolved(weights[f"block{n}_2"], inner))
        policy, value = (self._flat(relu(self._convolved(weights[name], x))) for name in ("policy", "value"))
        logits = self._dense(weights["logits"], policy)
        outcome = self._dense(weights["outcome"], relu(self._dense(weights["hidden"], value)))
        return logits.astype(jnp.float32), jnp.tanh(outcome[:, 0].astype(jnp.float32))

    def _convolved(self, layer: Any, x: Any) -> Any:
        kernel, bias = layer
        order = ("NHWC", "HWIO", "NHWC")
        return self._modules.jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=order) + bias

    @staticmethod
    def _dense(layer: Any, x: Any) -> Any:
        return x @ layer[0] + layer[1]

    @staticmethod
    def _flat(x: Any) -> Any:
        return x.reshape(x.shape[0], -1)


class Play:
    """A batch of games in which a new one replaces each finished one."""

    def __init__(self, modules: _Modules, size: Size, *, games: int, simulations: int, dtype: str) -> None:
        """Begin `games` games at random plies."""
        jax, jnp = modules.jax, modules.jnp
        self._modules = modules
        self._network = _Network(modules, size, dtype)
        self._games, self._simulations = games, simulations
        self._init, self._step = jax.vmap(modules.game.init), jax.vmap(modules.game.step)
        self._weights = jax.tree_util.tree_map(lambda array: jnp.asarray(array, dtype), parameters(size))
        self._key = jax.random.PRNGKey(GAMES_SEED)
        self._move = jax.jit(self._moved)
        self._states = self._begun(random_openings(games))
        self._moves = self._finished = 0

    def step(self) -> None:
        """Search and play one move in every game."""
        self._states, self._key, finished = self._move(self._weights, self._states, self._key)
        self._finished += int(finished)  # waits for the device
        self._moves += 1

    def counts(self) -> Counts:
        """Return the totals so far."""
        plies = self._moves * self._games
        descents = plies * (self._simulations + 1)  # and the root, each with its evaluation
        return Counts(descents, descents, plies, self._finished)

    def _begun(self, openings: Sequence[Sequence[int]]) -> Any:
        """Return the states after some moves from the start of each game."""
        jax, jnp = self._modules.jax, self._modules.jnp
        states = jax.jit(self._init)(jax.random.split(self._key, self._games))
        for ply in range(max(map(len, openings), default=0)):
            goes_on = jnp.asarray([ply < len(moves) for moves in openings])
            actions = jnp.asarray([moves[ply] if ply < len(moves) else 0 for moves in openings])
            states = self._chosen(goes_on, jax.jit(self._step)(states, actions), states)
        return states

    def _moved(self, weights: Any, states: Any, key: Any) -> tuple[Any, Any, Any]:
        """Return states after a move, key, and number of games that it finished; traced by XLA."""
        jax, mctx = self._modules.jax, self._modules.mctx
        key, for_search, for_games = jax.random.split(key, 3)
        logits, value = self._network(weights, states.observation)
        found = mctx.gumbel_muzero_policy(
            weights,
            for_search,
            mctx.RootFnOutput(prior_logits=self._masked(logits, states), value=value, embedding=states),
            self._simulated,
            self._simulations,
            invalid_actions=~states.legal_action_mask,
        )
        moved = self._step(states, found.action)
        fresh = self._init(jax.random.split(for_games, self._games))
        return self._chosen(moved.terminated, fresh, moved), key, moved.terminated.sum()

    def _simulated(self, weights: Any, _: Any, actions: Any, states: Any) -> tuple[Any, Any]:
        """Return mctx's view of a move in the tree, and the states after it; rewards are for the player who moved."""
        jnp = self._modules.jnp
        movers = states.current_player
        states = self._step(states, actions)
        logits, value = self._network(weights, states.observation)
        reward = jnp.take_along_axis(states.rewards, movers[:, None], axis=1)[:, 0]
        output = self._modules.mctx.RecurrentFnOutput(
            reward=reward,
            discount=jnp.where(states.terminated, 0.0, -1.0),  # the value below is for the other player
            prior_logits=self._masked(logits, states),
            value=jnp.where(states.terminated, 0.0, value),
        )
        return output, states

    def _masked(self, logits: Any, states: Any) -> Any:
        jnp = self._modules.jnp
        return jnp.where(states.legal_action_mask, logits, jnp.finfo(jnp.float32).min)

    def _chosen(self, first: Any, one: Any, other: Any) -> Any:
        """Return the states of `one` where `first` (bool [B]) holds, else those of `other`."""
        jnp = self._modules.jnp

        def choose(left: Any, right: Any) -> Any:
            return jnp.where(first.reshape((-1,) + (1,) * (left.ndim - 1)), left, right)

        return self._modules.jax.tree_util.tree_map(choose, one, other)


class _Rules:
    """Legal actions and winners by pgx."""

    def __init__(self, modules: _Modules) -> None:
        self._start = modules.game.init(modules.jax.random.PRNGKey(GAMES_SEED))
        self._step = modules.jax.jit(modules.game.step)

    def look(self, moves: Sequence[int]) -> Seen:
        """Return legal actions and winner after some moves."""
        *_, state = self._states(moves)
        if not bool(state.terminated):
            return Seen(tuple(np.flatnonzero(state.legal_action_mask).tolist()), None)
        rewards = np.asarray(state.rewards)
        first = int(self._start.current_player)
        return Seen((), abs(int(rewards.argmax()) - first) if rewards.any() else None)

    def _states(self, moves: Sequence[int]) -> Iterator[Any]:
        state = self._start
        yield state
        for move in moves:
            state = self._step(state, move)
            yield state


def main(arguments: Sequence[str] | None = None) -> None:
    """Take turns."""
    parser = command_line("benchmarks.peers.pgx_mctx_speed", __doc__.splitlines()[0])
    parser.add_argument("--dtype", help="number format of the network; float32 on a CPU, else bfloat16")
    chosen = parser.parse_args(arguments)
    prepare_jax(chosen.device)
    modules = _Modules.load()
    require_jax_on(chosen.device, modules.jax.default_backend())
    check_agreement("pgx", _Rules(modules).look, games=CHECKED_GAMES)
    dtype = chosen.dtype or ("float32" if chosen.device == "cpu" else "bfloat16")
    size = Size(chosen.blocks, chosen.channels)
    play = Play(modules, size, games=chosen.games, simulations=chosen.simulations, dtype=dtype)
    versions = " ".join(f"{package} {importlib.metadata.version(package)}" for package in PACKAGES)
    take_turns(play, f"{versions}, {dtype}", clock=clock_for(chosen.device))


if __name__ == "__main__":
    main()
