"""Errors of the API: the field, the reason and a suggestion."""

from __future__ import annotations

import json
from typing import Any, Optional


class SynapseError(Exception):
    """A call was refused or could not be made. The code is one of the API, such as CODE_INVALID."""

    def __init__(
        self,
        text: str,
        code: str = "CODE_UNSPECIFIED",
        field: str = "",
        hint: str = "",
        status: int = 0,
        leader: str = "",
        retry_after: float = 0.0,
    ) -> None:
        super().__init__(text)
        self.text, self.code, self.field, self.hint = text, code, field, hint
        self.status, self.leader, self.retry_after = status, leader, retry_after

    def __str__(self) -> str:
        words = f"{self.field}: {self.text}" if self.field else self.text
        return f"{words} ({self.hint})" if self.hint else words


class Invalid(SynapseError):
    """A field is invalid."""


class NotAllowed(SynapseError):
    """Authentication failed, or the user lacks the right."""


class NotFound(SynapseError):
    """The object does not exist."""


class Conflict(SynapseError):
    """The call does not fit the state of the object."""


class Infeasible(SynapseError):
    """The job can never run on this cluster."""


class Unavailable(SynapseError):
    """No scheduler answers, or none leads at the moment."""


class Exhausted(SynapseError):
    """The call exceeds a limit."""


class JobFailed(SynapseError):
    """A job finished without success. The attribute job has its status."""

    def __init__(self, text: str, job: Any = None) -> None:
        super().__init__(text, code="CODE_CONFLICT")
        self.job = job


_CLASSES = {
    "CODE_INVALID": Invalid,
    "CODE_NOT_FOUND": NotFound,
    "CODE_CONFLICT": Conflict,
    "CODE_NOT_ALLOWED": NotAllowed,
    "CODE_INFEASIBLE": Infeasible,
    "CODE_UNAVAILABLE": Unavailable,
    "CODE_EXHAUSTED": Exhausted,
}


def told(data: Any, status: int = 0, leader: str = "", retry_after: str = "") -> SynapseError:
    """Returns the exception for an error object of the API."""
    data = data if isinstance(data, dict) else {}
    code = str(data.get("code", "CODE_UNSPECIFIED"))
    return _CLASSES.get(code, SynapseError)(
        str(data.get("text", "")) or f"the scheduler returned HTTP status {status}",
        code,
        str(data.get("field", "")),
        str(data.get("hint", "")),
        status,
        leader,
        float(retry_after) if retry_after.isdigit() else 0.0,
    )


def read(text: bytes, status: int, leader: str, retry_after: str) -> SynapseError:
    """Returns the exception for an HTTP error and its body."""
    data: Optional[Any] = None
    try:
        data = json.loads(text)["error"]
    except (ValueError, KeyError, TypeError):
        pass  # the body is not from a scheduler of this version: report the status
    return told(data, status, leader, retry_after)
