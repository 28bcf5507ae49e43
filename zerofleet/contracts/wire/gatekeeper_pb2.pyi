from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CandidateStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CANDIDATE_STATUS_UNSPECIFIED: _ClassVar[CandidateStatus]
    CANDIDATE_STATUS_QUEUED: _ClassVar[CandidateStatus]
    CANDIDATE_STATUS_PLAYING: _ClassVar[CandidateStatus]
    CANDIDATE_STATUS_PROMOTED: _ClassVar[CandidateStatus]
    CANDIDATE_STATUS_REJECTED: _ClassVar[CandidateStatus]
    CANDIDATE_STATUS_BROKEN: _ClassVar[CandidateStatus]
    CANDIDATE_STATUS_SUPERSEDED: _ClassVar[CandidateStatus]
    CANDIDATE_STATUS_TRIAL: _ClassVar[CandidateStatus]
    CANDIDATE_STATUS_UNPROVEN: _ClassVar[CandidateStatus]
    CANDIDATE_STATUS_WEAKER: _ClassVar[CandidateStatus]
CANDIDATE_STATUS_UNSPECIFIED: CandidateStatus
CANDIDATE_STATUS_QUEUED: CandidateStatus
CANDIDATE_STATUS_PLAYING: CandidateStatus
CANDIDATE_STATUS_PROMOTED: CandidateStatus
CANDIDATE_STATUS_REJECTED: CandidateStatus
CANDIDATE_STATUS_BROKEN: CandidateStatus
CANDIDATE_STATUS_SUPERSEDED: CandidateStatus
CANDIDATE_STATUS_TRIAL: CandidateStatus
CANDIDATE_STATUS_UNPROVEN: CandidateStatus
CANDIDATE_STATUS_WEAKER: CandidateStatus

class SubmitCandidateRequest(_message.Message):
    __slots__ = ("game", "version", "manifest_sha256")
    GAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_SHA256_FIELD_NUMBER: _ClassVar[int]
    game: str
    version: int
    manifest_sha256: str
    def __init__(self, game: _Optional[str] = ..., version: _Optional[int] = ..., manifest_sha256: _Optional[str] = ...) -> None: ...

class MatchResult(_message.Message):
    __slots__ = ("champion_version", "wins", "draws", "losses", "pentanomial", "share", "share_low", "share_high", "log_likelihood_ratio")
    CHAMPION_VERSION_FIELD_NUMBER: _ClassVar[int]
    WINS_FIELD_NUMBER: _ClassVar[int]
    DRAWS_FIELD_NUMBER: _ClassVar[int]
    LOSSES_FIELD_NUMBER: _ClassVar[int]
    PENTANOMIAL_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    SHARE_LOW_FIELD_NUMBER: _ClassVar[int]
    SHARE_HIGH_FIELD_NUMBER: _ClassVar[int]
    LOG_LIKELIHOOD_RATIO_FIELD_NUMBER: _ClassVar[int]
    champion_version: int
    wins: int
    draws: int
    losses: int
    pentanomial: _containers.RepeatedScalarFieldContainer[int]
    share: float
    share_low: float
    share_high: float
    log_likelihood_ratio: float
    def __init__(self, champion_version: _Optional[int] = ..., wins: _Optional[int] = ..., draws: _Optional[int] = ..., losses: _Optional[int] = ..., pentanomial: _Optional[_Iterable[int]] = ..., share: _Optional[float] = ..., share_low: _Optional[float] = ..., share_high: _Optional[float] = ..., log_likelihood_ratio: _Optional[float] = ...) -> None: ...

class Candidate(_message.Message):
    __slots__ = ("game", "version", "status", "match", "reason")
    GAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    MATCH_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    game: str
    version: int
    status: CandidateStatus
    match: MatchResult
    reason: str
    def __init__(self, game: _Optional[str] = ..., version: _Optional[int] = ..., status: _Optional[_Union[CandidateStatus, str]] = ..., match: _Optional[_Union[MatchResult, _Mapping]] = ..., reason: _Optional[str] = ...) -> None: ...

class Champion(_message.Message):
    __slots__ = ("game", "version", "epoch", "manifest_sha256", "promoted_at_ms", "reason", "exported_at_ms")
    GAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_SHA256_FIELD_NUMBER: _ClassVar[int]
    PROMOTED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    EXPORTED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    game: str
    version: int
    epoch: int
    manifest_sha256: str
    promoted_at_ms: int
    reason: str
    exported_at_ms: int
    def __init__(self, game: _Optional[str] = ..., version: _Optional[int] = ..., epoch: _Optional[int] = ..., manifest_sha256: _Optional[str] = ..., promoted_at_ms: _Optional[int] = ..., reason: _Optional[str] = ..., exported_at_ms: _Optional[int] = ...) -> None: ...

class GetChampionRequest(_message.Message):
    __slots__ = ("game",)
    GAME_FIELD_NUMBER: _ClassVar[int]
    game: str
    def __init__(self, game: _Optional[str] = ...) -> None: ...

class WatchChampionRequest(_message.Message):
    __slots__ = ("game",)
    GAME_FIELD_NUMBER: _ClassVar[int]
    game: str
    def __init__(self, game: _Optional[str] = ...) -> None: ...

class ListModelsRequest(_message.Message):
    __slots__ = ("game", "page_size", "cursor")
    GAME_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    game: str
    page_size: int
    cursor: str
    def __init__(self, game: _Optional[str] = ..., page_size: _Optional[int] = ..., cursor: _Optional[str] = ...) -> None: ...

class ListModelsReply(_message.Message):
    __slots__ = ("models", "champion", "cursor", "has_more")
    MODELS_FIELD_NUMBER: _ClassVar[int]
    CHAMPION_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    HAS_MORE_FIELD_NUMBER: _ClassVar[int]
    models: _containers.RepeatedCompositeFieldContainer[Candidate]
    champion: Champion
    cursor: str
    has_more: bool
    def __init__(self, models: _Optional[_Iterable[_Union[Candidate, _Mapping]]] = ..., champion: _Optional[_Union[Champion, _Mapping]] = ..., cursor: _Optional[str] = ..., has_more: _Optional[bool] = ...) -> None: ...

class PromoteRequest(_message.Message):
    __slots__ = ("game", "version", "reason", "without_self_test")
    GAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_SELF_TEST_FIELD_NUMBER: _ClassVar[int]
    game: str
    version: int
    reason: str
    without_self_test: bool
    def __init__(self, game: _Optional[str] = ..., version: _Optional[int] = ..., reason: _Optional[str] = ..., without_self_test: _Optional[bool] = ...) -> None: ...

class RollbackRequest(_message.Message):
    __slots__ = ("game", "reason")
    GAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    game: str
    reason: str
    def __init__(self, game: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class GetLadderRequest(_message.Message):
    __slots__ = ("game",)
    GAME_FIELD_NUMBER: _ClassVar[int]
    game: str
    def __init__(self, game: _Optional[str] = ...) -> None: ...

class Rung(_message.Message):
    __slots__ = ("name", "elo", "elo_low", "elo_high", "games", "anchored")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ELO_FIELD_NUMBER: _ClassVar[int]
    ELO_LOW_FIELD_NUMBER: _ClassVar[int]
    ELO_HIGH_FIELD_NUMBER: _ClassVar[int]
    GAMES_FIELD_NUMBER: _ClassVar[int]
    ANCHORED_FIELD_NUMBER: _ClassVar[int]
    name: str
    elo: float
    elo_low: float
    elo_high: float
    games: int
    anchored: bool
    def __init__(self, name: _Optional[str] = ..., elo: _Optional[float] = ..., elo_low: _Optional[float] = ..., elo_high: _Optional[float] = ..., games: _Optional[int] = ..., anchored: _Optional[bool] = ...) -> None: ...

class Ladder(_message.Message):
    __slots__ = ("game", "rungs")
    GAME_FIELD_NUMBER: _ClassVar[int]
    RUNGS_FIELD_NUMBER: _ClassVar[int]
    game: str
    rungs: _containers.RepeatedCompositeFieldContainer[Rung]
    def __init__(self, game: _Optional[str] = ..., rungs: _Optional[_Iterable[_Union[Rung, _Mapping]]] = ...) -> None: ...
