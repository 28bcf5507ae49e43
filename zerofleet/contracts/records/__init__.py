"""Game records: encoding of finished games and their validation.

    PlayedGame ── encode_record ──► bytes ── decode_record ──► GameRecord ── validate ──► ValidatedGame

A record holds moves and search results, not planes. Validation replays the game with the rules, so a record cannot claim
a move, a result or a policy that the rules do not allow. Every fault of a record raises `RecordRejected` with one of
`REASONS`.
"""

from zerofleet.contracts.records.codec import SCHEMA, UID_PATTERN, decode_header, decode_record, encode_record, new_uid
from zerofleet.contracts.records.validation import REASONS, SearchColumns, ValidatedGame, validate
from zerofleet.contracts.wire.records_pb2 import GameHeader, GameRecord

__all__ = [
    "REASONS",
    "SCHEMA",
    "UID_PATTERN",
    "GameHeader",
    "GameRecord",
    "SearchColumns",
    "ValidatedGame",
    "decode_header",
    "decode_record",
    "encode_record",
    "new_uid",
    "validate",
]
