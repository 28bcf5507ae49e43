from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class MoveFlag(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MOVE_FLAG_UNSPECIFIED: _ClassVar[MoveFlag]
    MOVE_FLAG_FULL_SEARCH: _ClassVar[MoveFlag]
    MOVE_FLAG_WOULD_RESIGN: _ClassVar[MoveFlag]
    MOVE_FLAG_REDUCED: _ClassVar[MoveFlag]
    MOVE_FLAG_EXPLORATORY: _ClassVar[MoveFlag]
MOVE_FLAG_UNSPECIFIED: MoveFlag
MOVE_FLAG_FULL_SEARCH: MoveFlag
MOVE_FLAG_WOULD_RESIGN: MoveFlag
MOVE_FLAG_REDUCED: MoveFlag
MOVE_FLAG_EXPLORATORY: MoveFlag

class SearchedMove(_message.Message):
    __slots__ = ("ply", "model_version", "actions", "visits", "target", "root_value", "flags", "behaviour", "pool", "pool_scores")
    PLY_FIELD_NUMBER: _ClassVar[int]
    MODEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    ACTIONS_FIELD_NUMBER: _ClassVar[int]
    VISITS_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    ROOT_VALUE_FIELD_NUMBER: _ClassVar[int]
    FLAGS_FIELD_NUMBER: _ClassVar[int]
    BEHAVIOUR_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    POOL_SCORES_FIELD_NUMBER: _ClassVar[int]
    ply: int
    model_version: int
    actions: _containers.RepeatedScalarFieldContainer[int]
    visits: _containers.RepeatedScalarFieldContainer[int]
    target: _containers.RepeatedScalarFieldContainer[int]
    root_value: _containers.RepeatedScalarFieldContainer[float]
    flags: int
    behaviour: float
    pool: _containers.RepeatedScalarFieldContainer[int]
    pool_scores: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, ply: _Optional[int] = ..., model_version: _Optional[int] = ..., actions: _Optional[_Iterable[int]] = ..., visits: _Optional[_Iterable[int]] = ..., target: _Optional[_Iterable[int]] = ..., root_value: _Optional[_Iterable[float]] = ..., flags: _Optional[int] = ..., behaviour: _Optional[float] = ..., pool: _Optional[_Iterable[int]] = ..., pool_scores: _Optional[_Iterable[float]] = ...) -> None: ...

class GameRecord(_message.Message):
    __slots__ = ("schema", "uid", "game", "parameters", "rules_version", "seat_versions", "seed", "worker_id", "moves", "searched", "scores", "resigned_seat", "finished_at_ms", "resignation_control", "seat_agents", "learner_seat")
    class ParametersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    GAME_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    RULES_VERSION_FIELD_NUMBER: _ClassVar[int]
    SEAT_VERSIONS_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    MOVES_FIELD_NUMBER: _ClassVar[int]
    SEARCHED_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    RESIGNED_SEAT_FIELD_NUMBER: _ClassVar[int]
    FINISHED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    RESIGNATION_CONTROL_FIELD_NUMBER: _ClassVar[int]
    SEAT_AGENTS_FIELD_NUMBER: _ClassVar[int]
    LEARNER_SEAT_FIELD_NUMBER: _ClassVar[int]
    schema: int
    uid: str
    game: str
    parameters: _containers.ScalarMap[str, str]
    rules_version: int
    seat_versions: _containers.RepeatedScalarFieldContainer[int]
    seed: int
    worker_id: str
    moves: _containers.RepeatedScalarFieldContainer[int]
    searched: _containers.RepeatedCompositeFieldContainer[SearchedMove]
    scores: _containers.RepeatedScalarFieldContainer[float]
    resigned_seat: int
    finished_at_ms: int
    resignation_control: bool
    seat_agents: _containers.RepeatedScalarFieldContainer[str]
    learner_seat: int
    def __init__(self, schema: _Optional[int] = ..., uid: _Optional[str] = ..., game: _Optional[str] = ..., parameters: _Optional[_Mapping[str, str]] = ..., rules_version: _Optional[int] = ..., seat_versions: _Optional[_Iterable[int]] = ..., seed: _Optional[int] = ..., worker_id: _Optional[str] = ..., moves: _Optional[_Iterable[int]] = ..., searched: _Optional[_Iterable[_Union[SearchedMove, _Mapping]]] = ..., scores: _Optional[_Iterable[float]] = ..., resigned_seat: _Optional[int] = ..., finished_at_ms: _Optional[int] = ..., resignation_control: _Optional[bool] = ..., seat_agents: _Optional[_Iterable[str]] = ..., learner_seat: _Optional[int] = ...) -> None: ...

class GameHeader(_message.Message):
    __slots__ = ("schema", "seat_versions", "worker_id", "moves", "scores", "resigned_seat")
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    SEAT_VERSIONS_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    MOVES_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    RESIGNED_SEAT_FIELD_NUMBER: _ClassVar[int]
    schema: int
    seat_versions: _containers.RepeatedScalarFieldContainer[int]
    worker_id: str
    moves: _containers.RepeatedScalarFieldContainer[int]
    scores: _containers.RepeatedScalarFieldContainer[float]
    resigned_seat: int
    def __init__(self, schema: _Optional[int] = ..., seat_versions: _Optional[_Iterable[int]] = ..., worker_id: _Optional[str] = ..., moves: _Optional[_Iterable[int]] = ..., scores: _Optional[_Iterable[float]] = ..., resigned_seat: _Optional[int] = ...) -> None: ...
