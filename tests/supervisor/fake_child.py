"""A child without a service in it: announces itself, notes what happens to it, and behaves as told.

    fake_child.py NAME NOTES ANNOUNCE BEHAVIOUR

BEHAVIOUR: good, dies (after announcing), fails_once (with a reason, as a service does), refuses (exit code 2), deaf
(ignores SIGTERM), dies_once, drains (from SIGTERM to SIGUSR1)
"""

import json
import os
import signal
import sys
from pathlib import Path

name, notes, announce, behaviour = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]


def note(what: str) -> None:
    with notes.open("a") as file:
        file.write(f"{name} {what}\n")


def starts() -> int:
    return notes.read_text().count(f"{name} starts")


def on_sigterm(*_: object) -> None:
    if behaviour == "drains":
        note("drains")
        signal.sigwait({signal.SIGUSR1})
    note("ends")
    announce.unlink()
    sys.exit(0)


crash = os.environ.get("ZEROFLEET_TEST_CRASH_AT", "nowhere")
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
signal.signal(signal.SIGTERM, signal.SIG_IGN if behaviour == "deaf" else on_sigterm)
note(f"starts crash={crash}")
first = starts() == 1
if behaviour == "refuses":
    sys.stderr.write("port 1 is taken; set another\n")
    sys.exit(2)
temporary = announce.with_suffix(".tmp")
temporary.write_text(
    json.dumps({"pid": os.getpid(), "metrics_port": 0, "address": os.environ.get("ZEROFLEET_TEST_ADDRESS", "")})
)
note("ready")  # before the announcement, after which a test may end it
temporary.replace(announce)
if behaviour == "dies" or (behaviour == "dies_once" and first):
    print(json.dumps({"event": "disk.full", "level": "error", "service": name, "path": "/x"}), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
if behaviour == "fails_once":
    if first:
        sys.stderr.write(f"{name}: the disk is full\n")
        sys.exit(1)
    if starts() == 2:
        os.kill(os.getpid(), signal.SIGKILL)
while True:
    signal.pause()
