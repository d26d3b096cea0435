"""Python functions as jobs, with an interface like submitit: an Executor, its jobs, and their results.

Functions, arguments and results are files in a folder that all nodes share under the same path.
The Executor uses cloudpickle if it is installed. Otherwise, it uses pickle: each function must be importable from its
module by name, and each task loads the module of the main program again, as multiprocessing does.
"""

from __future__ import annotations

import multiprocessing.spawn
import os
import pickle
import sys
import traceback
import uuid
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

from . import api, errors
from .client import _OVER, Client, loading, spec

try:
    import pwd
except ImportError:  # not on this system
    pwd = None  # type: ignore[assignment]

try:
    import cloudpickle as _pickle
except ImportError:
    _pickle = pickle

# Maps the parameters of submitit to those of spec. A prefix slurm_ is ignored.
_PARAMETERS = {
    "name": "name", "job_name": "name", "partition": "queue", "queue": "queue", "qos": "priority", "priority": "priority",
    "timeout_min": "time_limit", "time": "time_limit", "nodes": "tasks", "tasks": "tasks", "gpus_per_node": "gpus",
    "gpus": "gpus", "cpus_per_task": "cpus", "cpus": "cpus", "mem_gb": "memory", "mem": "memory", "memory": "memory",
    "image": "image", "env": "env", "labels": "labels", "workdir": "workdir", "user": "user", "array_parallelism": "array_parallelism",
}


_LAST_LINES = 10


class FunctionFailed(errors.SynapseError):
    """The function raised an exception. The text has the traceback; __cause__ has the exception if it can be pickled."""


class FunctionJob:
    """One call of a function, as a job or as an element of an array."""

    def __init__(self, executor: "Executor", job: str, index: Optional[int], stem: str, tasks: int) -> None:
        self.executor, self.index, self.tasks = executor, index, tasks
        self._job, self._stem = job, stem

    @property
    def job_id(self) -> str:
        """The ID of the job. For an element of an array, the index follows, as in submitit."""
        return self._job if self.index is None else f"{self._job}_{self.index}"

    def __repr__(self) -> str:
        return f"FunctionJob({self.job_id!r})"

    def _status(self) -> Optional[api.JobStatus]:
        """Returns the status, or None for an element that is not a job yet."""
        if self.index is None:
            return self.executor.client.job(self._job).status()
        for status in self.executor.client.jobs(array=self._job, elements=True):
            if _index(status) == self.index:
                return status
        return None

    @property
    def state(self) -> str:
        """The phase of the job."""
        status = self._status()
        return status.phase if status is not None else "queued"

    def done(self) -> bool:
        """Reports whether the job has finished."""
        status = self._status()
        return status is not None and status.record is not None and status.record.state in _OVER

    def wait(self, timeout: Optional[float] = None) -> api.JobStatus:
        """Waits until the job finishes, and returns its status."""
        if self.index is None:
            return self.executor.client.job(self._job).wait(timeout)
        for event in self.executor.client.watch(array=self._job, present=True, timeout=timeout):
            if event.job is None or event.job.record is None:
                continue
            if _index(event.job) == self.index and event.job.record.state in _OVER:
                return event.job
            if event.job.record.id == self._job and event.job.record.state in _OVER and not self.done():
                return event.job  # the array finished before this element became a job
        raise TimeoutError(f"{self.job_id} has not finished after {timeout} s")

    def results(self, timeout: Optional[float] = None) -> List[Any]:
        """Waits, and returns the results of all tasks by rank."""
        status = self.wait(timeout)
        found = [self._result(rank) for rank in range(self.tasks)]
        for good, value, text in (f for f in found if f is not None):
            if not good:
                raise FunctionFailed(text) from value
        if any(f is None for f in found):
            record = status.record or api.JobRecord()
            text = f"{self.job_id} is {status.phase}: {record.outcome or status.reason}"
            raise errors.JobFailed(text + self._last_words(record.id, found), status)
        return [f[1] for f in found if f is not None]

    def result(self, timeout: Optional[float] = None) -> Any:
        """Waits, and returns the result of task 0."""
        return self.results(timeout)[0]

    def exception(self, timeout: Optional[float] = None) -> Optional[BaseException]:
        """Waits, and returns the exception, or None if the function succeeded."""
        try:
            self.results(timeout)
        except (FunctionFailed, errors.JobFailed) as e:
            return e
        return None

    def cancel(self) -> None:
        """Cancels the job."""
        status = self._status()
        if status is not None and status.record is not None:
            self.executor.client.job(status.record.id).cancel()

    def stdout(self) -> str:
        """Returns the standard output of task 0."""
        status = self._status()
        if status is None or status.record is None:
            return ""
        return self.executor.client.job(status.record.id).output()

    def _last_words(self, job: str, found: List[Optional[Tuple[bool, Any, str]]]) -> str:
        """Returns the last lines of stderr of the first task without a result, to add to an error."""
        rank = next(i for i, one in enumerate(found) if one is None)
        try:
            parts = self.executor.client.job(job).logs(ranks=[rank], tail_lines=_LAST_LINES)
            text = b"".join(part.data for part in parts if part.stderr).decode("utf-8", "replace")
        except errors.SynapseError:
            return ""  # the job never ran, or its node does not answer
        lines = text.splitlines()[-_LAST_LINES:]
        return "".join(f"\n  stderr of rank {rank}: {line}" for line in lines)

    def _result(self, rank: int) -> Optional[Tuple[bool, Any, str]]:
        try:
            with open(_result_file(self._stem, self.index, rank), "rb") as file:
                good, value, text = pickle.load(file)
                return good, value, text
        except FileNotFoundError:
            return None


class Executor:
    """Submits functions. All nodes must share the folder under the same path."""

    def __init__(self, folder: str, client: Optional[Client] = None, python: str = sys.executable) -> None:
        self.folder, self.client, self.python = os.path.abspath(folder), client or Client(), python
        self.parameters: Dict[str, Any] = {}
        self._name: Optional[str] = None  # of the caller at the scheduler; None: not asked yet
        os.makedirs(self.folder, exist_ok=True)

    def update_parameters(self, **more: Any) -> None:
        """Sets parameters for later jobs, by the names of submitit or of spec."""
        for word, value in more.items():
            name = _PARAMETERS.get(word[len("slurm_") :] if word.startswith("slurm_") else word)
            if name is None:
                known = ", ".join(sorted(_PARAMETERS))
                raise errors.Invalid("unknown parameter", "CODE_INVALID", word, f"use one of {known}")
            if name == "time_limit":
                value = value * 60
            elif word.endswith("mem_gb"):
                value = f"{value}GiB"
            self.parameters[name] = value

    def submit(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> FunctionJob:
        """Submits one call of a function as a job."""
        return self._send([(function, args, kwargs)], array=False)[0]

    def map_array(self, function: Callable[..., Any], *iterables: Iterable[Any]) -> List[FunctionJob]:
        """Submits one call for each set of arguments, as an array."""
        calls = [(function, args, {}) for args in zip(*iterables)]
        return self._send(calls, array=True) if calls else []

    def _is_me(self) -> bool:
        """Reports whether the cluster knows the caller by the name of the caller's account.

        Tasks then run as this account, so that they can write to the folder. The account root is never used.
        """
        if pwd is None or os.geteuid() == 0:
            return False
        if self._name is None:
            who = self.client.api.who_am_i(api.WhoAmI())
            self._name = who.name if who.cluster else ""
        try:
            return pwd.getpwuid(os.geteuid()).pw_name == self._name
        except KeyError:
            return False

    def _send(self, calls: List[Tuple[Any, Any, Any]], array: bool) -> List[FunctionJob]:
        stem = os.path.join(self.folder, uuid.uuid4().hex)
        with open(stem + ".pkl", "wb") as file:
            pickle.dump(_main() if _pickle is pickle else {}, file)
            _pickle.dump(calls, file)
        asks = dict(self.parameters)
        most = asks.pop("array_parallelism", 0)
        env = {"PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path), **asks.pop("env", {})}
        asks.setdefault("name", getattr(calls[0][0], "__name__", "function").lower().replace("_", "-").strip("-<>"))
        asks["mounts"] = [self.folder]
        if "user" not in asks and self._is_me():
            asks["user"] = "me"
        job = spec([self.python, "-u", "-m", "synapse_client", stem], env=env, **asks)
        if array:
            job.array = api.ArraySpec(indices=[api.IndexRange(first=0, last=len(calls) - 1)], max_running=most)
        sent = self.client.submit(job)
        return [
            FunctionJob(self, sent.id, i if array else None, stem, int(asks.get("tasks", 1))) for i in range(len(calls))
        ]


def _index(status: api.JobStatus) -> Optional[int]:
    """Returns the index of an array element, or None for other jobs."""
    element = status.record.spec.element if status.record is not None and status.record.spec is not None else None
    return element.index if element is not None else None


def _main() -> Dict[str, str]:
    """Returns the data with which multiprocessing loads the module of the main program again."""
    words = multiprocessing.spawn.get_preparation_data("")
    return {word: value for word, value in words.items() if word.startswith("init_main_from_")}


def _result_file(stem: str, index: Optional[int], rank: int) -> str:
    return f"{stem}.{index or 0}.{rank}.result"


def run(stem: str) -> int:
    """Calls the function of this task, and returns the exit code."""
    index, rank = int(os.environ.get("SYNAPSE_ARRAY_INDEX", "0")), int(os.environ.get("SYNAPSE_RANK", "0"))
    try:
        with open(stem + ".pkl", "rb") as file:
            loading.main = True
            try:
                multiprocessing.spawn.prepare(pickle.load(file))
            finally:
                loading.main = False
            function, args, kwargs = pickle.load(file)[index]
        said: Tuple[bool, Any, str] = (True, function(*args, **kwargs), "")
        text = _pickle.dumps(said)
    except BaseException as e:  # sent to the waiting program
        said = (False, e, traceback.format_exc())
        try:
            text = _pickle.dumps(said)
            pickle.loads(text)
        except Exception:  # the exception cannot be pickled
            text = _pickle.dumps((False, None, said[2]))
        print(said[2], file=sys.stderr)
    path = _result_file(stem, index, rank)
    with open(path + ".new", "wb") as file:
        file.write(text)
    os.replace(path + ".new", path)
    return 0 if said[0] else 1
