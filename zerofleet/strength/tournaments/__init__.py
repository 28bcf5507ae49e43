"""Round-robin tournaments: on all cores, with a journal and ratings."""

from zerofleet.strength.tournaments.journal import ResultJournal
from zerofleet.strength.tournaments.play import play_tournament
from zerofleet.strength.tournaments.table import Duel, PlayerRow, TournamentTable, tabulate
from zerofleet.strength.tournaments.terms import TournamentTerms
from zerofleet.strength.tournaments.workers import LocalWorker, ProcessWorker, Worker

__all__ = [
    "Duel",
    "LocalWorker",
    "PlayerRow",
    "ProcessWorker",
    "ResultJournal",
    "TournamentTable",
    "TournamentTerms",
    "Worker",
    "play_tournament",
    "tabulate",
]
