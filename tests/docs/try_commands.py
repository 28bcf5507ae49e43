"""Execute the commands of README.md and docs/tutorials, page by page and in their order, each page in a folder of its own.

    python tests/docs/try_commands.py                      # all pages: a quarter of an hour on an idle machine
    python tests/docs/try_commands.py docs/tutorials/player.md

Durations and numbers of games are reduced (`SMALLER`). Commands that need a cluster, images or an installer are listed with the
reason (`ELSEWHERE`). A command that fails is printed with its output, and the exit code is then 1.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", *(f"docs/tutorials/{name}.md" for name in ("player", "programmer", "researcher", "operator")))
LIMIT_S = 600.0
READY_S = 120.0

SMALLER = (
    (r"--for (5|20|30)m", "--for 2m"),
    (r"--games (20|40|100)\b", "--games 2"),
    (r"uct:500\b", "uct:20"),
    (r"^zerofleet ladder connect_four ", "zerofleet ladder connect_four --games 2 --rungs random --every 1000 "),
    (r"^zerofleet accuracy champion --game connect_four$", r"\g<0> --positions 4"),
    (r"^zerofleet ladder --run-dir runs/nim ", r"\g<0>--every 1000 "),
    (r"^zerofleet ui$", "zerofleet ui --port 0"),
)
"""Patterns of commands with what is executed in their place."""

ELSEWHERE = (
    (r"^docker |\.env\b", "needs Docker: tests/compose"),
    (r"^kubectl |^make images", "needs a cluster and images: tests/deploy"),
    (r"--address 127\.0\.0\.1:8002", "asks the cluster of Docker"),
    (r"^make run", "the same as the next command, after an installation"),
)
"""Patterns of commands that are not executed, with the reason."""
OF_CLUSTER = {"docs/tutorials/operator.md": r"--address 127\.0\.0\.1:8001"}
"""Commands of a page that ask servers of its cluster."""
SERVERS = (r"^zerofleet ui", r"^python -m inference_server")
ENTERED = {r"^zerofleet play": "?\nquit\n"}
"""Text that a person types."""


@dataclass(slots=True)
class Step:
    """Command of a page, or file that it shows."""

    text: str
    name: str = ""
    """Name of the file; empty for a command."""


def steps_of(page: str) -> list[Step]:
    """Return commands and files of a page in their order."""
    found = []
    for language, block in re.findall(r"^```(\w+)\n(.*?)^```", (ROOT / page).read_text(), flags=re.DOTALL | re.MULTILINE):
        if language == "console":
            lines = (line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ "))
            found += [Step(re.sub(r"\s+#.*", "", line)) for line in lines]
        elif named := re.match(r"# (\w+\.(?:py|toml))\n", block):
            found.append(Step(block, named[1]))
    return found


def reason_elsewhere(page: str, command: str) -> str:
    """Return the reason why a command is not executed, empty where it is."""
    if page in OF_CLUSTER and re.search(OF_CLUSTER[page], command):
        return "asks the cluster of Docker"
    return next((reason for pattern, reason in ELSEWHERE if re.search(pattern, command)), "")


def smaller(command: str) -> str:
    """Return a command with reduced sizes."""
    for pattern, shorter in SMALLER:
        command = re.sub(pattern, shorter, command)
    return command


@dataclass(slots=True)
class Folder:
    """Folder in which the commands of a page are executed, with the servers that they have started."""

    path: Path
    port: int
    servers: list[subprocess.Popen[str]] = field(default_factory=list)

    def execute(self, command: str) -> str:
        """Execute a command; return its fault, empty without one."""
        try:
            command = smaller(self._filled(command))
        except (OSError, ValueError, IndexError, subprocess.CalledProcessError) as error:
            return f"has no value for a placeholder: {error!r}"
        if any(re.search(pattern, command) for pattern in SERVERS):
            return self._serve(command)
        if command == "pip install --editable .":
            self._install()
            return ""
        entered = next((text for pattern, text in ENTERED.items() if re.search(pattern, command)), "")
        try:
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=self.path,
                env=self._environment(),
                input=entered,
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"took more than {LIMIT_S:.0f} s"
        return "" if done.returncode == 0 else f"exit code {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"

    def close(self) -> None:
        """End the servers."""
        for server in self.servers:
            server.terminate()
            server.wait(READY_S)

    def _filled(self, command: str) -> str:
        """Return a command with the values of its placeholders and a free port."""
        if "TIME" in command:
            command = command.replace("TIME", max(one.name for one in (self.path / "backups").iterdir()))
        if "UID" in command:
            listed = subprocess.run(
                ["zerofleet", "games", "list", "tic_tac_toe", "--limit", "1", "--json"],
                cwd=self.path,
                env=self._environment(),
                capture_output=True,
                text=True,
                check=True,
            )
            command = command.replace("UID", json.loads(listed.stdout)["games"][0]["uid"])
        return command.replace("127.0.0.1:8001", f"127.0.0.1:{self.port}")

    def _serve(self, command: str) -> str:
        log = self.path / f"server-{len(self.servers)}.log"
        with log.open("w") as file:
            server = subprocess.Popen(
                f"exec {command}",
                shell=True,
                cwd=self.path,
                env=self._environment(),
                stdout=file,
                stderr=subprocess.STDOUT,
                text=True,
            )
        self.servers.append(server)
        until_s = time.monotonic() + READY_S
        while not re.search(r"serving http|service\.ready", log.read_text()):
            if server.poll() is not None or time.monotonic() > until_s:
                return f"did not become ready\n{log.read_text()[-3000:]}"
            time.sleep(0.2)
        return ""

    def _install(self) -> None:
        """Write what `pip install --editable .` leaves behind: the metadata with the entry points of `pyproject.toml`."""
        offered = re.search(
            r'\[project\.entry-points\."([\w.]+)"\]\n((?:\w+ = ".*"\n)+)', (self.path / "pyproject.toml").read_text()
        )
        assert offered is not None
        info = self.path / "own_game-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-game\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{offered[1]}]\n{offered[2].replace(chr(34), '')}")

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(self.path)]),
        }


def try_page(page: str) -> Iterator[str]:
    """Execute the commands of a page; yield a line for each, and the fault of those that fail, which begins with `FAILED`."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as name:
        folder = Folder(Path(name), port)
        if page.endswith("researcher.md"):  # which has its files from another page
            for step in steps_of("docs/own_game.md"):
                if step.name in {"nim.py", "check_nim.py", "pyproject.toml"} and not (folder.path / step.name).exists():
                    (folder.path / step.name).write_text(step.text)
        try:
            for step in steps_of(page):
                if step.name:
                    (folder.path / step.name).write_text(step.text)
                elif reason := reason_elsewhere(page, step.text):
                    yield f"left out  {step.text}  ({reason})"
                else:
                    began_s = time.monotonic()
                    fault = folder.execute(step.text)
                    took = f"{time.monotonic() - began_s:.0f} s"
                    yield f"FAILED    {step.text}\n{fault}" if fault else f"{took:>8}  {step.text}"
        finally:
            folder.close()


def main() -> None:
    """Execute the commands of the pages on the command line."""
    parser = argparse.ArgumentParser(description="Execute the commands of README.md and docs/tutorials.")
    parser.add_argument("pages", nargs="*", default=PAGES, help="pages, relative to the repository; all by default")
    failed = 0
    for page in parser.parse_args().pages:
        sys.stdout.write(f"{page}\n")
        for line in try_page(page):
            failed += line.startswith("FAILED")
            sys.stdout.write(f"  {line}\n")
            sys.stdout.flush()
    if failed:
        raise SystemExit(f"{failed} commands failed")


if __name__ == "__main__":
    main()
