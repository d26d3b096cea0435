"""Messages and their JSON, as protobuf has it: 64 bits are strings there, bytes are base64, what is unset is left out.

What a newer scheduler says and this client does not know is passed over; a value of an enum that it does not know stays
the text that it is.
"""

from __future__ import annotations

import base64
import dataclasses
import sys
from enum import Enum
from typing import Any, Dict, Iterable, Iterator, Type, TypeVar

M = TypeVar("M", bound="Message")

# The values of what is not set, by kind. A kind that is none of these is a message's or an enum's name.
_NOTHING: Dict[str, Any] = {"int": 0, "long": 0, "float": 0.0, "bool": False, "str": "", "bytes": b""}


def plain(kind: str, nothing: Any = None, name: str = "") -> Any:
    """A field with one value, which is nothing where it is not set."""
    return dataclasses.field(default=_NOTHING.get(kind, nothing), metadata={"kind": kind, "name": name})


def one(kind: str, name: str = "") -> Any:
    """A field that is there or not."""
    return dataclasses.field(default=None, metadata={"kind": kind, "name": name})


def many(kind: str, name: str = "") -> Any:
    """A field with any number of values."""
    return dataclasses.field(default_factory=list, metadata={"kind": kind, "name": name, "many": True})


@dataclasses.dataclass
class Message:
    """What all messages have in common."""

    def to_json(self) -> Dict[str, Any]:
        """The message as json.dumps takes it."""
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
        """The message that json.loads has read."""
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
    """Many answers, as they come. Its close, from whichever thread, ends it."""

    def close(self) -> None:
        """Ends it."""
        raise NotImplementedError

    def __iter__(self) -> "Answers[M]":
        return self

    def __enter__(self) -> "Answers[M]":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Transport:
    """How calls are made; transport.HTTP is the one that there is."""

    def call(self, name: str, request: Message, answer: Type[M]) -> M:
        """A call that is answered once."""
        raise NotImplementedError

    def stream(self, name: str, request: Message, answer: Type[M]) -> Answers[M]:
        """A call with many answers."""
        raise NotImplementedError

    def converse(self, name: str, requests: Iterable[Any], answer: Type[M]) -> Answers[M]:
        """A call that is asked by many messages while it is answered."""
        raise NotImplementedError
