"""Client for asyncio. Blocking calls run in threads. A cancelled iteration also ends its stream."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, AsyncIterator, Callable, Iterator, Sequence, TypeVar, Union

from . import api
from .client import Client, Ended, Job

T = TypeVar("T")

_END = object()
_MAX_WAITING = 256


async def _each(make: Callable[[], Iterator[T]]) -> AsyncIterator[T]:
    """Yields the items of an iterator. A separate thread reads at most _MAX_WAITING items ahead."""
    loop, room = asyncio.get_running_loop(), threading.Semaphore(_MAX_WAITING)
    queue: "asyncio.Queue[Any]" = asyncio.Queue()
    stopped = threading.Event()

    def put(one: Any) -> None:
        try:
            loop.call_soon_threadsafe(queue.put_nowait, one)
        except RuntimeError:
            stopped.set()  # the loop is closed

    def run() -> None:
        try:
            source = make()
            try:
                for one in source:
                    room.acquire()
                    if stopped.is_set():
                        return
                    put((one, None))
            finally:
                getattr(source, "close", lambda: None)()
            put((_END, None))
        except BaseException as e:  # raised in the coroutine
            put((_END, e))

    threading.Thread(target=run, name="synapse-aio", daemon=True).start()
    try:
        while True:
            one, failed = await queue.get()
            room.release()
            if failed is not None:
                raise failed
            if one is _END:
                return
            yield one
    finally:
        stopped.set()
        room.release()


class AsyncJob:
    """One job of the cluster, as Job."""

    def __init__(self, job: Job) -> None:
        self.job, self.id = job, job.id

    async def status(self) -> api.JobStatus:
        return await asyncio.to_thread(self.job.status)

    async def wait(self, check: bool = False) -> api.JobStatus:
        """Waits until the job finishes. Use asyncio.wait_for for a timeout."""
        async for event in _each(lambda: self.job.client.watch(ids=[self.id], present=True)):
            if event.job is not None and event.job.record is not None and event.job.record.finished_unix_ms:
                break
        return await asyncio.to_thread(self.job.wait, None, check)

    async def cancel(self, reason: str = "") -> None:
        await asyncio.to_thread(self.job.cancel, reason)

    def logs(self, **more: Any) -> AsyncIterator[api.LogPart]:
        return _each(lambda: self.job.logs(**more))

    async def exec(self, command: Sequence[str], **more: Any) -> Ended:
        return await asyncio.to_thread(lambda: self.job.exec(command, **more))


class AsyncClient:
    """A connection to a cluster, as Client."""

    def __init__(self, *args: Any, **more: Any) -> None:
        self.client = Client(*args, **more)

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.client.close()

    async def submit(self, job: Union[api.JobSpec, Sequence[str]], **more: Any) -> AsyncJob:
        return AsyncJob(await asyncio.to_thread(lambda: self.client.submit(job, **more)))

    async def job(self, id: str) -> AsyncJob:
        return AsyncJob(await asyncio.to_thread(self.client.job, id))

    def jobs(self, **filters: Any) -> AsyncIterator[api.JobStatus]:
        return _each(lambda: self.client.jobs(**filters))

    def nodes(self) -> AsyncIterator[api.NodeStatus]:
        return _each(self.client.nodes)

    def history(self, **filters: Any) -> AsyncIterator[api.PastJob]:
        return _each(lambda: self.client.history(**filters))

    def watch(self, **more: Any) -> AsyncIterator[api.Event]:
        return _each(lambda: self.client.watch(**more))
