"""Messages and their protobuf JSON: 64-bit numbers are strings, bytes are base64, and unset fields are omitted.

Unknown fields of newer schedulers are ignored. Unknown enum values stay text.
"""

from __future__ import annotations

import base64
import dataclasses
import sys
from enum import Enum
from typing import Any, Dict, Iterable, Iterator, Type, TypeVar

M = TypeVar("M", bound="Message")

# Default values by kind. All other kinds are names of messages or enums.
_NOTHING: Dict[str, Any] = {"int": 0, "long": 0, "float": 0.0, "bool": False, "str": "", "bytes": b""}


def plain(kind: str, nothing: Any = None, name: str = "") -> Any:
    """Returns a field with one value and a default."""
    return dataclasses.field(default=_NOTHING.get(kind, nothing), metadata={"kind": kind, "name": name})


def one(kind: str, name: str = "") -> Any:
    """Returns an optional field."""
    return dataclasses.field(default=None, metadata={"kind": kind, "name": name})


def many(kind: str, name: str = "") -> Any:
    """Returns a repeated field."""
    return dataclasses.field(default_factory=list, metadata={"kind": kind, "name": name, "many": True})


@dataclasses.dataclass
class Message:
    """Base class of all messages."""

    def to_json(self) -> Dict[str, Any]:
        """Returns the message as an object for json.dumps."""
        out: Dict[str, Any] = {}
        for f in dataclasses.fields(self):
            value, kind = getattr(self, f.name), f.metadata["kind"]
            if value is None or value == [] or (f.default is not None and value == f.default):
                continue
            name = f.metadata["name"] or f.name
            out[name] = [_to_json(kind, v) for v in value] if f.metadata.get("many") else _to_json(kind, value)
        return out

    @classmethod
    def from_json(cls: Type[M], data: Dict[str, Any]) -> M:
        """Makes a message from an object of json.loads."""
        module, known = vars(sys.modules[cls.__module__]), {}
        for f in dataclasses.fields(cls):
            name = f.metadata["name"] or f.name
            if data.get(name) is None:
                continue
            kind, value = f.metadata["kind"], data[name]
            known[f.name] = (
                [_from_json(kind, v, module) for v in value] if f.metadata.get("many") else _from_json(kind, value, module)
            )
        return cls(**known)


def _to_json(kind: str, value: Any) -> Any:
    if isinstance(value, Message):
        return value.to_json()
    if isinstance(value, Enum):
        return value.value
    if kind == "long":
        return str(int(value))
    if kind == "bytes":
        return base64.b64encode(value).decode("ascii")
    return value


def _from_json(kind: str, value: Any, module: Dict[str, Any]) -> Any:
    if kind == "long":
        return int(value)
    if kind == "bytes":
        return base64.b64decode(value)
    if kind in _NOTHING:
        return value
    of = module[kind]
    if issubclass(of, Message):
        return of.from_json(value)
    try:
        return of(value)
    except ValueError:
        return value


class Answers(Iterator[M]):
    """A stream of answers. Any thread may close it."""

    def close(self) -> None:
        """Ends the stream."""
        raise NotImplementedError

    def __iter__(self) -> "Answers[M]":
        return self

    def __enter__(self) -> "Answers[M]":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Transport:
    """Interface that makes the calls. transport.HTTP implements it."""

    def call(self, name: str, request: Message, answer: Type[M]) -> M:
        """Makes a call with one answer."""
        raise NotImplementedError

    def stream(self, name: str, request: Message, answer: Type[M]) -> Answers[M]:
        """Makes a call with a stream of answers."""
        raise NotImplementedError

    def converse(self, name: str, requests: Iterable[Any], answer: Type[M]) -> Answers[M]:
        """Makes a call with a stream of requests and a stream of answers."""
        raise NotImplementedError
