"""The web application in Chromium: a folder of runs, its server as a process, and pages without console errors or network.

`make browser-test` runs these tests; they need Chromium, and fail without it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Route, expect, sync_playwright

from zerofleet.library.accuracy_record import Accuracy, Figures, MeasuredAccuracy, Result, ShareValue, append_accuracy
from zerofleet.storage.run_paths import RunPaths

ROOT = Path(__file__).parents[2]
HOSTILE = """"><img src=x onerror=alert(1)>'{{7*7}}"""
PATIENCE_MS = 180_000  # the first look at a game compiles its rules
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
SWITCHES = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
)


def _module(name: str, path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # for its dataclasses
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def golden() -> ModuleType:
    """Return the module that makes the golden run."""
    return _module("golden_run", "tests/ui/conftest.py")


@pytest.fixture(scope="session")
def stand_in_gatekeeper() -> ModuleType:
    """Return the module with the stand-in for a gatekeeper."""
    return _module("stand_in_gatekeeper", "tests/browser/stand_in_gatekeeper.py")


@pytest.fixture(scope="session")
def real_gatekeeper() -> ModuleType:
    """Return the module with the process of a gatekeeper."""
    return _module("real_gatekeeper", "tests/browser/real_gatekeeper.py")


@pytest.fixture(scope="session")
def stand_in_worker() -> ModuleType:
    """Return the module with the stand-in for a worker."""
    return _module("stand_in_worker", "tests/browser/stand_in_worker.py")


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory, golden: ModuleType) -> Path:
    """Return a folder with the run `golden`, and the same under a hostile name."""
    folder = tmp_path_factory.mktemp("runs")
    golden.make_run(folder / "golden")
    for version, kept in ((1, 11), (2, 17)):
        _measure(folder / "golden", version, kept)
    shutil.copytree(folder / "golden", folder / HOSTILE)
    return folder


@pytest.fixture(scope="session")
def copied(runs: Path) -> Callable[..., Path]:
    """Return the function that copies a run, `golden` by default, under another name; it fails for a name used before.

    With `is_numbered` the name has a number behind it, for tests that each take a run of their own.

    The pages keep what they read of a run, and its last states for a second, by the name of the run, removed ones too.
    """
    taken, numbers = {"golden", HOSTILE}, itertools.count(1)

    def copy(name: str, *, of: str = "golden", is_numbered: bool = False) -> Path:
        name = f"{name}-{next(numbers)}" if is_numbered else name
        if name in taken or (runs / name).exists():
            pytest.fail(f"the folder that all browser tests share has had a run {name} already; give this one another name")
        taken.add(name)
        return Path(shutil.copytree(runs / of, runs / name))

    return copy


def _measure(root: Path, version: int, kept: int) -> None:
    """Record an accuracy of `kept` of 20 moves for a version."""
    share = ShareValue(count=kept, of=20, share=kept / 20, low=kept / 25, high=1.0)
    figures = Figures(kept=share, decided=share, exact=share, mean_lost=0.1)
    modes = {"policy alone": "", "30 simulations": "root=gumbel,replies=true"}
    results = tuple(Result(source="random", mode=mode, search=modes[mode], all=figures, plies=()) for mode in modes)
    about = {"player": f"model:{version}", "game": "tic_tac_toe", "parameters": {}, "seed": 0, "unit": "points"}
    found = Accuracy.model_validate({**about, "first_ply": 0, "simulations": 30, "results": results})
    append_accuracy(RunPaths(root), MeasuredAccuracy(version=version, measured_at=datetime.now(UTC), accuracy=found))


@pytest.fixture(scope="session")
def untrained() -> Callable[[Path, str], Path]:
    """Return the function that makes a run of a game whose champion is an untrained network that a server can load."""
    made: Callable[[Path, str], Path] = _module("runs_of_networks", "tests/cli/conftest.py").untrained
    return made


@pytest.fixture(scope="session")
def run_with_champion(runs: Path, untrained: Callable[[Path, str], Path]) -> str:
    """Return the name of a run of tic-tac-toe whose champion is an untrained network."""
    return untrained(runs, "tic_tac_toe").name


@pytest.fixture(scope="session")
def nim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of packages in which the game of `docs/own_game.md` is installed."""
    site, own_game = tmp_path_factory.mktemp("site"), _module("own_game", "tests/games/test_own_game.py")
    (site / "nim.py").write_text(own_game.file_on_page("nim.py"))
    own_game.install(site, "zerofleet_nim", {"nim": "nim"})
    return site


@pytest.fixture(scope="session")
def address(runs: Path, nim: Path) -> Iterator[str]:
    """Return the address of the application over the runs, which has the package of a game of one's own."""
    with _served(runs, nim) as at:
        _compile_search(at)
        yield at


@pytest.fixture
def protected(runs: Path, nim: Path) -> Iterator[tuple[str, str]]:
    """Return the address of an application over the runs that asks for a token, and the token."""
    token = "correct-horse-battery"
    with _served(runs, nim, ZEROFLEET_PAGE_TOKEN=token) as at:
        yield at, token


@contextlib.contextmanager
def _served(runs: Path, nim: Path, **settings: str) -> Iterator[str]:
    command = [sys.executable, "-m", "ui", "--runs", str(runs), "--page-port", "0", "--log-format", "json"]
    paths = os.pathsep.join(filter(None, [str(nim), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": paths, "ZEROFLEET_JOURNAL_CACHE": str(runs.with_name("journals")), **settings}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, cwd=ROOT, text=True, env=environment, **pipes) as process:
        try:
            yield _ready(process)
        finally:
            process.terminate()


def _ready(process: subprocess.Popen[str]) -> str:
    """Return the address from the log of a service that begins. Fails with the log if it ends instead."""
    log = []
    assert process.stdout is not None
    for line in process.stdout:
        log.append(line)
        if '"service.ready"' in line:
            return str(json.loads(line)["address"]).rstrip("/")
    pytest.fail("the application did not start:\n" + "".join(log))


def _compile_search(address: str) -> None:
    """Search a position to its end: the first search compiles, on a busy machine for longer than a page may wait."""
    wish = json.dumps({"game": "tic_tac_toe", "model": "none", "simulations": 1}).encode()
    request = urllib.request.Request(f"{address}/api/v1/studies", wish, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        begun = json.load(answer)["id"]
    with urllib.request.urlopen(f"{address}/api/v1/studies/{begun}/events") as events:
        seen = [json.loads(line.removeprefix(b"data: ")) for line in events if line.startswith(b"data: ")]
    assert seen[-1]["is_done"]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Return Chromium. Fails without it."""
    found = os.environ.get("ZEROFLEET_TEST_CHROMIUM") or next(filter(None, map(shutil.which, PROGRAMS)), None)
    if found is None:
        pytest.fail(f"none of {', '.join(PROGRAMS)} is installed; install one, or name it in ZEROFLEET_TEST_CHROMIUM")
    expect.set_options(timeout=PATIENCE_MS)  # 5 s by default, whatever a context says
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=found, args=list(SWITCHES))
        yield launched
        launched.close()


Opener = Callable[..., Page]


@pytest.fixture
def open_page(browser: Browser, address: str) -> Iterator[Opener]:
    """Return the function that opens a page of the application; at the end nothing may have gone wrong in any of them.

    `refusal`: part of the line about a refused request, such as `409 (Conflict)`, that the test brings about.
    """
    faults: list[str] = []
    foreseen: set[str] = set()
    contexts = []

    def block(route: Route) -> None:
        if route.request.url.startswith(f"{address}/"):
            route.continue_()
        else:
            faults.append(f"request of {route.request.url}")
            route.abort()

    def note(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"} and not any(text in message.text for text in foreseen):
            faults.append(f"console: {message.text}")

    def open_one(path: str, *, width: int = 1440, scheme: str = "light", refusal: str = "") -> Page:
        foreseen.update(filter(None, [refusal]))
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, base_url=address)
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        context.route("**/*", block)
        page = context.new_page()
        page.on("console", note)
        page.on("pageerror", lambda error: faults.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (faults.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.goto(path)
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert faults == []


@pytest.fixture(scope="session")
def screenshots() -> Path | None:
    """Return the folder that keeps pictures, `ZEROFLEET_TEST_SCREENSHOTS` where one is set; create it."""
    if not (folder := os.environ.get("ZEROFLEET_TEST_SCREENSHOTS")):
        return None
    Path(folder).mkdir(parents=True, exist_ok=True)
    return Path(folder)


@pytest.fixture(scope="session")
def keep(screenshots: Path | None) -> Callable[[Page, str], None]:
    """Return the function that keeps a screenshot under a name, where a folder for them is set."""

    def keep_one(page: Page, name: str) -> None:
        if screenshots:
            width = page.viewport_size["width"] if page.viewport_size else 0
            page.screenshot(path=screenshots / f"{name}-{width}.png", full_page=True)

    return keep_one


@pytest.fixture
def hostile() -> str:
    """Return the name of the run whose name is markup."""
    return HOSTILE
