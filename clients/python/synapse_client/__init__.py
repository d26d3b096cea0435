"""Python client for Synapse. It needs only the standard library.

>>> client = Client("head1:9000", token=open("ann.token").read())
>>> job = client.submit(["torchrun", "train.py"], tasks=4, gpus=8, time_limit=3600)
>>> for part in job.logs(follow=True):
...     print(part.data.decode(), end="")
>>> job.wait(check=True)
"""

from . import api
from .aio import AsyncClient, AsyncJob
from .client import Client, Ended, Job, spec
from .errors import (
    Conflict,
    Exhausted,
    Infeasible,
    Invalid,
    JobFailed,
    NotAllowed,
    NotFound,
    SynapseError,
    Unavailable,
)
from .executor import Executor, FunctionFailed, FunctionJob
from .transport import Unproved

__version__ = "0.1.0"

__all__ = [
    "AsyncClient", "AsyncJob", "Client", "Conflict", "Ended", "Executor", "Exhausted", "FunctionFailed",
    "FunctionJob", "Infeasible", "Invalid", "Job", "JobFailed",
    "NotAllowed", "NotFound", "SynapseError", "Unavailable", "Unproved", "api", "spec",
]
