"""A ledger that accepts versions and compacts its journal meanwhile; killed at crash points by test_compaction.py.

    python compacting_victim.py DIRECTORY

Each version is printed once it is accepted.
"""

import asyncio
import sys
from pathlib import Path
from unittest import mock

import gatekeeper.ledger
from games.core import make
from gatekeeper.disk import Disk
from gatekeeper.ledger import Ledger
from zerofleet.storage.gate_journal import JOURNAL_FILE, EventJournal

MODEL = "tic_tac_toe"
ACCEPTED = 30


async def main(directory):
    journal = EventJournal(directory / JOURNAL_FILE, model=MODEL)
    with mock.patch.object(gatekeeper.ledger, "COMPACTION_BYTES", 1_000), Disk() as disk:
        ledger = Ledger(journal, model=MODEL, game=make(MODEL), disk=disk)
        ledger.load()
        for version in range(1, ACCEPTED + 1):
            await ledger.submit(version, f"{version:064x}")
            print(version, flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
