"""Command line: commands by group, and exit codes of failures.

A `ZerofleetError`, a game error, a usage error or an `OSError` becomes one line `error: …` on standard error and exit code 2;
an exception in the rules of a game becomes its reason and place (`games.faults`). Any other exception is a defect and keeps its
traceback; `--debug` keeps every traceback.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from importlib import metadata

import typer
from typer.exceptions import TyperException

from zerofleet.cli import screen
from zerofleet.cli.lazy import Command, lazy_group
from zerofleet.cli.refusals import nearest_game, plain_words, text_of
from zerofleet.errors import ZerofleetError
from zerofleet.service.open_files import raise_limit

__all__ = ["BENCHMARKS", "COMMANDS", "app", "bench", "main"]

EXIT_REFUSED = 2
EXIT_INTERRUPTED = 130

_LEARN = "Train"
_USE = "Play and analyse"
_LOOK = "Inspect"
_MACHINE = "Operate"

COMMANDS = {
    "run": Command(
        "zerofleet.cli.commands.run:run",
        "Train a game from scratch on this machine, or resume a run",
        _LEARN,
        (
            "zerofleet run connect_four --preset laptop",
            "zerofleet run tic_tac_toe --preset tiny --for 5m",
            "zerofleet run connect_four --set rows=4 --set columns=5 --run-dir runs/small",
            "zerofleet run connect_four --set search.simulations=200 --save-config deep.toml",
            "zerofleet run --config deep.toml --run-dir runs/deep",
        ),
    ),
    "play": Command(
        "zerofleet.cli.commands.play:play",
        "Play against a model or a classical agent",
        _USE,
        (
            "zerofleet play connect_four",
            "zerofleet play connect_four --opponent alpha_beta:5 --seat 2",
            "zerofleet play tic_tac_toe --opponent perfect",
            "zerofleet play othello --set size=6 --opponent random --seat 2",
        ),
    ),
    "ui": Command(
        "zerofleet.cli.commands.ui:ui",
        "Look at runs and play in a browser",
        _LOOK,
        (
            "zerofleet ui",
            "zerofleet ui --run-dir runs/connect_four-laptop",
            "zerofleet ui --runs /var/lib/zerofleet --port 9000",
        ),
    ),
    "evaluate": Command(
        "zerofleet.cli.commands.evaluate:evaluate",
        "Analyse a position with a model, move by move",
        _USE,
        (
            "zerofleet evaluate connect_four --moves d1,d2,c1",
            "zerofleet evaluate connect_four --moves d1,d2 --simulations 400 --json",
            "zerofleet evaluate connect_four --moves d1,d2 --time 2s",
        ),
    ),
    "match": Command(
        "zerofleet.cli.commands.match:match",
        "Play a match between two players and compare them",
        _USE,
        (
            "zerofleet match champion alpha_beta:5 --game connect_four --games 200",
            "zerofleet match model:3 model:7 --game connect_four --games 100 --json",
            "zerofleet match alpha_beta:4 alpha_beta:3 --sprt 0,50",
        ),
    ),
    "tournament": Command(
        "zerofleet.cli.commands.tournament:tournament",
        "Play a round-robin tournament and rate the players",
        _USE,
        (
            "zerofleet tournament random greedy alpha_beta:2 alpha_beta:4 --games 200 --dir tournaments/first",
            "zerofleet tournament champion model:3 alpha_beta:5 --game connect_four --plot ratings.svg --csv duels.csv",
        ),
    ),
    "openings": Command(
        "zerofleet.cli.commands.openings:openings",
        "Draw random openings for matches and tournaments",
        _USE,
        ("zerofleet openings connect_four --plies 4 --count 500 --seed 1",),
    ),
    "agents": Command(
        "zerofleet.cli.commands.agents:agents",
        "List the available agents and how to name them",
        _LOOK,
        ("zerofleet agents", "zerofleet agents --game take_six"),
    ),
    "solve": Command(
        "zerofleet.cli.commands.solve:solve",
        "Score every move of a position under perfect play",
        _USE,
        (
            "zerofleet solve connect_four",
            "zerofleet solve connect_four --moves d1,d2,d3 --json",
            "zerofleet solve tic_tac_toe --moves b2",
        ),
    ),
    "accuracy": Command(
        "zerofleet.cli.commands.accuracy:accuracy",
        "Compare a player's moves with perfect play, ply by ply",
        _USE,
        (
            "zerofleet accuracy champion --game connect_four --positions 500",
            "zerofleet accuracy alpha_beta:5 --positions 200 --json",
        ),
    ),
    "behaviour": Command(
        "zerofleet.cli.commands.behaviour:behaviour",
        "Show what players do: by turn, by line, openings, placements",
        _USE,
        (
            "zerofleet behaviour values --run-dir runs/connect_four-laptop --versions all --plot values.svg",
            "zerofleet behaviour lines tic_tac_toe_rules random --game tic_tac_toe --games 1000",
            "zerofleet behaviour turns take_six_comparison --game take_six --games 1000 --csv turns.csv",
            "zerofleet behaviour openings --game connect_four --json",
        ),
    ),
    "reproduce": Command(
        "zerofleet.cli.reproduce.command:reproduce",
        "Reproduce the experiments of a thesis as a report",
        _USE,
        (
            "zerofleet reproduce --list",
            "zerofleet reproduce connect_four_td",
            "zerofleet reproduce tictactoe_take6_rps --profile full --only tic_tac_toe --seeds 3",
        ),
    ),
    "ladder": Command(
        "zerofleet.cli.commands.ladder:ladder",
        "Rate every champion of a run against classical players",
        _USE,
        (
            "zerofleet ladder connect_four --plot ladder.svg",
            "zerofleet ladder --run-dir runs/connect_four-laptop --rungs random,alpha_beta:1,alpha_beta:5 --every 3 --games 40",
            "zerofleet ladder connect_four --games 0 --json",
        ),
    ),
    "models": Command(
        "zerofleet.cli.commands.models:app",
        "List, verify, promote and roll back models",
        _LOOK,
        (
            "zerofleet models list connect_four",
            "zerofleet models show connect_four 7",
            "zerofleet models promote connect_four 7 --reason 'better endgames'",
        ),
    ),
    "games": Command(
        "zerofleet.cli.commands.games:app",
        "List, check and draw games; replay and export stored ones",
        _LOOK,
        (
            "zerofleet games available",
            "zerofleet games check tic_tac_toe",
            "zerofleet games draw connect_four --moves d1,d2,c1 --svg position.svg",
            "zerofleet games list connect_four",
            "zerofleet games show connect_four UID",
            "zerofleet games export connect_four UID --out game.gif",
        ),
    ),
    "curves": Command(
        "zerofleet.cli.commands.curves:curves",
        "Show the diagnostics of a run over time: games, targets, gate",
        _LOOK,
        (
            "zerofleet curves connect_four",
            "zerofleet curves connect_four --plot curves.svg --points 60",
            "zerofleet curves --run-dir runs/connect_four-laptop --json",
        ),
    ),
    "runs": Command(
        "zerofleet.cli.commands.runs:runs",
        "List the runs of a folder, alive and stopped",
        _LOOK,
        ("zerofleet runs", "zerofleet runs --runs /data/runs --json"),
    ),
    "status": Command(
        "zerofleet.cli.commands.runs:status",
        "Attach to a live run, or show the last state of a stopped one",
        _LOOK,
        ("zerofleet status runs/connect_four-laptop", "zerofleet status connect_four-laptop --json"),
    ),
    "report": Command(
        "zerofleet.cli.report.command:report",
        "Write a run as one HTML file that opens without a network",
        _LOOK,
        (
            "zerofleet report connect_four-laptop",
            "zerofleet report runs/connect_four-laptop --out first.html --games 50",
            "zerofleet report connect_four-laptop --json",
        ),
    ),
    "backup": Command(
        "zerofleet.cli.commands.backup:backup",
        "Back up a run, also while it is running",
        _MACHINE,
        (
            "zerofleet backup runs/connect_four-laptop --to /var/backups/connect_four",
            "zerofleet backup runs/connect_four-laptop --to /var/backups/connect_four --keep 7",
        ),
    ),
    "restore": Command(
        "zerofleet.cli.commands.backup:restore",
        "Restore a run from a backup",
        _MACHINE,
        (
            "zerofleet restore /var/backups/connect_four/20261121T131440123Z runs/again",
            "zerofleet restore /var/backups/connect_four/20261121T131440123Z runs/again --part models --part gatekeeper",
            "zerofleet restore /var/backups/connect_four/20261121T131440123Z --check",
        ),
    ),
    "certs": Command(
        "zerofleet.cli.commands.certs:certs",
        "Issue or renew certificates for services and operators",
        _MACHINE,
        (
            "zerofleet certs",
            "zerofleet certs /etc/zerofleet --name inference_server=gpu1.example.org --name gatekeeper=10.0.0.7",
            "zerofleet certs --renew",
        ),
    ),
    "bench": Command("zerofleet.cli.app:bench", "Benchmark search, serving, rules and training", _MACHINE),
    "plan": Command(
        "zerofleet.cli.commands.plan:plan",
        "Predict the throughput of a fleet and its bottleneck",
        _MACHINE,
        ("zerofleet plan --gpus 8 --workers 64", "zerofleet plan --gpus 8 --workers 1000 --simulate --json"),
    ),
    "doctor": Command(
        "zerofleet.cli.commands.doctor:doctor",
        "Check this machine against the requirements of Zerofleet",
        _MACHINE,
        ("zerofleet doctor", "zerofleet doctor --stream-url redis://127.0.0.1:6379"),
    ),
    "version": Command(
        "zerofleet.cli.commands.version:version", "Print the versions of Zerofleet and its dependencies", _MACHINE
    ),
}

BENCHMARKS = {
    "search": Command(
        "zerofleet.cli.bench.search:search",
        "Simulations per second of the search alone",
        examples=(
            "zerofleet bench search",
            "zerofleet bench search --game connect_four --games 256 --simulations 400 --json",
            "zerofleet bench search --all --games 64 --simulations 100 --seconds 2",
        ),
    ),
    "serve": Command(
        "zerofleet.cli.bench.serve:serve",
        "Positions per second through workers, gRPC and inference server",
        examples=("zerofleet bench serve --game connect_four --preset laptop",),
    ),
    "solve": Command(
        "zerofleet.cli.bench.solve:solve",
        "Time to solve Connect Four positions",
        examples=("zerofleet bench solve", "zerofleet bench solve --positions 100 --plies 10 --json"),
    ),
    "agent": Command(
        "zerofleet.cli.bench.agent:agent",
        "Nodes per second and time per move of an agent",
        examples=(
            "zerofleet bench agent alpha_beta:8 --game connect_four",
            "zerofleet bench agent max_n:2 --game chinese_checkers_star37 --seconds 2 --json",
        ),
    ),
    "perft": Command(
        "zerofleet.cli.bench.perft:perft",
        "Count move sequences: correctness and speed of the rules",
        examples=(
            "zerofleet bench perft connect_four --depth 8",
            "zerofleet bench perft connect_four --depth 6 --set rows=4",
            "zerofleet bench perft --all --seconds 2",
        ),
    ),
    "positions": Command(
        "zerofleet.cli.bench.positions:positions",
        "Positions as an input file for Triton's perf_analyzer",
        examples=(
            "zerofleet bench positions connect_four --out positions.json",
            "zerofleet bench positions othello --positions 1024 --seed 7 --out positions.json",
        ),
    ),
    "rhombus_search": Command(
        "zerofleet.cli.bench.rhombus_search:rhombus_search",
        "Ablation of the search for Chinese Checkers on the rhombus",
        examples=(
            "zerofleet bench rhombus_search",
            "zerofleet bench rhombus_search --positions 8 --depth 6 --seconds 30 --json",
        ),
    ),
    "learn": Command(
        "zerofleet.cli.bench.learn.command:learn",
        "Strength by processor time of a recipe, over seeds",
        examples=(
            "zerofleet bench learn connect_four --cpu-seconds 300 --seeds 3 --jobs 2 --out base.json",
            "zerofleet bench learn connect_four --cpu-seconds 300 --set search.simulations=32 --against base.json",
            "zerofleet bench learn tic_tac_toe --preset tiny --samples 4000 --json",
        ),
    ),
    "train": Command(
        "zerofleet.cli.bench.train:train",
        "Samples per second of the trainer",
        examples=("zerofleet bench train --preset laptop",),
    ),
}

app = lazy_group(COMMANDS, summary="Train game-playing networks by self-play, and play against them.", add_completion=True)
bench = lazy_group(BENCHMARKS, summary="Benchmarks of this machine; each prints a table, or one JSON object with --json.")


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"zerofleet {metadata.version('zerofleet')}\n")
        raise typer.Exit


@app.callback()
def _options(
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of every error; accepted anywhere on the line."),
    version: bool = typer.Option(
        False, "--version", "-V", help="Print the version of Zerofleet and exit.", callback=_print_version, is_eager=True
    ),
) -> None:
    """Train game-playing networks by self-play, and play against them."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit the process with its code."""
    raise_limit()
    for stream in (sys.stdout, sys.stderr):  # names of files may hold bytes that the terminal's encoding lacks
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    given = [item for item in given if item != "--debug"]
    sys.exit(_run(given, debug=debug))


def _run(arguments: list[str], *, debug: bool) -> int:
    """Run one command line and return its exit code."""
    try:
        result = app(arguments, prog_name="zerofleet", standalone_mode=False)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except typer.Abort:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        sys.stdout = None  # the reader closed the pipe: nothing left to flush
        return 1
    except Exception as error:
        if debug or (expected := _expected(error)) is None:
            raise
        return _refuse(expected)
    return result if isinstance(result, int) else 0


def _refuse(error: Exception) -> int:
    context = getattr(error, "ctx", None)
    message = error.format_message() if isinstance(error, TyperException) else text_of(error)
    if type(error).__name__ == "NoArgsIsHelpError":
        return EXIT_REFUSED  # the help has been printed
    screen.error(plain_words(message) or type(error).__name__)
    if (name := nearest_game(error)) is not None:
        screen.note(f"did you mean {name}?")
    if context is not None:
        screen.note(f"see {context.command_path} --help")
    return EXIT_REFUSED


def _expected(error: Exception) -> Exception | None:
    """Return the error to show of an exception that is no defect, otherwise None; the games are not imported for this."""
    if isinstance(error, (ZerofleetError, TyperException, OSError)):
        return error
    if (rules := sys.modules.get("games.faults")) is None:
        return None
    fault: Exception | None = rules.fault_of(error)
    return error if isinstance(error, sys.modules["games.errors"].GameError) else fault
