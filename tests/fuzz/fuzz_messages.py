"""Protobuf messages made and changed by their descriptors: every field of every message, without a list of names."""

from __future__ import annotations

import random
from typing import Any

from fuzz_mutation import BOUNDARIES, TEXTS, mutate_bytes
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError

__all__ = ["change_message", "mutate_message"]

_DEEPEST = 4
_UNSIGNED = {FieldDescriptor.CPPTYPE_UINT32: 32, FieldDescriptor.CPPTYPE_UINT64: 64}
_SIGNED = {FieldDescriptor.CPPTYPE_INT32: 32, FieldDescriptor.CPPTYPE_INT64: 64}
_TYPES = ("UINT8", "INT16", "FP32", "BYTES")
_CONFIG = '{"versionPolicy": {"specific": {"versions": [1]}}}'
_KNOWN = ("tic_tac_toe", "connect_four", "1", "2", "state__0", "legal__1", "policy", "value", "priority", "config", "b2")
_NAMES = (*_KNOWN, *_TYPES, _CONFIG, "file:1/model.py", "1 2 3")


def mutate_message(rng: random.Random, data: bytes, kind: Any) -> bytes:
    """Return the bytes of a message of class `kind`: fields of `data` changed, and now and then bytes of the result."""
    try:
        message = kind.FromString(data)
    except DecodeError:
        return mutate_bytes(rng, data)
    for _ in range(rng.randint(1, 4)):
        change_message(rng, message)
    content: bytes = message.SerializeToString()
    return mutate_bytes(rng, content) if rng.random() < 0.2 else content


def change_message(rng: random.Random, message: Any, depth: int = 0) -> None:
    """Change one field of a message, or one of a message inside it."""
    fields = message.DESCRIPTOR.fields
    if not fields:
        return
    field = rng.choice(fields)
    if rng.random() < 0.1:
        message.ClearField(field.name)
    elif field.is_repeated:
        _change_repeated(rng, message, field, depth)
    elif field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        if depth < _DEEPEST:
            inner = getattr(message, field.name)
            inner.SetInParent()
            change_message(rng, inner, depth + 1)
    else:
        setattr(message, field.name, _scalar(rng, field))


def _change_repeated(rng: random.Random, message: Any, field: FieldDescriptor, depth: int) -> None:
    held = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
        if value.cpp_type != FieldDescriptor.CPPTYPE_MESSAGE:
            held[_scalar(rng, key)] = _scalar(rng, value)
        elif depth < _DEEPEST:
            change_message(rng, held[_scalar(rng, key)], depth + 1)
        return
    if len(held) and rng.random() < 0.2:
        del held[rng.randrange(len(held))]
        return
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        if depth >= _DEEPEST:
            return
        if not len(held) or rng.random() < 0.3:
            held.add()
        change_message(rng, held[rng.randrange(len(held))], depth + 1)
    elif len(held) and rng.random() < 0.6:
        held[rng.randrange(len(held))] = _scalar(rng, field)
    else:
        held.extend([_scalar(rng, field)] * rng.choice((1, 1, 1, 2, 9, 300)))


def _scalar(rng: random.Random, field: FieldDescriptor) -> Any:
    kind = field.cpp_type
    if kind in _UNSIGNED:
        return rng.choice(BOUNDARIES) % 2 ** _UNSIGNED[kind]
    if kind in _SIGNED:
        bits = _SIGNED[kind]
        return (rng.choice(BOUNDARIES) + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        return rng.choice([value.number for value in field.enum_type.values])
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return rng.random() < 0.5
    if kind in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
        return rng.choice((0.0, -0.0, 0.5, 1.0, -1.0, float("nan"), float("inf"), -float("inf"), 1e30, 1e-40))
    if field.type == FieldDescriptor.TYPE_BYTES:
        return rng.randbytes(rng.choice((0, 1, 2, 16, 36, 64, 1000)))
    return rng.choice(_NAMES if rng.random() < 0.6 else TEXTS).encode(errors="ignore").decode()
