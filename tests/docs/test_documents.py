"""The documents tell the truth: command lines parse, links resolve, names exist."""

from __future__ import annotations

import importlib.util
import re
import shlex
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
import working_tree
from typer import BadParameter
from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

from zerofleet.agents import AGENTS
from zerofleet.cli.app import BENCHMARKS, COMMANDS, app
from zerofleet.telemetry import metrics

ROOT = Path(__file__).parents[2]

FENCE = re.compile(r"^```(?:console|bash|sh|text|)\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`((?:zerofleet|make|python -m) [^`]+)`")
STARTS = ("zerofleet ", "make ", "python -m ")
FLAGS = {"--control", "--in-process", "--json", "--pairs"}
"""Options without a value of the commands that take players."""
AT_ONCE = {"--help", "--debug", "--install-completion", "--show-completion"}
"""Options that act while a line is parsed."""


def documents() -> list[Path]:
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("deploy/**/*.md"), *ROOT.glob("client/*.md")])


def command_lines(path: Path) -> Iterator[str]:
    """Yield every command line of a document that begins with one of `STARTS`, without prompt, comment or pipe."""
    text = path.read_text()
    shown = [line.removeprefix("$ ").removeprefix(".venv/bin/") for block in FENCE.findall(text) for line in block.splitlines()]
    for line in [*shown, *INLINE.findall(text)]:
        if line.startswith(STARTS):
            yield re.split(r"\s(?:#|\||>|&&|&)\s?", line)[0].strip()


EXAMPLES = [example for command in (*COMMANDS.values(), *BENCHMARKS.values()) for example in command.examples]
LINES = sorted({line for path in documents() for line in command_lines(path)} | set(EXAMPLES))


def parse(words: list[str]) -> None:
    """Parse the words of a command line to the end without running anything; raises what a wrong one raises."""
    words = [word for word in words if word not in AT_ONCE]
    command, name, parent = get_command(app), "zerofleet", None
    while isinstance(command, TyperGroup) and words:
        context = command.make_context(name, words, parent=parent)
        name, command, words = command.resolve_command(context, [*context._protected_args, *context.args])
        parent = context
    if not isinstance(command, TyperGroup):
        try:
            command.make_context(name, list(words), parent=parent)
        except BadParameter as error:
            if type(error).__name__ != "MissingParameter" or words:
                raise  # only a command named in passing, such as `zerofleet run`, may leave out what it needs


@pytest.mark.parametrize("line", [line for line in LINES if line.startswith("zerofleet ")])
def test_a_zerofleet_line_of_the_documents_parses(line):
    parse(shlex.split(line)[1:])


@pytest.mark.parametrize("line", [line for line in LINES if re.match("zerofleet run [a-z]", line) and " --set " in line])
def test_the_settings_of_a_run_of_the_documents_fit_together(line, tmp_path):
    words = shlex.split(re.sub(r" --(for|run-dir|workers|devices) \S+", "", line.replace(" --ui", "")))[1:]
    ended = CliRunner().invoke(app, [*words, "--save-config", str(tmp_path / "experiment.toml")])
    assert (tmp_path / "experiment.toml").exists(), ended.exception


@pytest.mark.parametrize("line", [line for line in LINES if re.match("zerofleet (match|tournament|behaviour) ", line)])
def test_the_players_of_a_line_of_the_documents_are_models_or_agents(line):
    name, *words = shlex.split(line)[1:]
    words = words[name == "behaviour" :]  # whose first word is a table
    options = [word for word in words if word.startswith("--")]
    taking = {option for option in options if option not in FLAGS}
    players = [word for before, word in zip(["", *words], words, strict=False) if before not in taking and word not in options]
    unknown = [player for player in players if re.split("[:,@]", player)[0] not in {"champion", "model", "…", *AGENTS}]
    assert unknown == []


@pytest.mark.parametrize("line", [line for line in LINES if line.startswith("make ")])
def test_a_make_line_of_the_documents_names_a_target(line):
    text = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", text, re.MULTILINE))
    variables = set(re.findall(r"^([A-Z_]+) \?=", text, re.MULTILINE))
    for word in shlex.split(line)[1:]:
        name, equals, _ = word.partition("=")
        assert name in (variables if equals else targets), f"{line}: {name}"


@pytest.mark.parametrize("line", [line for line in LINES if line.startswith("python -m ")])
def test_a_python_line_of_the_documents_names_a_module(line):
    assert importlib.util.find_spec(shlex.split(line)[2]) is not None


def test_the_readme_shows_the_commands_a_newcomer_needs():
    shown = " ".join(command_lines(ROOT / "README.md"))
    for words in ("make run", "zerofleet play", "zerofleet evaluate", "zerofleet doctor"):
        assert words in shown


LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
PACKAGES = sorted(
    ".".join(path.parent.relative_to(ROOT).parts)
    for name in ("games", "zerofleet", "inference_server", "selfplay_worker", "trainer", "gatekeeper", "laboratory", "ui")
    for path in (ROOT / name).glob("**/__init__.py")
)


def anchors(path: Path) -> set[str]:
    """Return the anchors of a document's headings as they are made from their text."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    kept = (re.sub(r"[^\w\- ]", "", unicodedata.normalize("NFC", text.replace("`", "")).lower()) for text in headings)
    return {text.replace(" ", "-") for text in kept}


@pytest.mark.parametrize("path", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_links_of_a_document_resolve(path):
    for pair in LINK.findall(path.read_text()):
        target = pair[0] or pair[1]
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        file, _, anchor = target.partition("#")
        wanted = (path.parent / file).resolve() if file else path
        assert wanted.exists(), f"{path.name}: {target}"
        assert not anchor or anchor in anchors(wanted), f"{path.name}: {target}"


def test_every_document_is_reached_from_the_readme_or_the_index():
    linked: set[Path] = set()
    for start in (ROOT / "README.md", ROOT / "docs" / "README.md"):
        for first, second in LINK.findall(start.read_text()):
            linked.add((start.parent / (first or second).partition("#")[0]).resolve())
    missing = [path for path in documents() if path.resolve() not in linked and path.name != "README.md"]
    assert [str(path.relative_to(ROOT)) for path in missing] == []


@pytest.mark.parametrize("name", PACKAGES)
def test_exported_names_exist_and_are_sorted(name):
    package = importlib.import_module(name)
    exported = getattr(package, "__all__", [])
    assert list(exported) == sorted(exported, key=lambda word: (not word.isupper(), word[0].islower(), word))
    assert [entry for entry in exported if not hasattr(package, entry)] == []


def test_texts_speak_of_the_product_only():
    # Written in two halves, so that this file does not find itself.
    unwanted = re.compile(
        "|".join(["/wo" + "rk/", "/tmp/" + "plan", "shared/(?:spec|de" + "sign)", r"\bTO" + "DO", "FIX" + "ME", r"\bXX" + "X"])
    )
    found = []
    for name in working_tree.files():
        path = ROOT / name
        if path.suffix in {".py", ".md", ".toml", ".yaml", ".yml", ".proto", ".sh", ""}:
            lines = path.read_text(errors="replace").splitlines()
            found += [f"{name}:{number}: {line.strip()}" for number, line in enumerate(lines, 1) if unwanted.search(line)]
    assert found == []


def test_the_page_on_metrics_lists_every_metric_and_no_other():
    listed = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE)
    exposed = {
        name for service in ("selfplay_worker", "inference_server", "trainer", "gatekeeper") for name in metrics.names(service)
    }
    assert {name for name in listed if name.startswith(("zerofleet_", "grpc_"))} == exposed
