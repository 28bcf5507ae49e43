"""Opinions of models on positions, with their wire form; only `opinion_to_wire` and `opinion_from_wire` depend on protobuf."""

from __future__ import annotations

from dataclasses import dataclass

from zerofleet.contracts.wire import evaluation_pb2 as wire

__all__ = ["MoveOpinion", "Opinion", "opinion_from_wire", "opinion_to_wire"]


@dataclass(frozen=True, slots=True)
class MoveOpinion:
    """Evaluation of a legal move."""

    move: str
    action: int
    prior: float
    """Probability from the network, in [0, 1]."""
    visits: int
    value: float | None
    """Mean value for the player to move, in [-1, 1]; None if unvisited."""


@dataclass(frozen=True, slots=True)
class Opinion:
    """Evaluation of a position."""

    model_version: int
    to_move: int
    value: tuple[float, ...]
    """Expected score of each player in seat order, in [-1, 1]; the final scores when the game is over."""
    moves: tuple[MoveOpinion, ...]
    """Best first: by visits after a search, by prior without one."""
    principal_variation: tuple[str, ...]
    is_over: bool

    def __str__(self) -> str:
        """Return the moves as a table, best first, with the expected line below."""
        if self.is_over:
            return f"the game is over: {' '.join(f'{score:+g}' for score in self.value)}"
        value = self.value[self.to_move]
        width = max(4, *(len(move.move) for move in self.moves))
        lines = [
            f"player {self.to_move + 1} to move, value {value:+.3f}, model {self.model_version}",
            f"{'move':<{width}}   prior  visits   value",
            *(_row(move, width) for move in self.moves),
        ]
        if self.principal_variation:
            lines.append(f"expected line: {' '.join(self.principal_variation)}")
        return "\n".join(lines)


def opinion_to_wire(opinion: Opinion, *, game: str) -> wire.EvaluateReply:
    """Return the message for an opinion on a position of `game`."""
    moves = [
        wire.EvaluatedMove(move=each.move, action=each.action, prior=each.prior, visits=each.visits, value=each.value)
        for each in opinion.moves
    ]
    return wire.EvaluateReply(
        game=game,
        model_version=opinion.model_version,
        to_move=opinion.to_move,
        value=opinion.value,
        moves=moves,
        principal_variation=opinion.principal_variation,
        is_over=opinion.is_over,
    )


def opinion_from_wire(message: wire.EvaluateReply) -> Opinion:
    """Return the opinion in a message."""
    moves = (MoveOpinion(m.move, m.action, m.prior, m.visits, m.value if m.HasField("value") else None) for m in message.moves)
    return Opinion(
        model_version=message.model_version,
        to_move=message.to_move,
        value=tuple(message.value),
        moves=tuple(moves),
        principal_variation=tuple(message.principal_variation),
        is_over=message.is_over,
    )


def _row(move: MoveOpinion, width: int) -> str:
    value = "" if move.value is None else f"{move.value:+.3f}"
    return f"{move.move:<{width}}  {move.prior:>6.1%}  {move.visits:>6}  {value:>6}".rstrip()
