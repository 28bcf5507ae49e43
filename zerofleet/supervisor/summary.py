"""Summary of a run at its end."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from zerofleet.contracts.promotions import Candidate, Rung
from zerofleet.contracts.set_options import set_options
from zerofleet.supervisor.child import GaveUp
from zerofleet.supervisor.readings import Readings
from zerofleet.supervisor.request import RunRequest
from zerofleet.supervisor.words import clock, count, rating, share

__all__ = ["summary"]

CANDIDATES_SHOWN = 5
_LABEL_WIDTH = 12
_COMPILING = "the rules were still compiling, once for this machine"


def summary(
    request: RunRequest,
    last: Readings,
    failure: GaveUp | None = None,
    *,
    was_compiling: bool = False,
    unready: Sequence[str] = (),
) -> str:
    """Return the closing lines of a run: work done, results, and the commands to play and to resume.

    A run whose service has refused its settings, or whose first version is broken, would fail again, so there is no command to
    resume it.
    `was_compiling`: whether a service compiled rules when the run was stopped. `unready`: names of other services that were
    not ready until then. Both are reasons of a run without results, unless it has a failure.
    """
    reasons = _reasons(last, was_compiling=was_compiling, unready=unready) if failure is None else []
    lines = [
        ("ran for", clock(last.elapsed_s)),
        ("games", f"{count(last.games)} in this session, {count(max(last.games_stored, 0))} stored in the run"),
        *(("", reason) for reason in reasons),
        ("learning", _learning(last)),
        ("champion", _champion(last)),
        *_ladder(last),
        *_candidates(last.candidates),
        ("run", str(request.run_dir)),
        ("", ""),
        ("play it", _play(request) if last.champion else "not yet: no network was promoted"),
        ("look at it", request.look_command()),
        *([] if failure is not None and failure.is_final else [("resume", request.command())]),
    ]
    return "\n".join(f"  {label:<{_LABEL_WIDTH}}{text}".rstrip() for label, text in lines)


def _reasons(last: Readings, *, was_compiling: bool, unready: Sequence[str]) -> list[str]:
    """Return why no game was finished or stored, as far as it is known."""
    starting = [f"{', '.join(unready)} {'was' if len(unready) == 1 else 'were'} still starting"] if unready else []
    if not last.games:
        causes = [*([_COMPILING] if was_compiling else []), *starting]
        return [f"no game was finished: {', and '.join(causes)}; the same command goes on"] if causes else []
    if last.games_stored or last.rejected:
        return starting
    return ["the games wait in the stream, and the next start stores them", *starting]


def _learning(last: Readings) -> str:
    losses = ", ".join(f"{head} loss {loss:.3f}" for head, loss in sorted(last.losses.items()) if head != "total")
    return f"{count(last.step)} steps on {count(last.samples)} samples" + (f"; {losses}" if losses else "")


def _champion(last: Readings) -> str:
    if last.champion is None:
        return "none yet"
    champion, rung = f"version {last.champion.version}", last.rated_rung
    if rung is None:
        return f"{champion}, not rated yet"
    if not last.is_champion(rung):
        champion += f", not anchored; version {rung.name.removeprefix('model:')}"
    if not rung.anchored:
        return f"{champion}, not anchored: no game against the ladder's rungs yet"
    return f"{champion}, {_elo(rung)}, {count(rung.games)} rated games"


def _elo(rung: Rung) -> str:
    return f"{rung.elo:.0f} Elo (95 % interval {rung.elo_low:.0f} to {rung.elo_high:.0f}; random is 0)"


def _ladder(last: Readings) -> list[tuple[str, str]]:
    """Return a line with the strongest classical rung, as a reference for the rating."""
    classical = [rung for rung in last.ladder if not rung.name.startswith("model:") and rung.anchored]
    if not classical or last.rated_rung is None or not last.rated_rung.anchored:
        return []
    best = max(classical, key=lambda rung: rung.elo)
    name = best.name.replace("alpha_beta:", "alpha-beta of depth ")
    return [("reference", f"{name} has {rating(best)}")]


def _candidates(candidates: Sequence[Candidate]) -> list[tuple[str, str]]:
    shown = [(("candidates" if i == 0 else ""), _candidate(c)) for i, c in enumerate(reversed(candidates[-CANDIDATES_SHOWN:]))]
    return shown or [("candidates", "none yet")]


def _candidate(candidate: Candidate) -> str:
    text = f"{candidate.version:>4}  {candidate.status.value:<11}"
    match = candidate.match
    if match is None or not match.wins + match.draws + match.losses:
        return text.rstrip()
    score = f"{match.wins} won, {match.draws} drawn, {match.losses} lost against {match.champion_version}"
    return f"{text} {score} ({share(match.share)} of points, llr {match.log_likelihood_ratio:+.2f})"


def _play(request: RunRequest) -> str:
    words = ["zerofleet", "play", request.game, *set_options(request.parameters)]
    return shlex.join([*words, "--run-dir", str(request.run_dir)])
