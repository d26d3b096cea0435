"""What goes wrong, in the scheduler's words: which field, why, and the way out."""

from __future__ import annotations

import json
from typing import Any, Optional


class SynapseError(Exception):
    """A call that was refused, or could not be made. Its code is one of the API's, as CODE_INVALID."""

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
    """A field is wrong."""


class NotAllowed(SynapseError):
    """It is not known who asks, or who asks may not."""


class NotFound(SynapseError):
    """There is no such thing."""


class Conflict(SynapseError):
    """It is otherwise already."""


class Infeasible(SynapseError):
    """No machine of the cluster could ever hold it."""


class Unavailable(SynapseError):
    """No scheduler answers, or none leads now."""


class Exhausted(SynapseError):
    """Too much was asked for at once."""


class JobFailed(SynapseError):
    """A job ended otherwise than well; status_ is how."""

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
    """The error that an answer tells."""
    data = data if isinstance(data, dict) else {}
    code = str(data.get("code", "CODE_UNSPECIFIED"))
    return _CLASSES.get(code, SynapseError)(
        str(data.get("text", "")) or f"the scheduler answers with status {status}",
        code,
        str(data.get("field", "")),
        str(data.get("hint", "")),
        status,
        leader,
        float(retry_after) if retry_after.isdigit() else 0.0,
    )


def read(text: bytes, status: int, leader: str, retry_after: str) -> SynapseError:
    """The error in the body of an answer that went wrong."""
    data: Optional[Any] = None
    try:
        data = json.loads(text)["error"]
    except (ValueError, KeyError, TypeError):
        pass  # what answers is no scheduler, or an earlier one, and its status says as much as it can
    return told(data, status, leader, retry_after)
