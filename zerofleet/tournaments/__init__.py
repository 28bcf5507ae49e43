"""Tournaments: everybody against everybody, on all cores, kept in a journal, with ratings at the end."""

from zerofleet.tournaments.journal import ResultJournal
from zerofleet.tournaments.play import play_tournament
from zerofleet.tournaments.table import Duel, PlayerRow, TournamentTable, tabulate
from zerofleet.tournaments.terms import TournamentTerms
from zerofleet.tournaments.workers import LocalWorker, ProcessWorker, Worker

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
