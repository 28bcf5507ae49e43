"""Game at the terminal: the user on one seat, an opponent on the others.

The user sees the view of their seat: no other hand, and a secret choice of the others only after its round. The session owns
the moves and the dialogue; opponent and adviser are injected.
"""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.table import Table
from rich.text import Text

from games import core
from games.core import Game, State
from games.errors import GameError, IllegalMove
from games.notation import legal_names
from games.positions import changed_parameters, final_scores, move_names, parameters_text, read_moves, replay
from zerofleet.cli import screen
from zerofleet.cli.play.board import colour_board, player_name, player_style
from zerofleet.contracts.set_options import set_options
from zerofleet.errors import InvalidRequest, ZerofleetError
from zerofleet.library.hints import outlook_of
from zerofleet.search import RootAnalysis

__all__ = ["Adviser", "Opponent", "Session"]

HINTS = 5
COMMANDS = {
    "MOVE": "play it, also where a command has the same name in the same case; UNDO is then the command, undo the move",
    "undo": "take back your last move and the reply",
    "hint": "show the best moves with their evaluation",
    "moves": "list the legal moves",
    "setup M1,M2,...": "start again from the position after these moves; without moves from the start",
    "resign": "give up the game",
    "save FILE": "write game, seat and moves to a JSON file",
    "help or ?": "show this list",
    "quit": "leave the game, as exit, q and Ctrl-D do",
}


class Opponent(Protocol):
    """Player of the seats that are not the user's."""

    @property
    def name(self) -> str:
        """Display name."""
        ...

    async def choose(self, moves: Sequence[int], *, seed: int) -> int:
        """Return a legal move after `moves`. Cancellation: nothing is kept."""
        ...


class Adviser(Protocol):
    """Source of analyses for evaluation bar and hints."""

    @property
    def title(self) -> str:
        """Source of the analysis, such as `champion 7, 100 simulations`."""
        ...

    async def analyse(self, moves: Sequence[int], *, seed: int) -> RootAnalysis:
        """Return the searched position after `moves`. Cancellation: nothing is kept."""
        ...


class Session:
    """Interactive session. `play` returns when the user quits."""

    def __init__(
        self,
        game: Game,
        opponent: Opponent,
        adviser: Adviser | None,
        *,
        seat: int,
        seed: int,
        runner: asyncio.Runner,
        console: Console,
        moves: Sequence[int] = (),
    ) -> None:
        """Create it; `moves` lead to the first position."""
        self.moves: list[int] = list(moves)
        self._game = game
        self._opponent = opponent
        self._adviser = adviser
        self._seat = seat
        self._seed = seed
        self._runner = runner
        self._console = console
        self._analysis: RootAnalysis | None = None
        self._told = len(self.moves)  # plies already reported to the user
        self._resigned = False

    def play(self, ask: Callable[[str], str]) -> None:
        """Run the dialogue; `ask` shows a prompt and returns the typed line, and its EOFError ends the session."""
        example = next(iter(legal_names(self._game, self._state())), None)
        self._say("type help for the commands" if example is None else f"type a move such as {example}, or help")
        self._continue()
        while True:
            over = self._is_over(self._state())
            try:
                typed = ask("undo, again or quit> " if over else "your move> ").strip()
            except EOFError:
                return
            if typed.lower() in {"quit", "exit", "q"} and not self._is_move(typed):
                return
            if typed:
                self._obey(typed)

    def _obey(self, typed: str) -> None:
        """Execute one line; an error, such as that of a server that is away, is reported and changes nothing."""
        before = list(self.moves), self._told, self._seed, self._resigned, self._analysis
        try:
            self._execute(typed)
        except (ZerofleetError, GameError) as error:
            self.moves, self._told, self._seed, self._resigned, self._analysis = before
            self._say(str(error), style="red")

    def _execute(self, typed: str) -> None:
        commands = {
            "undo": self._undo,
            "hint": self._hint,
            "moves": self._list_moves,
            "help": self._help,
            "?": self._help,
            "again": self._again,
            "resign": self._resign,
        }
        is_move = self._is_move(typed)
        command = commands.get(typed.lower())
        if command is not None and not is_move:
            command()
            return
        word, _, rest = typed.partition(" ")
        if word.lower() in ("save", "setup") and not is_move:
            (self._save if word.lower() == "save" else self._set_up)(rest.strip())
            return
        if self._resigned:
            self._say("you have resigned; undo, again or quit", style="red")
            return
        state = self._state()
        try:
            action = self._game.parse_action(state, typed)
        except IllegalMove as error:
            self._say(str(error), style="red")
            return
        self.moves.append(action)
        self._continue()

    def _is_move(self, typed: str) -> bool:
        """Return whether a text is the name of a legal move, which goes before the command of that name in the same case."""
        return not self._resigned and typed in legal_names(self._game, self._state())

    def _continue(self) -> None:
        """Play the other seats until the user's turn or the end of the game, then show the position."""
        self._analysis = None
        state = self._state()
        while not core.is_over(self._game, state) and core.to_move(self._game, state) != self._seat:
            self.moves.append(self._runner.run(self._opponent.choose(self.moves, seed=self._seed)))
            state = self._state()
        if not core.is_over(self._game, state) and self._adviser is not None:
            self._analysis = self._runner.run(self._adviser.analyse(self.moves, seed=self._seed))
        self._show(state, "\n".join(self._news(state)))

    def _show(self, state: State, said: str) -> None:
        self._console.print()
        self._console.print(colour_board(self._game, state, self._seat))
        self._console.print()
        if said:
            self._say(said, style="")
        if core.is_over(self._game, state):
            self._show_result(state)
            return
        if self._analysis is not None and self._adviser is not None:
            self._console.print(self._evaluation_line(self._analysis, self._adviser.title))
        else:
            self._console.print(Text.assemble("you are ", player_name(self._game, self._seat)))

    def _news(self, state: State) -> list[str]:
        """Return the moves of the others not yet reported, without those still secret."""
        secret = -1 if core.is_over(self._game, state) else core.round_of(self._game, state)
        said = []
        while self._told < len(self.moves):
            before = self._state(self._told)
            if secret >= 0 and core.round_of(self._game, before) == secret:
                break
            mover, action = core.to_move(self._game, before), self.moves[self._told]
            if mover != self._seat:
                name, move = player_name(self._game, mover).plain, self._game.action_name(before, action)
                said.append(f"{name} ({self._opponent.name}) plays {move}")
            self._told += 1
        return said

    def _evaluation_line(self, analysis: RootAnalysis, title: str) -> Text:
        """Return the evaluation bar from the user's point of view."""
        value = float(analysis.value[self._seat])
        bar = screen.value_bar(value, style=player_style(self._seat))
        return Text.assemble(
            "you are ", player_name(self._game, self._seat), " ", bar, (f" {value:+.2f}", "bold"), (f"  {title}", "dim")
        )

    def _show_result(self, state: State) -> None:
        scores = final_scores(self._game, state)
        best = [seat for seat, score in enumerate(scores) if score == max(scores)]
        names = " and ".join("you" if seat == self._seat else player_name(self._game, seat).plain for seat in best)
        if len(best) == len(scores):
            text, style = "A draw.", "bold"
        elif len(best) > 1:
            text, style = f"The first place is shared by {names}.", "bold"
        elif best == [self._seat]:
            text, style = "You win.", "bold green"
        else:
            text, style = f"{names} ({self._opponent.name}) wins.", "bold red"
        self._say(text, style=style)
        if len(scores) > 2:
            self._say(
                "scores: " + "   ".join(f"{player_name(self._game, s).plain} {score:+g}" for s, score in enumerate(scores)),
                style="",
            )
        self._say(f"moves: {','.join(self._names())}")

    def _is_over(self, state: State) -> bool:
        return self._resigned or core.is_over(self._game, state)

    def _resign(self) -> None:
        if self._is_over(self._state()):
            self._say("the game is over", style="red")
            return
        self._resigned = True
        others = " and ".join(player_name(self._game, s).plain for s in range(self._game.spec().num_players) if s != self._seat)
        self._say(f"You resign against {others} ({self._opponent.name}).", style="bold red")
        self._say(f"moves: {','.join(self._names()[: self._told])}")  # without secret ones: undo takes the resignation back

    def _set_up(self, text: str) -> None:
        try:
            moves = read_moves(self._game, text, self._seed)
        except GameError as error:
            self._say(str(error), style="red")
            return
        self.moves, self._told, self._resigned = moves, len(moves), False
        self._continue()

    def _save(self, name: str) -> None:
        if not name:
            self._say("name a file: save FILE", style="red")
            return
        state = self._state()
        saved = {
            "game": self._game.spec().name,
            "parameters": parameters_text(self._game),
            "seed": self._seed,
            "seat": self._seat + 1,
            "opponent": self._opponent.name,
            "moves": self._names(),
            "resigned": self._resigned,
            "scores": [float(s) for s in final_scores(self._game, state)] if core.is_over(self._game, state) else None,
        }
        try:
            with Path(name).expanduser().open("x", encoding="utf-8") as file:  # never over another file
                file.write(json.dumps(saved, indent=2) + "\n")
        except (OSError, RuntimeError) as error:  # the latter for ~user without a home
            reason = error.strerror if isinstance(error, OSError) else error
            self._say(f"{name} cannot be written: {reason}", style="red")
            return
        said = f"wrote {name}; continue against the same --opponent with: {self._command()}"
        self._console.print(said, style="dim", markup=False, highlight=False, soft_wrap=True)  # one line, to be copied

    def _command(self) -> str:
        """Return the command line that begins with this position, for a shell."""
        words = ["zerofleet", "play", self._game.spec().name, *set_options(changed_parameters(self._game))]
        words += ["--seat", str(self._seat + 1), "--seed", str(self._seed)]
        return shlex.join([*words, "--moves", ",".join(self._names())] if self.moves else words)

    def _undo(self) -> None:
        if self._resigned:
            self._resigned = False
            self._say("you take the resignation back")
            return
        mine = [ply for ply in range(len(self.moves)) if core.to_move(self._game, self._state(ply)) == self._seat]
        if not mine:
            self._say("you have no move to take back", style="red")
            return
        del self.moves[mine[-1] :]
        secret = core.round_of(self._game, self._state())
        while secret >= 0 and self.moves and core.round_of(self._game, self._state(len(self.moves) - 1)) == secret:
            self.moves.pop()  # a choice of another player for this round, which the user has seen since
        self._told = min(self._told, len(self.moves))
        self._continue()

    def _again(self) -> None:
        self.moves.clear()
        self._told, self._resigned = 0, False
        self._seed += 1
        self._continue()

    def _hint(self) -> None:
        analysis, state = self._analysis, self._state()
        if core.is_over(self._game, state):
            self._say("the game is over", style="red")
        elif self._adviser is None or analysis is None:
            self._say(outlook(self._game, state), style="")
        else:
            self._console.print(hint_table(self._game, state, analysis))
            names = self._line(state, analysis.principal_variation)
            best = self._game.action_name(state, analysis.best_action)
            self._say(f"best: {best}   expected line: {' '.join(names)}", style="")

    def _list_moves(self) -> None:
        self._say("legal: " + (" ".join(legal_names(self._game, self._state())) or "none, the game is over"), style="")

    def _help(self) -> None:
        width = max(map(len, COMMANDS))
        for word, meaning in COMMANDS.items():
            self._say(f"{word:<{width}}  {meaning}", style="")

    def _line(self, state: State, actions: Sequence[int]) -> list[str]:
        """Return the notation of a line of moves from `state`."""
        state, names = state.copy(), []
        for action in actions:
            names.append(self._game.action_name(state, action))
            core.play(self._game, state, action)
        return names

    def _names(self) -> list[str]:
        return move_names(self._game, self.moves, self._seed)

    def _state(self, plies: int | None = None) -> State:
        return replay(self._game, self.moves[:plies], self._seed)

    def _say(self, text: str, style: str = "dim") -> None:
        self._console.print(text, style=style, markup=False, highlight=False)


def outlook(game: Game, state: State) -> str:
    """Return the moves that win or lose within a few plies: the hint without a model."""
    try:
        found = outlook_of(game, state)
    except InvalidRequest as error:
        return str(error)
    listed = "   ".join(f"{kind}: {' '.join(moves)}" for kind, moves in found.kinds.items() if moves)
    return f"within {found.plies} plies   {listed}"


def hint_table(game: Game, state: State, analysis: RootAnalysis) -> Table:
    """Return the best moves of a searched position with prior, visits and value."""
    rows = screen.table("move", ">prior", ">visits", ">value", "")
    for index in analysis.ranking()[:HINTS]:
        visited = analysis.visits[index] > 0
        value = float(analysis.values[index])
        rows.add_row(
            game.action_name(state, int(analysis.actions[index])),
            f"{float(analysis.priors[index]):.1%}",
            f"{int(analysis.visits[index]):,}",
            f"{value:+.2f}" if visited else "",
            screen.value_bar(value, cells=10) if visited else "",
        )
    return rows
