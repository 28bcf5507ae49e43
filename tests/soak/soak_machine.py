"""Faults of a container that the kernel of this machine makes from outside: lost packets, a slow disk, a shifted clock.

All of it needs root. Packets are changed in the container's network namespace, where its own processes have no rights; the
limit of a disk is that of the container's control group; the clock is shifted by a library that its processes load.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

CLOCK_LIBRARY = Path(__file__).with_name("jumping_clock.c")
CLOCK_BYTES = 8


def loss_commands(share: float, *, add: bool) -> list[list[str]]:
    """Return what drops a share of the packets of a network namespace, each way, or no longer does."""
    change = "-A" if add else "-D"
    rule = ["-m", "statistic", "--mode", "random", "--probability", f"{share:.4f}", "-j", "DROP"]
    return [["iptables", change, chain, "!", "-i" if chain == "INPUT" else "-o", "lo", *rule] for chain in ("INPUT", "OUTPUT")]


def reorder_commands(*, add: bool, interface: str = "eth0") -> list[list[str]]:
    """Return what lets a quarter of the packets of an interface overtake others, or no longer does."""
    how = ["netem", "delay", "20ms", "5ms", "reorder", "25%", "50%"] if add else []
    return [["tc", "qdisc", "add" if add else "del", "dev", interface, "root", *how]]


def cannot_change_packets(commands: list[list[str]]) -> str:
    """Return why commands fail in a new network namespace; empty where they succeed."""
    if os.geteuid() != 0:
        return "changing the packets of a container needs root"
    if absent := [name for name in ("nsenter", "unshare", commands[0][0]) if not shutil.which(name)]:
        return f"{', '.join(absent)} not found"
    for command in commands:
        if failure := _failure(["unshare", "--net", *command]):
            return failure
    return ""


def in_network(pid: int, commands: list[list[str]]) -> None:
    """Run commands in the network namespace of a process; raises `RuntimeError` with the output of one that fails."""
    for command in commands:
        if failure := _failure(["nsenter", "--target", str(pid), "--net", *command]):
            raise RuntimeError(failure)


def throttle_file(groups: str, root: Path = Path("/sys/fs/cgroup")) -> Path | None:
    """Return the file that limits the writes of a control group; `groups`: `/proc/PID/cgroup`. None where there is none."""
    found: Path | None = None
    for line in groups.splitlines():
        _, controllers, path = line.split(":", 2)
        if "blkio" in controllers.split(","):
            found = root / "blkio" / path.lstrip("/") / "blkio.throttle.write_bps_device"
        elif not controllers and (root / "cgroup.controllers").exists():
            found = root / path.lstrip("/") / "io.max"
    return found if found is not None and found.exists() else None


def throttle_line(file: Path, device: str, bytes_per_s: int) -> str:
    """Return what limits writes to a device; 0 bytes a second: no limit."""
    if file.name == "io.max":
        return f"{device} wbps={bytes_per_s or 'max'}"
    return f"{device} {bytes_per_s}"


def throttle(pid: int, device: str, bytes_per_s: int) -> None:
    """Limit the writes of a process' control group to a device; raises `RuntimeError` where there is no such limit."""
    file = throttle_file(Path(f"/proc/{pid}/cgroup").read_text())
    if file is None:
        raise RuntimeError("the control groups of this engine have no limit for a disk")
    file.write_text(throttle_line(file, device, bytes_per_s))


def cannot_throttle() -> str:
    """Return why the writes of a control group cannot be limited; empty where they can."""
    if os.geteuid() != 0:
        return "limiting the writes of a container needs root"
    root = Path("/sys/fs/cgroup")
    if (root / "blkio/blkio.throttle.write_bps_device").exists():
        return ""
    controllers = root / "cgroup.controllers"
    return (
        "" if controllers.exists() and "io" in controllers.read_text().split() else "no control group limits input and output"
    )


def build_clock(folder: Path) -> str:
    """Compile the library that shifts clocks into `folder`; return why it cannot be, empty when it is there."""
    compiler = next((name for name in ("cc", "gcc", "clang") if shutil.which(name)), None)
    if compiler is None:
        return "no C compiler for the library that shifts a clock"
    folder.mkdir(parents=True, exist_ok=True)
    return _failure([compiler, "-O2", "-shared", "-fPIC", "-o", str(folder / "jumping_clock.so"), str(CLOCK_LIBRARY)])


def set_clock(file: Path, shift_s: int) -> None:
    """Let the clocks of all processes that have mapped `file` differ by so much, at once; a missing file is created."""
    with file.open("r+b" if file.exists() else "xb", buffering=0) as stream:
        stream.write(shift_s.to_bytes(CLOCK_BYTES, "little", signed=True))


def _failure(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"{' '.join(command)}: {(done.stderr or done.stdout).strip()}"
