"""One HTTP request with a stream of lines as its answer, and optionally a stream of lines as its body.

Only one thread may use a TLS connection, so the thread that reads the answers also sends the request.
Other threads add their data to a buffer and wake that thread.
"""

from __future__ import annotations

import http.client
import io
import select
import socket
import ssl
import threading
import time
from typing import Any, Dict, Iterable, Iterator, Optional

_PIECE = 64 << 10
_MAX_HEAD = 64 << 10
_MAX_WAITING = 256 << 10  # unsent bytes before the sender must wait


class Closed(Exception):
    """The client closed the talk."""


class Talk:
    """One request on a separate connection."""

    def __init__(self, sock: socket.socket, request: bytes, silent: float) -> None:
        sock.setblocking(False)
        self._sock, self._silent = sock, silent
        self._in, self._out = bytearray(), bytearray(request)
        self._room, self._closed, self._left = threading.Condition(), False, False
        self._waker, self._woken = socket.socketpair()
        self._waker.setblocking(False)
        self.status, self.headers = 0, http.client.HTTPMessage()

    # Request

    def chunk(self, data: bytes) -> bool:
        """Adds a piece of the request body; an empty piece ends the body. Returns False if the talk is closed."""
        with self._room:
            while len(self._out) > _MAX_WAITING and not self._closed:
                self._room.wait()
            if self._closed:
                return False
            self._out += b"%x\r\n%s\r\n" % (len(data), data)
        self._wake()
        return True

    def close(self) -> None:
        """Ends the talk. Any thread may call it."""
        with self._room:
            self._closed = True
            self._room.notify_all()
        self._wake()

    def _wake(self) -> None:
        try:
            self._waker.send(b"!")
        except OSError:
            pass  # the reader is already awake or gone

    # Answer

    def _more(self) -> None:
        """Reads the next bytes of the answer, and sends buffered request data while it waits."""
        until = time.monotonic() + self._silent
        while True:
            if self._closed:
                raise Closed
            reads, writes = [self._sock, self._woken], []
            try:
                data = self._sock.recv(_PIECE)
                if not data:
                    raise ConnectionError("the scheduler closed the connection before the end of the answer")
                self._in += data
                return
            except ssl.SSLWantWriteError:
                writes = [self._sock]
            except (BlockingIOError, ssl.SSLWantReadError):
                pass
            with self._room:
                try:
                    while self._out:
                        del self._out[: self._sock.send(self._out[:_PIECE])]
                        self._room.notify_all()
                except (BlockingIOError, ssl.SSLWantWriteError):
                    writes = [self._sock]
                except ssl.SSLWantReadError:
                    pass
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"no data for {self._silent:.0f} s")
            ready, _, _ = select.select(reads, writes, [], left)
            if self._woken in ready:
                self._woken.recv(_PIECE)

    def _until(self, end: bytes, most: int) -> bytes:
        while True:
            at = self._in.find(end)
            if at >= 0:
                text = bytes(self._in[:at])
                del self._in[: at + len(end)]
                return text
            if len(self._in) > most:
                raise http.client.HTTPException("the server does not answer with HTTP")
            self._more()

    def _exactly(self, size: int) -> bytes:
        while len(self._in) < size:
            self._more()
        text = bytes(self._in[:size])
        del self._in[:size]
        return text

    def begin(self) -> None:
        """Waits for the status and the headers of the answer."""
        text = self._until(b"\r\n\r\n", _MAX_HEAD)
        first, _, rest = text.partition(b"\r\n")
        words = first.split(b" ", 2)
        if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
            raise http.client.HTTPException("the server does not answer with HTTP")
        self.status = int(words[1])
        self.headers = http.client.parse_headers(io.BytesIO(rest + b"\r\n\r\n"))

    def pieces(self) -> Iterator[bytes]:
        """Yields the body of the answer in pieces."""
        if "chunked" not in (self.headers.get("Transfer-Encoding") or ""):
            size = int(self.headers.get("Content-Length") or 0)
            if size:
                yield self._exactly(size)
            return
        while True:
            size = int(self._until(b"\r\n", _MAX_HEAD).split(b";")[0], 16)
            piece = self._exactly(size)
            self._until(b"\r\n", 2)
            if not size:
                return
            yield piece

    def lines(self) -> Iterator[bytes]:
        """Yields the non-empty lines of the body."""
        text = b""
        for piece in self.pieces():
            *whole, text = (text + piece).split(b"\n")
            yield from (line for line in whole if line.strip())
        if text.strip():
            yield text

    def end(self) -> None:
        """Closes the connection. No thread may read from it at that time."""
        self.close()
        for one in (self._sock, self._waker, self._woken):
            one.close()


def feed(talk: Talk, lines: Iterable[bytes]) -> threading.Thread:
    """Sends lines from a separate thread as they become available."""

    def run() -> None:
        try:
            for line in lines:
                if not talk.chunk(line):
                    return
            talk.chunk(b"")
        except BaseException as e:  # raised in the thread that reads the answers
            failed.append(e)
            talk.close()

    failed: list = []
    thread = threading.Thread(target=run, name="synapse-feed", daemon=True)
    thread.failed = failed  # type: ignore[attr-defined]
    thread.start()
    return thread


def head(path: str, host: str, headers: Dict[str, str], body: Optional[bytes]) -> bytes:
    """Returns the head of a request, and its body if it is complete."""
    all_headers: Dict[str, Any] = {"Host": host, "Connection": "close", **headers}
    if body is None:
        all_headers.update({"Content-Type": "application/x-ndjson", "Transfer-Encoding": "chunked"})
    else:
        all_headers.update({"Content-Type": "application/json", "Content-Length": len(body)})
    text = f"POST {path} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in all_headers.items()) + "\r\n"
    return text.encode("latin-1") + (body or b"")
