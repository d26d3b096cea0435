"""Jobs, from Python: submit them, wait for them, read and enter them, and watch the cluster."""

from __future__ import annotations

import os
import re
import threading
import time
import uuid
from dataclasses import dataclass
from typing import IO, Any, Dict, Iterable, Iterator, Mapping, Optional, Sequence, Tuple, Union

from . import api, errors
from .codec import Answers
from .transport import HTTP, Identity

_OVER = {api.JobState.SUCCEEDED, api.JobState.FAILED, api.JobState.CANCELLED, api.JobState.TIMED_OUT}
_PIECE = 32 << 10
_PAUSE_SECONDS = 0.1


def spec(
    command: Sequence[str],
    *,
    tasks: int = 1,
    gpus: float = 0,
    cpus: float = 1,
    memory: Union[int, str] = 0,
    image: str = "host",
    name: str = "",
    queue: str = "",
    priority: int = 0,
    env: Optional[Mapping[str, str]] = None,
    workdir: str = "",
    user: str = "",
    mounts: Sequence[str] = (),
    time_limit: float = 0,
    labels: Optional[Mapping[str, str]] = None,
    array: Iterable[int] = (),
) -> api.JobSpec:
    """A job of alike tasks; what it asks for is of each of them. Memory is in bytes, or as '16GiB'; the time limit
    in seconds; a mount is a path of the machines. Without a name it is called as its command is. An array is one
    job for each of its indices. All else that a job can have is a field of JobSpec."""
    made = api.JobSpec(
        name=name or _name(command),
        queue=queue,
        priority=priority,
        image=image,
        command=list(command),
        workdir=workdir,
        user=user,
        mounts=[api.Mount(source=path, target=path) for path in mounts],
        gang=api.GangSpec(replicas_min=tasks, replicas_max=tasks),
        each=api.Resources(milli_cpu=round(cpus * 1000), memory_bytes=_bytes(memory), milli_gpu=round(gpus * 1000)),
        env=[api.EnvVar(name=k, value=v) for k, v in (env or {}).items()],
        labels=[api.Label(key=k, value=v) for k, v in (labels or {}).items()],
        time_limit_ms=round(time_limit * 1000),
    )
    indices = list(array)
    if indices:
        made.array = api.ArraySpec(indices=[api.IndexRange(first=i, last=i) for i in indices])
    return made


def _name(command: Sequence[str]) -> str:
    """A job's name where none is given: what it runs."""
    word = os.path.basename(command[0]) if command else ""
    return re.sub("[^a-z0-9]+", "-", word.lower()).strip("-")[:40].strip("-") or "job"


def _bytes(amount: Union[int, str]) -> int:
    if isinstance(amount, int):
        return amount
    for unit, power in (("Ki", 1), ("Mi", 2), ("Gi", 3), ("Ti", 4)):
        for word in (unit + "B", unit):
            if amount.endswith(word):
                return round(float(amount[: -len(word)]) * 1024**power)
    try:
        return int(amount)
    except ValueError:
        raise errors.Invalid(f"{amount!r} is no amount", "CODE_INVALID", "memory", "as 16GiB, or bytes") from None


@dataclass
class Ended:
    """How a process ended that was run in a task, and what it wrote."""

    code: int
    stdout: bytes
    stderr: bytes
    text: str = ""  # why, where it did not end by itself


class Job:
    """One job of the cluster, by its id."""

    def __init__(self, client: "Client", id: str) -> None:  # what everybody calls it
        self.client, self.id = client, id

    def __repr__(self) -> str:
        return f"Job({self.id!r})"

    def status(self) -> api.JobStatus:
        """The job as it is now."""
        return self.client.api.get_job(api.GetJob(job=self.id)).job or api.JobStatus()

    def explain(self) -> str:
        """Why it is not running, in full."""
        return self.client.api.explain_job(api.ExplainJob(job=self.id)).text

    def wait(self, timeout: Optional[float] = None, check: bool = False) -> api.JobStatus:
        """Waits until it is over, and answers how. Check raises JobFailed if it did not end well."""
        until = None if timeout is None else time.monotonic() + timeout
        last: Optional[api.JobStatus] = None
        for event in self.client.watch(ids=[self.id], present=True, timeout=timeout):
            last = event.job or last
            if last is not None and last.record is not None and last.record.state in _OVER:
                if check and last.record.state != api.JobState.SUCCEEDED:
                    raise errors.JobFailed(f"job {self.id} is {last.phase}: {last.record.outcome or last.reason}", last)
                return last
            if event.synced and last is None:
                raise errors.NotFound(f"there is no job {self.id} any more", "CODE_NOT_FOUND", "job")
        raise TimeoutError(f"job {self.id} is {last.phase if last else 'not known'} after {timeout} s")

    def cancel(self, reason: str = "") -> None:
        """Ends it."""
        self.client.api.cancel(api.Cancel(job=self.id, reason=reason))

    def hold(self, reason: str = "") -> None:
        """Keeps it from being started."""
        self.client.api.hold(api.Hold(job=self.id, reason=reason))

    def release(self, reason: str = "") -> None:
        """Ends a hold."""
        self.client.api.hold(api.Hold(job=self.id, reason=reason, release=True))

    def requeue(self, reason: str = "") -> None:
        """Ends its attempt, and has it wait in its old place again."""
        runs = (self.status().record or api.JobRecord()).attempt_count  # so that a repetition ends no second one
        self.client.api.requeue(api.Requeue(job=self.id, reason=reason, attempt=runs))

    def logs(self, follow: bool = False, ranks: Sequence[int] = (), tail_lines: int = 0) -> Iterator[api.LogPart]:
        """What its tasks wrote, piece by piece; follow goes on until it is over, through later attempts and over a
        change of the scheduler."""
        ask = api.ReadLogs(job=self.id, ranks=list(ranks), follow=follow, tail_lines=tail_lines)
        at: Dict[Tuple[int, bool], int] = {}
        while True:
            try:
                with self.client.api.read_logs(ask) as parts:
                    for part in parts:
                        if part.attempt is not None and part.attempt != ask.attempt:
                            ask.attempt, at = part.attempt, {}
                        at[(part.rank, part.stderr)] = part.offset
                        yield part
                return
            except errors.Unavailable:
                if not follow or not at:
                    raise
                ask.tail_lines = 0
                ask.from_ = [api.LogPosition(rank=r, stderr=e, offset=o) for (r, e), o in at.items()]
                time.sleep(_PAUSE_SECONDS)

    def output(self, rank: int = 0) -> str:
        """All that one of its tasks wrote so far to its standard output."""
        parts = [p.data for p in self.logs(ranks=[rank]) if not p.stderr]
        return b"".join(parts).decode("utf-8", "replace")

    def exec(
        self,
        command: Sequence[str],
        rank: int = 0,
        stdin: Union[bytes, IO[bytes], None] = None,
        env: Optional[Mapping[str, str]] = None,
    ) -> Ended:
        """Runs an exec session in one of its tasks, and waits for its end."""
        ended = Ended(0, b"", b"")
        with self.exec_stream(command, rank, stdin, env) as outs:
            for out in outs:
                ended.stdout += out.stdout
                ended.stderr += out.stderr
                if out.end is not None:
                    ended.code, ended.text = out.end.code, out.end.text
                    return ended
        raise errors.Unavailable("the process's end was not told", "CODE_UNAVAILABLE")

    def exec_stream(
        self,
        command: Sequence[str],
        rank: int = 0,
        stdin: Union[bytes, IO[bytes], None] = None,
        env: Optional[Mapping[str, str]] = None,
    ) -> Answers[api.ExecOut]:
        """The same, as it happens. Its close ends the process."""
        first = api.ExecIn(
            job=self.id, rank=rank, command=list(command), env=[f"{k}={v}" for k, v in (env or {}).items()]
        )
        return self.client.api.exec(_typed(first, stdin))


def _typed(first: api.ExecIn, stdin: Union[bytes, IO[bytes], None]) -> Iterator[api.ExecIn]:
    """What is said to a process."""
    yield first
    if isinstance(stdin, (bytes, bytearray)):
        for at in range(0, len(stdin), _PIECE):
            yield api.ExecIn(stdin=bytes(stdin[at : at + _PIECE]))
    elif stdin is not None:
        read = getattr(stdin, "read1", stdin.read)  # what is there, rather than as much as was asked for
        while True:
            piece = read(_PIECE)
            if not piece:
                break
            yield api.ExecIn(stdin=piece)
    yield api.ExecIn(stdin_ends=True)


class Client:
    """A cluster. Without arguments it is the one that SYNAPSE_SERVER, SYNAPSE_TLS and SYNAPSE_TOKEN (or
    SYNAPSE_TOKEN_FILE) name, as for synapse-cli. It may be used from several threads."""

    def __init__(
        self, server: str = "", *, tls: str = "", token: str = "", cafile: str = "", retry: float = 10.0
    ) -> None:
        if not tls and not token:
            tls = os.environ.get("SYNAPSE_TLS", "")
            token = "" if tls else _token()
        server = server or os.environ.get("SYNAPSE_SERVER", "") or "127.0.0.1:9000"
        self.identity = Identity(tls, token, cafile)
        self._http = HTTP(server, self.identity, retry)
        self.api = api.Calls(self._http)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes what is kept open."""
        self._http.close()

    def submit(self, job: Union[api.JobSpec, Sequence[str]], *, request_id: str = "", **more: Any) -> Job:
        """Submits a job: a JobSpec, or a command with what spec takes. With the same request id it is the same job."""
        if not isinstance(job, api.JobSpec):
            job = spec(job, **more)
        elif more:
            raise TypeError(f"beside a JobSpec nothing else is said: {', '.join(more)}")
        request = api.Submit(request_id=request_id or uuid.uuid4().hex, spec=job)
        if job.secrets:
            if not (self.identity.proves() or self._http.first().path or self._http.first().named):
                raise errors.NotAllowed("secrets are not sent in plaintext", "CODE_NOT_ALLOWED", "secrets", "speak TLS")
            return Job(self, self.api.submit_secret(request).job)
        if job.script is not None:
            return Job(self, self.api.submit_script(request).job)
        return Job(self, self.api.submit(request).job)

    def job(self, id: str) -> Job:
        """A job by its id, or by the beginning of one."""
        status = self.api.get_job(api.GetJob(job=id)).job
        return Job(self, status.record.id if status is not None and status.record is not None else id)

    def jobs(self, **filters: Any) -> Iterator[api.JobStatus]:
        """All jobs that ListJobs finds with these fields: owner, queue, phases, name, labels, array."""
        ask = api.ListJobs(**filters)
        while True:
            page = self.api.list_jobs(ask)
            yield from page.jobs
            if not page.next:
                return
            ask.after = page.next

    def nodes(self) -> Iterator[api.NodeStatus]:
        """All machines."""
        ask = api.ListNodes()
        while True:
            page = self.api.list_nodes(ask)
            yield from page.nodes
            if not page.next:
                return
            ask.after = page.next

    def history(self, **filters: Any) -> Iterator[api.PastJob]:
        """Jobs that are over, the newest first, that History finds with these fields: owner, queue, name, states,
        since_unix_ms, until_unix_ms, ranks."""
        ask = api.History(**filters)
        while True:
            page = self.api.history(ask)
            yield from page.jobs
            if not page.next:
                return
            ask.after = page.next

    def watch(
        self,
        jobs: bool = True,
        nodes: bool = False,
        ids: Sequence[str] = (),
        present: bool = False,
        timeout: Optional[float] = None,
        **filters: Any,
    ) -> Iterator[api.Event]:
        """Changes, as they happen, until whoever reads them stops or the timeout is over. Present begins with what
        there is now, and an event that is synced behind it. A scheduler that goes away is waited for; then what has
        changed meanwhile is told, and what is as it was told last is not told again."""
        ask = api.Watch(jobs=jobs, nodes=nodes, ids=list(ids), present=present, **filters)
        until = None if timeout is None else time.monotonic() + timeout
        told: Dict[str, str] = {}
        synced, again = not present, False
        while True:
            try:
                stream = self.api.watch(ask)
                with _Alarm(stream, until), stream:
                    for event in stream:
                        of = _subject(event)
                        known = again and not synced and bool(of) and told.get(of) == event.text
                        if of:
                            told[of] = event.text
                        synced = synced or event.synced
                        if synced:
                            ask.after = max(ask.after, event.seq)
                        if not known:
                            yield event
            except (errors.Unavailable, errors.Exhausted) as e:
                if isinstance(e, errors.Exhausted) and e.status:
                    raise  # it was refused, and has not fallen behind
            if until is not None and time.monotonic() >= until:
                return
            ask.present, synced, again = True, False, True
            time.sleep(_PAUSE_SECONDS)


class _Alarm:
    """Closes a stream at a time, if that comes first."""

    def __init__(self, stream: Answers[api.Event], until: Optional[float]) -> None:
        self._timer = None
        if until is not None:
            self._timer = threading.Timer(max(0.0, until - time.monotonic()), stream.close)
            self._timer.daemon = True

    def __enter__(self) -> None:
        if self._timer is not None:
            self._timer.start()

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()


def _subject(event: api.Event) -> str:
    if event.job is not None and event.job.record is not None:
        return "job " + event.job.record.id
    if event.node is not None and event.node.record is not None:
        return "node " + event.node.record.id
    return ""


def _token() -> str:
    path = os.environ.get("SYNAPSE_TOKEN_FILE", "")
    if not path:
        return os.environ.get("SYNAPSE_TOKEN", "")
    with open(path, encoding="utf-8") as file:
        return file.read().strip()
