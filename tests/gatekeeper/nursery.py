"""Forks the gatekeeper processes that `killed_process.run` asks for: the imports, most of their time, happen once.

Reads lines of JSON from standard input: script, directory, crash point, file of the output, file of the errors. Answers each
with the exit code of the forked process, which ran `main` of the script. This process itself opens nothing and has one thread.
"""

import asyncio
import importlib
import json
import os
import sys
import traceback
from pathlib import Path

from zerofleet.storage.crash_points import VARIABLE

SCRIPTS = {name: importlib.import_module(name) for name in ("compacting_victim", "victim", "watch_victim")}


def become(script, directory, crash_at, out, errors):
    """Run a script in this forked process, to its end or its death."""
    code = 1
    try:
        for number, path in ((1, out), (2, errors)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        if crash_at:
            os.environ[VARIABLE] = crash_at
        asyncio.run(SCRIPTS[script].main(Path(directory)))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main():
    """Fork one process for each line, and wait for it."""
    for line in sys.stdin:
        process = os.fork()
        if not process:
            become(*json.loads(line))
        _, status = os.waitpid(process, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
