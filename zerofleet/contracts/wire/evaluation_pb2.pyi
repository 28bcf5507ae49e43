from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EvaluateRequest(_message.Message):
    __slots__ = ("game", "parameters", "moves", "model_version", "simulations", "seed")
    class ParametersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    GAME_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    MOVES_FIELD_NUMBER: _ClassVar[int]
    MODEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    SIMULATIONS_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    game: str
    parameters: _containers.ScalarMap[str, str]
    moves: _containers.RepeatedScalarFieldContainer[str]
    model_version: int
    simulations: int
    seed: int
    def __init__(self, game: _Optional[str] = ..., parameters: _Optional[_Mapping[str, str]] = ..., moves: _Optional[_Iterable[str]] = ..., model_version: _Optional[int] = ..., simulations: _Optional[int] = ..., seed: _Optional[int] = ...) -> None: ...

class EvaluatedMove(_message.Message):
    __slots__ = ("move", "action", "prior", "visits", "value")
    MOVE_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    PRIOR_FIELD_NUMBER: _ClassVar[int]
    VISITS_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    move: str
    action: int
    prior: float
    visits: int
    value: float
    def __init__(self, move: _Optional[str] = ..., action: _Optional[int] = ..., prior: _Optional[float] = ..., visits: _Optional[int] = ..., value: _Optional[float] = ...) -> None: ...

class EvaluateReply(_message.Message):
    __slots__ = ("game", "model_version", "to_move", "value", "moves", "principal_variation", "is_over")
    GAME_FIELD_NUMBER: _ClassVar[int]
    MODEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    TO_MOVE_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    MOVES_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_VARIATION_FIELD_NUMBER: _ClassVar[int]
    IS_OVER_FIELD_NUMBER: _ClassVar[int]
    game: str
    model_version: int
    to_move: int
    value: _containers.RepeatedScalarFieldContainer[float]
    moves: _containers.RepeatedCompositeFieldContainer[EvaluatedMove]
    principal_variation: _containers.RepeatedScalarFieldContainer[str]
    is_over: bool
    def __init__(self, game: _Optional[str] = ..., model_version: _Optional[int] = ..., to_move: _Optional[int] = ..., value: _Optional[_Iterable[float]] = ..., moves: _Optional[_Iterable[_Union[EvaluatedMove, _Mapping]]] = ..., principal_variation: _Optional[_Iterable[str]] = ..., is_over: _Optional[bool] = ...) -> None: ...
