"""Jobs and clusters: submit jobs, wait for them, read their output, run commands in them, and watch the cluster."""

from __future__ import annotations

import os
import re
import shlex
import threading
import time
import uuid
from dataclasses import dataclass
from typing import IO, Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from . import api, errors, settings
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
    """Returns the spec of a job with identical tasks. All resources are per task.

    Memory is a number of bytes, or text such as '16GiB'. The time limit is in seconds. A mount is a path on the nodes.
    The default name comes from the command. An array has one job for each index. JobSpec has more fields.
    """
    if isinstance(command, (str, bytes)):
        raise TypeError(
            f"the command must be a list of words, not {type(command).__name__}: write {_words(command)!r}, or "
            f"['sh', '-c', {_text(command)!r}] for a line of a shell"
        )
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


def _text(command: Union[str, bytes]) -> str:
    return command.decode("utf-8", "replace") if isinstance(command, bytes) else command


def _words(command: Union[str, bytes]) -> List[str]:
    """Returns the words that a shell would make of a command line."""
    try:
        return shlex.split(_text(command))
    except ValueError:
        return _text(command).split()


def _name(command: Sequence[str]) -> str:
    """Returns the default name of a job, from its command."""
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
        hint = "use a number of bytes, or text such as 16GiB"
        raise errors.Invalid(f"invalid amount {amount!r}", "CODE_INVALID", "memory", hint) from None


class _Loading:
    """Whether a task of an Executor loads the module of the main program."""

    main = False


loading = _Loading()


@dataclass
class Ended:
    """Exit code and output of an exec session."""

    code: int
    stdout: bytes
    stderr: bytes
    text: str = ""  # the reason, if the process did not exit by itself


class Job:
    """One job of the cluster, identified by its ID."""

    def __init__(self, client: "Client", id: str) -> None:  # the usual name
        self.client, self.id = client, id

    def __repr__(self) -> str:
        return f"Job({self.id!r})"

    def status(self) -> api.JobStatus:
        """Returns the current status of the job."""
        return self.client.api.get_job(api.GetJob(job=self.id)).job or api.JobStatus()

    def explain(self) -> api.Explanation:
        """Returns the facts about why the job waits. An earlier scheduler sends only a text, which is then the reason."""
        reply = self.client.api.explain_job(api.ExplainJob(job=self.id))
        return reply.explanation or api.Explanation(job=api.JobName(id=self.id), reason=reply.text)

    def wait(self, timeout: Optional[float] = None, check: bool = False) -> api.JobStatus:
        """Waits until the job finishes, and returns its status. With check, raises JobFailed unless the job succeeded."""
        until = None if timeout is None else time.monotonic() + timeout
        last: Optional[api.JobStatus] = None
        for event in self.client.watch(ids=[self.id], present=True, timeout=timeout):
            last = event.job or last
            if last is not None and last.record is not None and last.record.state in _OVER:
                if check and last.record.state != api.JobState.SUCCEEDED:
                    raise errors.JobFailed(f"job {self.id} is {last.phase}: {last.record.outcome or last.reason}", last)
                return last
            if event.synced and last is None:
                raise errors.NotFound(f"job {self.id} no longer exists", "CODE_NOT_FOUND", "job")
        raise TimeoutError(f"job {self.id} is {last.phase if last else 'unknown'} after {timeout} s")

    def cancel(self, reason: str = "") -> None:
        """Cancels the job."""
        self.client.api.cancel(api.Cancel(job=self.id, reason=reason))

    def hold(self, reason: str = "") -> None:
        """Holds the job: it does not start until release."""
        self.client.api.hold(api.Hold(job=self.id, reason=reason))

    def release(self, reason: str = "") -> None:
        """Releases a held job."""
        self.client.api.hold(api.Hold(job=self.id, reason=reason, release=True))

    def requeue(self, reason: str = "") -> None:
        """Ends the attempt. The job returns to its old place in the queue."""
        runs = (self.status().record or api.JobRecord()).attempt_count  # a retry cannot end a later attempt
        self.client.api.requeue(api.Requeue(job=self.id, reason=reason, attempt=runs))

    def logs(self, follow: bool = False, ranks: Sequence[int] = (), tail_lines: int = 0) -> Iterator[api.LogPart]:
        """Yields the output of the tasks in parts.

        With follow, continues through later attempts and a change of the scheduler until the job finishes.
        """
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
        """Returns all standard output of one task so far."""
        parts = [p.data for p in self.logs(ranks=[rank]) if not p.stderr]
        return b"".join(parts).decode("utf-8", "replace")

    def exec(
        self,
        command: Sequence[str],
        rank: int = 0,
        stdin: Union[bytes, IO[bytes], None] = None,
        env: Optional[Mapping[str, str]] = None,
    ) -> Ended:
        """Runs a command in one task, and waits until it exits."""
        ended = Ended(0, b"", b"")
        with self.exec_stream(command, rank, stdin, env) as outs:
            for out in outs:
                ended.stdout += out.stdout
                ended.stderr += out.stderr
                if out.end is not None:
                    ended.code, ended.text = out.end.code, out.end.text
                    return ended
        raise errors.Unavailable("the stream ended without an exit code", "CODE_UNAVAILABLE")

    def exec_stream(
        self,
        command: Sequence[str],
        rank: int = 0,
        stdin: Union[bytes, IO[bytes], None] = None,
        env: Optional[Mapping[str, str]] = None,
    ) -> Answers[api.ExecOut]:
        """Runs a command in one task, and returns its output as a stream. Closing the stream ends the process."""
        first = api.ExecIn(
            job=self.id, rank=rank, command=list(command), env=[f"{k}={v}" for k, v in (env or {}).items()]
        )
        return self.client.api.exec(_typed(first, stdin))


def _typed(first: api.ExecIn, stdin: Union[bytes, IO[bytes], None]) -> Iterator[api.ExecIn]:
    """Yields the requests of an exec session: the command, then the input."""
    yield first
    if isinstance(stdin, (bytes, bytearray)):
        for at in range(0, len(stdin), _PIECE):
            yield api.ExecIn(stdin=bytes(stdin[at : at + _PIECE]))
    elif stdin is not None:
        read = getattr(stdin, "read1", stdin.read)  # returns available bytes without waiting for a full piece
        while True:
            piece = read(_PIECE)
            if not piece:
                break
            yield api.ExecIn(stdin=piece)
    yield api.ExecIn(stdin_ends=True)


class Client:
    """A connection to a cluster. Several threads may use it.

    It finds the settings that are not given as synapse-cli does: in the environment (SYNAPSE_SERVER, SYNAPSE_TLS,
    SYNAPSE_TOKEN and others), in the file of SYNAPSE_CONFIG, or in a context of `synapse-cli login`.
    """

    def __init__(
        self,
        server: str = "",
        *,
        tls: str = "",
        token: str = "",
        cafile: str = "",
        context: str = "",
        retry: Optional[float] = None,
    ) -> None:
        found = settings.find(server, tls, token, cafile, context)
        self.identity = Identity(found.tls, found.token, found.cafile)
        self._http = HTTP(found.server, self.identity, found.retry if retry is None else retry)
        self.api = api.Calls(self._http)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes idle connections."""
        self._http.close()

    def submit(self, job: Union[api.JobSpec, Sequence[str]], *, request_id: str = "", **more: Any) -> Job:
        """Submits a JobSpec, or a command with the arguments of spec. The same request ID returns the same job."""
        if loading.main:
            raise RuntimeError(
                "this task loads the main program again, and must not submit jobs meanwhile: put the lines that submit "
                "jobs below `if __name__ == '__main__':`"
            )
        if not isinstance(job, api.JobSpec):
            job = spec(job, **more)
        elif more:
            raise TypeError(f"a JobSpec cannot be combined with {', '.join(more)}")
        request = api.Submit(request_id=request_id or uuid.uuid4().hex, spec=job)
        if job.secrets:
            if not (self.identity.proves() or self._http.first().path or self._http.first().named):
                raise errors.NotAllowed("secrets require TLS", "CODE_NOT_ALLOWED", "secrets", "use TLS")
            return Job(self, self.api.submit_secret(request).job)
        if job.script is not None:
            return Job(self, self.api.submit_script(request).job)
        return Job(self, self.api.submit(request).job)

    def job(self, id: str) -> Job:
        """Returns the job with an ID or a unique prefix of one."""
        status = self.api.get_job(api.GetJob(job=id)).job
        return Job(self, status.record.id if status is not None and status.record is not None else id)

    def jobs(self, **filters: Any) -> Iterator[api.JobStatus]:
        """Yields the jobs that match all filters: owner, queue, phases, name, labels, array (fields of ListJobs)."""
        ask = api.ListJobs(**filters)
        while True:
            page = self.api.list_jobs(ask)
            yield from page.jobs
            if not page.next:
                return
            ask.after = page.next

    def nodes(self) -> Iterator[api.NodeStatus]:
        """Yields all nodes."""
        ask = api.ListNodes()
        while True:
            page = self.api.list_nodes(ask)
            yield from page.nodes
            if not page.next:
                return
            ask.after = page.next

    def history(self, **filters: Any) -> Iterator[api.PastJob]:
        """Yields finished jobs, newest first.

        The filters are owner, queue, name, states, since_unix_ms, until_unix_ms and ranks (fields of History).
        """
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
        """Yields changes until the caller stops or the timeout expires.

        With present, the current state comes first, and then an event with synced set. If the scheduler is unavailable,
        watch reconnects and yields the changes since then, without repeating unchanged objects.
        """
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
                    raise  # the scheduler refused the call; otherwise, the stream was too slow
            if until is not None and time.monotonic() >= until:
                return
            ask.present, synced, again = True, False, True
            time.sleep(_PAUSE_SECONDS)


class _Alarm:
    """Closes a stream at a given time, unless the stream ends first."""

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
