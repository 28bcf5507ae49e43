"""Agreement of the parts of a preset: settings of learner, self-play and gate that only make sense together.

The checks of a learner belong to its declaration (`zerofleet.presets.learners`); those of self-play are here.
"""

from __future__ import annotations

from collections.abc import Callable

from games.core import Game
from zerofleet.errors import ConfigurationError
from zerofleet.presets import Q_KINDS, GateSettings, Preset, SelfPlaySettings
from zerofleet.presets.learners import LEARNERS, LearnerDeclaration, declared, settings_of
from zerofleet.search import SearchSettings

__all__ = ["has_resignation", "require_agreement", "require_control_games", "require_one_game", "require_openings"]


def require_agreement(chosen: Preset) -> None:
    """Raise `ConfigurationError` for an unknown learner, and for parts that contradict each other."""
    learner = declared(chosen.train.learner)
    _require_action_values(chosen, learner)
    learner.require(chosen, settings_of(chosen))
    _require_served(chosen)
    _require_exploration(chosen)
    if chosen.selfplay.sync:
        _require_lockstep(chosen, learner)
    _require_measurements(chosen)


def _require_action_values(chosen: Preset, learner: LearnerDeclaration) -> None:
    """Check that learner, network and self-play are all of the values of moves, or neither learner nor self-play is."""
    mode, kind = chosen.selfplay.mode, chosen.network.kind
    if not learner.of_actions and mode != "action_values":
        return
    if not learner.of_actions or mode != "action_values" or kind not in Q_KINDS:
        raise ConfigurationError(
            f"train.learner={chosen.train.learner}, selfplay.mode={mode} and network.kind={kind}: the values of moves need all "
            f"three; set train.learner to one of {_names(lambda one: one.of_actions)}, selfplay.mode=action_values and "
            "network.kind=q_pool or q_sa"
        )


def _require_exploration(chosen: Preset) -> None:
    """Check that the settings by which exploration falls have an effect."""
    selfplay, afterstates = chosen.selfplay, chosen.afterstates
    if afterstates.epsilon_versions and (selfplay.mode, afterstates.policy) != ("action_values", "epsilon_greedy"):
        raise ConfigurationError(
            f"afterstates.epsilon_versions={afterstates.epsilon_versions} is for selfplay.mode=action_values with "
            f"afterstates.policy=epsilon_greedy, and the mode is {selfplay.mode} with {afterstates.policy}; want 0"
        )
    if selfplay.exploration_decay < 1.0 and (selfplay.mode != "afterstates" or afterstates.policy == "greedy"):
        raise ConfigurationError(
            f"selfplay.exploration_decay={selfplay.exploration_decay} reduces temperature and epsilon of play by afterstates, "
            f"and selfplay.mode={selfplay.mode} with afterstates.policy={afterstates.policy} has neither; set "
            "selfplay.mode=afterstates with policy softmax or epsilon_greedy, or 1"
        )


def _names(has: Callable[[LearnerDeclaration], bool]) -> str:
    """Return the names of the built-in learners with a property."""
    return ", ".join(name for name, one in LEARNERS.items() if has(one))


def _require_measurements(chosen: Preset) -> None:
    """Check that mode `watch` of the gate has something to take its share of."""
    in_process = chosen.selfplay.mode == "afterstates" and chosen.afterstates.evaluation == "process"
    if chosen.gate.mode == "watch" and chosen.gate.watch_of == "evaluations" and in_process:
        raise ConfigurationError(
            "gate.watch_of=evaluations takes a share of the inference server's evaluations, and self-play with "
            "afterstates.evaluation=process asks for none, so no version would be measured; set gate.watch_of=time"
        )


def _require_served(chosen: Preset) -> None:
    """Check that the frozen opponents are served, where a server evaluates them."""
    afterstates = chosen.afterstates
    by_server = chosen.selfplay.mode == "action_values" or afterstates.evaluation == "server"
    if by_server and (missing := sorted(set(afterstates.frozen) - set(chosen.models.pinned))):
        raise ConfigurationError(
            f"afterstates.opponents has version:{missing[0]}, which the inference server would not keep; set "
            f"models.pinned=[{missing[0]}]"
        )


def require_openings(gate: GateSettings, game: Game) -> None:
    """Raise `ConfigurationError` for openings of the gate that are as long as the longest game, if it or the ladder plays."""
    spec = game.spec()
    if gate.opening_plies >= spec.max_plies and (gate.mode != "off" or gate.ladder_games):
        raise ConfigurationError(
            f"gate.opening_plies={gate.opening_plies} ends every game of {spec.name}, which has at most {spec.max_plies} plies:"
            f" no match could be played; set gate.opening_plies to at most {spec.max_plies - 1}, better to a few"
        )


def has_resignation(game: Game, search: SearchSettings, selfplay: SelfPlaySettings) -> bool:
    """Return whether players may resign: in games of two players, with a tree and a threshold above -1."""
    return game.spec().num_players == 2 and selfplay.mode == "search" and search.resign_threshold > -1.0


def require_control_games(game: Game, search: SearchSettings, selfplay: SelfPlaySettings) -> None:
    """Raise `ConfigurationError` for resignation without control games: its threshold would never be calibrated."""
    if has_resignation(game, search, selfplay) and search.resign_control_share == 0.0:
        raise ConfigurationError(
            f"search.resign_control_share=0 leaves no games to calibrate search.resign_threshold={search.resign_threshold} on, "
            "so no player would resign; set a share such as 0.1, or search.resign_threshold=-1"
        )


def require_one_game(selfplay: SelfPlaySettings) -> None:
    """Raise `ConfigurationError` for settings of a worker that contradict `sync`, if that is set."""
    if not selfplay.sync:
        return
    _require_values(
        {
            "selfplay.mode": (selfplay.mode, "afterstates"),
            "selfplay.lanes": (selfplay.lanes, 1),
            "selfplay.slots": (selfplay.slots, 1),
            "selfplay.forked_opening_share": (selfplay.forked_opening_share, 0.0),
        }
    )


def _require_lockstep(chosen: Preset, learner: LearnerDeclaration) -> None:
    """Check that every game gives a version, and every version a game."""
    name = chosen.train.learner
    if not learner.in_lockstep:
        raise ConfigurationError(
            f"selfplay.sync=true needs a learner that can publish after every game, and train.learner={name} does not; "
            f"of the built-in ones: {_names(lambda one: one.in_lockstep)}"
        )
    require_one_game(chosen.selfplay)
    _require_values(
        {
            f"{name}.publish_every_games": (getattr(settings_of(chosen), "publish_every_games", None), 1),
            "gate.mode": (chosen.gate.mode, "off"),
            "warm_start.games": (chosen.warm_start.games, 0),
            "train.max_staleness": (chosen.train.max_staleness, 0),
        }
    )


def _require_values(wanted: dict[str, tuple[object, object]]) -> None:
    wrong = [f"{name}={want} (it is {got})" for name, (got, want) in wanted.items() if got != want]
    if wrong:
        raise ConfigurationError(f"selfplay.sync=true plays one game, then waits for its version; set {', '.join(wrong)}")
