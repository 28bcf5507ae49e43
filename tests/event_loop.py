"""Compiled code that is loaded or compiled on an event loop, where it keeps a service from answering for seconds.

`loaded_by` runs a script in a process of its own: in this one, another test may have loaded the code before. The script calls
`watch` on the thread of its event loop and prints what it returned, as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from games import compiled

__all__ = ["loaded_by", "watch"]


def watch() -> list[str]:
    """Return the list to which every load or compilation on this thread is added from now on."""
    this, seen, cache_of = threading.current_thread(), [], compiled.cache_of

    def noted(entry: Any) -> Any:
        if threading.current_thread() is this:
            seen.append(f"{entry.py_func.__module__}.{entry.py_func.__qualname__}")
        return cache_of(entry)

    compiled.cache_of = noted
    return seen


def loaded_by(script: Path, *arguments: Path) -> Any:
    """Return what a script prints last."""
    done = subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])
