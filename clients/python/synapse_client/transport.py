"""Calls over HTTP/1.1 and JSON: the way to the scheduler that leads, and the proof that it is one before anything is told.

A connection is one thread's at a time. A call that found no scheduler, or one that does not lead, is made again for a
while: a repeated submit has the same request id, and everything else says how things are to be.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import re
import socket
import ssl
import struct
import threading
import time
from typing import Any, Dict, Iterable, List, Optional, Tuple, Type
from urllib.parse import urlsplit

from . import errors
from .codec import Answers, M, Message, Transport
from .talk import Closed, Talk, feed, head

_PROTOCOL = "synapse-http/1"  # offered by who proves the scheduler before a token is told
_CONNECT_SECONDS = 5.0
_SILENT_SECONDS = 45.0  # a stream has an empty line every 15 s
_CALL_SECONDS = 35.0  # the scheduler gives a call 30
_KEPT_SECONDS = 20.0  # the scheduler closes what is idle for 30
_MAX_FRAME = 64 << 10


class Unproved(errors.NotAllowed):
    """What answers is not proved to be a scheduler of the cluster, so nothing was told to it."""


class Identity:
    """What is shown to a scheduler, and how a scheduler is proved."""

    def __init__(self, tls: str = "", token: str = "", cafile: str = "") -> None:
        self.folder, self.token, self.cafile = tls, token.strip(), cafile
        self.cluster, self.root = "", ""
        if self.folder and self.token:
            raise errors.Invalid("tls and token are both given", "CODE_INVALID", "token", "show one of them")
        parts = self.token.split(".", 3)
        if parts[0] in ("synapselogin1", "synapseoidc1") and len(parts) == 4:
            self.cluster, self.root = parts[1], parts[2].lower()
        elif self.token and parts[0] == "synapsejoin1":
            raise errors.Invalid("this is a token with which a machine joins", "CODE_INVALID", "token")
        self._context: Optional[ssl.SSLContext] = None
        self._lock = threading.Lock()

    def proves(self) -> bool:
        """Whether a scheduler is proved by the cluster's own root."""
        return bool(self.folder or self.root or (self.token and self.cafile))

    def connect(self, to: "Server") -> socket.socket:
        """A connection to a server that is proved."""
        if to.path:
            return _local(to.path)
        raw = socket.create_connection((to.host, to.port), _CONNECT_SECONDS)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            if raw.getsockname() == raw.getpeername():  # where nobody listens, a connection may meet itself
                raise ConnectionRefusedError("nobody listens there")
            if to.named:
                return self._public().wrap_socket(raw, server_hostname=to.host)
            if self.proves():
                return self._proved(raw, to)
            if self.token:
                raise Unproved(
                    "the token does not say which cluster it is of",
                    "CODE_NOT_ALLOWED",
                    "token",
                    "give cafile, the certificate of the cluster's root, or a server as https://NAME",
                )
            return raw
        except ssl.SSLError as e:
            raw.close()
            raise Unproved(f"{to}: {e.reason or e}", "CODE_NOT_ALLOWED", "server") from e
        except BaseException:
            raw.close()
            raise

    def _public(self) -> ssl.SSLContext:
        """For a server whose certificate is of somebody whom everybody believes, and has its name."""
        context = ssl.create_default_context(cafile=self.cafile or None)
        context.set_alpn_protocols(["http/1.1"])
        return context

    def _proved(self, raw: socket.socket, to: "Server") -> ssl.SSLSocket:
        """A handshake with a scheduler of the cluster. The library holds the chain against the root, and the root's
        constraint against the cluster; that it is a scheduler's is for us to see: no certificate names a host."""
        with self._lock:
            if self._context is None:
                self._context = self._make(to)
        conn = self._context.wrap_socket(raw)
        names = [name for kind, name in (conn.getpeercert() or {}).get("subjectAltName", ()) if kind == "URI"]
        cluster = re.escape(self.cluster) if self.cluster else "[^/]+"
        if len(names) != 1 or not re.fullmatch(f"synapse://{cluster}/scheduler/[^/]+", names[0]):
            conn.close()
            raise Unproved(f"what answers at {to} is {names}, and no scheduler of the cluster", "CODE_NOT_ALLOWED", "server")
        return conn

    def _make(self, to: "Server") -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        context.set_alpn_protocols([_PROTOCOL])
        if self.folder:
            context.load_verify_locations(os.path.join(self.folder, "ca.pem"))
            context.load_cert_chain(os.path.join(self.folder, "cert.pem"), os.path.join(self.folder, "key.pem"))
        elif self.cafile:
            context.load_verify_locations(self.cafile)
        else:
            context.load_verify_locations(cadata=self._root(to))
        return context

    def _root(self, to: "Server") -> str:
        """The root that the token has the digest of. It is asked of whoever answers, and nothing is told."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.set_alpn_protocols(["http/1.1"])
        raw = socket.create_connection((to.host, to.port), _CONNECT_SECONDS)
        with context.wrap_socket(raw) as conn:
            asked = http.client.HTTPConnection(to.host, to.port)
            asked.sock = conn
            asked.request("GET", "/v1/ca.pem", headers={"Connection": "close"})
            answer = asked.getresponse()
            text = answer.read(1 << 20).decode("ascii", "replace")
        for block in re.findall("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", text, re.DOTALL):
            if hashlib.sha256(ssl.PEM_cert_to_DER_cert(block)).hexdigest() == self.root:
                return str(block)
        raise Unproved(
            f"what answers at {to} has another root than the token's cluster", "CODE_NOT_ALLOWED", "server",
            "ask for a token of this cluster, or for the address of the token's",
        )

    def header(self) -> Dict[str, str]:
        """What each request shows."""
        token = self.token
        return {"Authorization": f"Bearer {token}"} if token else {}


def _local(path: str) -> socket.socket:
    """A connection by the socket of a scheduler on this machine, which says first whether we are let in."""
    conn = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    conn.settimeout(_CONNECT_SECONDS)
    try:
        folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:  # a socket's name may be short only, and the path of a data folder long
            conn.connect(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
        finally:
            os.close(folder)
        (size,) = struct.unpack(">I", _exactly(conn, 4))
        word = _exactly(conn, min(size, _MAX_FRAME))
    except BaseException:
        conn.close()
        raise
    if word == b"\0":
        return conn
    conn.close()
    raise errors.NotAllowed(word[1:].decode("utf-8", "replace"), "CODE_NOT_ALLOWED", "server")


def _exactly(conn: socket.socket, size: int) -> bytes:
    text = b""
    while len(text) < size:
        more = conn.recv(size - len(text))
        if not more:
            raise ConnectionError("the scheduler has closed the connection")
        text += more
    return text


class Server:
    """Where a scheduler is: host:port, https://NAME[:port] with a certificate that has its name, or unix:PATH."""

    def __init__(self, text: str) -> None:
        self.text, self.path, self.named = text, "", False
        self.host, self.port = "", 0
        if text.startswith("unix:"):
            self.path = text[len("unix:"):]
            return
        self.named = text.startswith("https://")
        parts = urlsplit(text if self.named else "//" + text)
        try:
            self.host, self.port = parts.hostname or "", parts.port or (443 if self.named else 9000)
        except ValueError:
            pass  # it is no number
        if not self.host or parts.path not in ("", "/"):
            raise errors.Invalid(f"{text!r} is no address", "CODE_INVALID", "server", "as head1:9000, or unix:PATH")

    def __str__(self) -> str:
        return self.text


class _Kept:
    """A connection that may be used again."""

    def __init__(self, sock: socket.socket, host: str) -> None:
        self.sock, self.http, self.last = sock, http.client.HTTPConnection(host), time.monotonic()
        self.http.sock = sock


class HTTP(Transport):
    """Calls of one identity, to whichever of several schedulers leads."""

    def __init__(self, servers: str, identity: Identity, retry: float = 10.0) -> None:
        self._identity, self._retry = identity, retry
        self._lock = threading.Lock()
        self._idle: List[Tuple[str, _Kept]] = []
        self._servers = [Server(s.strip()) for s in servers.split(",") if s.strip()]
        if not self._servers:
            raise errors.Invalid("no server is given", "CODE_INVALID", "server", "as server='head1:9000', or SYNAPSE_SERVER")

    def close(self) -> None:
        """Closes what is kept open. Calls can still be made."""
        with self._lock:
            kept, self._idle = self._idle, []
        for _, one in kept:
            one.sock.close()

    def __del__(self) -> None:
        self.close()

    # Where to

    def first(self) -> Server:
        with self._lock:
            return self._servers[0]

    def _follow(self, asked: Server, leader: str) -> bool:
        """Goes on with the scheduler that leads, or with the next one; reports whether the first was named."""
        with self._lock:
            if self._servers[0] is asked and len(self._servers) > 1:
                self._servers.append(self._servers.pop(0))
            if not leader or asked.path:
                return False
            text = ("https://" if asked.named else "") + leader
            known = next((s for s in self._servers if s.text == text), None)
            if known is not None:
                self._servers.remove(known)
            self._servers.insert(0, known or Server(text))
            del self._servers[16:]
            return True

    def persist(self, attempt: Any) -> Any:
        """Makes an attempt, and makes it again where no scheduler led or answered."""
        until, pause = time.monotonic() + self._retry, 0.05
        while True:
            asked = self.first()
            try:
                return attempt(asked)
            except errors.Unavailable as e:
                if self._follow(asked, e.leader):
                    pause = 0.05
                if time.monotonic() + pause > until:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, 1.0)

    # Requests

    def _take(self, to: Server) -> Tuple[_Kept, bool]:
        """A connection, and whether it was used before."""
        now = time.monotonic()
        with self._lock:
            while self._idle:
                text, kept = self._idle.pop()
                if text == to.text and now - kept.last < _KEPT_SECONDS:
                    return kept, True
                kept.sock.close()
        try:
            return _Kept(self._identity.connect(to), _host(to)), False
        except errors.SynapseError:
            raise
        except OSError as e:
            raise _away(to, e) from e

    def _give(self, to: Server, kept: _Kept, answer: http.client.HTTPResponse) -> None:
        kept.last = time.monotonic()
        if answer.will_close or kept.http.sock is None:
            kept.sock.close()
            return
        with self._lock:
            self._idle.append((to.text, kept))

    def _send(self, to: Server, name: str, body: bytes, seconds: float) -> Tuple[_Kept, http.client.HTTPResponse]:
        """Sends a request, and waits for the answer's beginning. One over a connection that the scheduler has closed
        meanwhile was not heard, and is sent again over a new one."""
        while True:
            kept, used = self._take(to)
            try:
                kept.sock.settimeout(seconds)
                headers = {"Content-Type": "application/json", **self._identity.header()}
                kept.http.request("POST", f"/v1/{name}", body, headers)
                return kept, kept.http.getresponse()
            except (OSError, http.client.HTTPException) as e:
                kept.sock.close()
                if not used:
                    raise _away(to, e) from e

    def call(self, name: str, request: Message, answer: Type[M]) -> M:
        body = json.dumps(request.to_json()).encode()

        def attempt(to: Server) -> M:
            kept, got = self._send(to, name, body, _CALL_SECONDS)
            try:
                text = got.read()
            except (OSError, http.client.HTTPException) as e:
                kept.sock.close()
                raise _away(to, e) from e
            self._give(to, kept, got)
            if got.status != 200:
                raise refused(got.status, got.headers, text)
            return answer.from_json(json.loads(text))

        return self.persist(attempt)

    def stream(self, name: str, request: Message, answer: Type[M]) -> "Stream[M]":
        body = json.dumps(request.to_json()).encode()
        return self.persist(lambda to: self._talk(to, name, body, None, answer))

    def converse(self, name: str, requests: Iterable[Any], answer: Type[M]) -> "Stream[M]":
        lines = (json.dumps(r.to_json()).encode() + b"\n" for r in requests)
        return self._talk(self._leader(), name, None, lines, answer)

    def _leader(self) -> Server:
        """Who leads: what is asked bit by bit is not asked twice."""
        self.call("Cluster", _Nothing(), _Nothing)
        return self.first()

    def _talk(
        self, to: Server, name: str, body: Optional[bytes], lines: Optional[Iterable[bytes]], answer: Type[M]
    ) -> "Stream[M]":
        talk = None
        try:
            request = head(f"/v1/{name}", _host(to), self._identity.header(), body)
            talk = Talk(self._identity.connect(to), request, _SILENT_SECONDS)
            fed = feed(talk, lines) if lines is not None else None
            talk.begin()
            if talk.status != 200:
                text = b"".join(talk.pieces())
                talk.end()
                raise refused(talk.status, talk.headers, text)
            return Stream(talk, answer, fed)
        except errors.SynapseError:
            raise
        except (OSError, http.client.HTTPException, Closed) as e:
            if talk is not None:
                talk.end()
            raise _away(to, e) from e


def _host(to: Server) -> str:
    if not to.host:
        return "localhost"
    name = f"[{to.host}]" if ":" in to.host else to.host
    return f"{name}:{to.port}"


def _away(to: Server, e: BaseException) -> errors.Unavailable:
    return errors.Unavailable(f"{to}: {e or type(e).__name__}", "CODE_UNAVAILABLE", "server")


class _Nothing(Message):
    """A request or an answer of which nothing is wanted."""


def refused(status: int, headers: Any, text: bytes) -> errors.SynapseError:
    """The error that an answer is."""
    return errors.read(text, status, headers.get("Synapse-Leader") or "", headers.get("Retry-After") or "")


class Stream(Answers[M]):
    """The answers of a talk."""

    def __init__(self, talk: Talk, answer: Type[M], fed: Any = None) -> None:
        self._talk, self._answer, self._fed, self._lines = talk, answer, fed, talk.lines()
        self._reading = threading.Lock()  # whoever has it lets go of the connection

    def __next__(self) -> M:
        with self._reading:
            return self._next()

    def _next(self) -> M:
        try:
            line = next(self._lines)
            said = json.loads(line)
            if "error" in said:
                raise errors.told(said["error"])
            return self._answer.from_json(said.get("result", {}))
        except Closed:
            self._talk.end()
            if self._fed is not None and self._fed.failed:
                raise self._fed.failed[0]
            raise StopIteration from None
        except (StopIteration, errors.SynapseError):
            self._talk.end()
            raise
        except (OSError, http.client.HTTPException, ValueError) as e:
            self._talk.end()
            raise errors.Unavailable(f"the answer broke off: {e or type(e).__name__}", "CODE_UNAVAILABLE") from e

    def close(self) -> None:
        self._talk.close()
        if self._reading.acquire(blocking=False):
            self._talk.end()
            self._reading.release()
