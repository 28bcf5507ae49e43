"""Gatekeeper without port, ladder and pruning: ledger, pointer and crew, on the files of a directory."""

from games.core import make
from gatekeeper.crew import Crew
from gatekeeper.disk import Disk
from gatekeeper.lease import Lease
from gatekeeper.ledger import Ledger
from gatekeeper.pointer import ChampionPointer
from gatekeeper.promoter import Promoter
from gatekeeper.served_versions import Serving
from gatekeeper.verdicts import Verdicts
from zerofleet.storage.gate_journal import EventJournal

MODEL = "tic_tac_toe"


class Portless:
    """Base of gatekeepers in tests, which add an arbiter, and a watch if they need one."""

    def __init__(self, root, models, inference, referee):
        self.disk = Disk()
        self.lease = Lease.acquire(root / "models" / MODEL)
        game = make(MODEL)
        self.ledger = Ledger(EventJournal(root / "journal.jsonl", model=MODEL), model=MODEL, game=game, disk=self.disk)
        self.ledger.load()
        self.pointer = ChampionPointer(models.store, MODEL, self.lease, self.disk)
        serving = Serving(inference, MODEL, self.pointer, recheck_s=1.0)
        self.crew = Crew(
            ledger=self.ledger,
            pointer=self.pointer,
            serving=serving,
            referee=referee,
            promoter=Promoter(game, models.store, MODEL, pointer=self.pointer, serving=serving, disk=self.disk),
            verdicts=Verdicts(self.ledger, referee),
            evaluator=inference,
        )

    def close(self):
        """Release the lease and the thread of the disk, as a kill would; the loops must have ended."""
        self.lease.release()
        self.disk.__exit__(None, None, None)
