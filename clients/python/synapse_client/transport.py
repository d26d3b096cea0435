"""Calls over HTTP/1.1 and JSON. The client finds the leading scheduler, and authenticates it before it sends anything.

One thread uses a connection at a time. If no scheduler answers, or the scheduler does not lead, the call is retried for
a limited time. Retries are safe: a repeated submit has the same request ID, and the other calls are idempotent.
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

_PROTOCOL = "synapse-http/1"  # ALPN name of clients that authenticate the scheduler before they send a token
_CONNECT_SECONDS = 5.0
_SILENT_SECONDS = 45.0  # a stream sends an empty line every 15 s
_CALL_SECONDS = 35.0  # the scheduler limits a call to 30 s
_KEPT_SECONDS = 20.0  # the scheduler closes connections after 30 idle seconds
_MAX_FRAME = 64 << 10


class Unproved(errors.NotAllowed):
    """The server could not be authenticated as a scheduler of the cluster. No credential was sent."""


class Identity:
    """The credential of the client, and the data that authenticates a scheduler."""

    def __init__(self, tls: str = "", token: str = "", cafile: str = "") -> None:
        self.folder, self.token, self.cafile = tls, token.strip(), cafile
        self.cluster, self.root = "", ""
        if self.folder and self.token:
            raise errors.Invalid("tls and token cannot be combined", "CODE_INVALID", "token", "give one of them")
        parts = self.token.split(".", 3)
        if parts[0] in ("synapselogin1", "synapseoidc1") and len(parts) == 4:
            self.cluster, self.root = parts[1], parts[2].lower()
        elif self.token and parts[0] == "synapsejoin1":
            raise errors.Invalid("a join token cannot log in", "CODE_INVALID", "token", "use a login token")
        self._context: Optional[ssl.SSLContext] = None
        self._lock = threading.Lock()

    def proves(self) -> bool:
        """Reports whether the root certificate of the cluster authenticates the scheduler."""
        return bool(self.folder or self.root or (self.token and self.cafile))

    def connect(self, to: "Server") -> socket.socket:
        """Connects to a server and authenticates it."""
        if to.path:
            return _local(to.path)
        raw = socket.create_connection((to.host, to.port), _CONNECT_SECONDS)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            if raw.getsockname() == raw.getpeername():  # on a closed local port, a socket may connect to itself
                raise ConnectionRefusedError("connection refused")
            if to.named:
                return self._public().wrap_socket(raw, server_hostname=to.host)
            if self.proves():
                return self._proved(raw, to)
            if self.token:
                raise Unproved(
                    "the token does not name its cluster",
                    "CODE_NOT_ALLOWED",
                    "token",
                    "give cafile (the root certificate of the cluster), or a server as https://NAME",
                )
            return raw
        except ssl.SSLError as e:
            raw.close()
            raise Unproved(f"{to}: {e.reason or e}", "CODE_NOT_ALLOWED", "server") from e
        except BaseException:
            raw.close()
            raise

    def _public(self) -> ssl.SSLContext:
        """Returns the context for a server with a certificate of a public CA, or of cafile, that contains its host name."""
        context = ssl.create_default_context(cafile=self.cafile or None)
        context.set_alpn_protocols(["http/1.1"])
        return context

    def _proved(self, raw: socket.socket, to: "Server") -> ssl.SSLSocket:
        """Makes a TLS handshake with a scheduler of the cluster.

        The ssl module verifies the chain and the name constraint of the root. This function checks that the certificate
        is one of a scheduler. The certificates contain no host names.
        """
        with self._lock:
            if self._context is None:
                self._context = self._make(to)
        conn = self._context.wrap_socket(raw)
        names = [name for kind, name in (conn.getpeercert() or {}).get("subjectAltName", ()) if kind == "URI"]
        cluster = re.escape(self.cluster) if self.cluster else "[^/]+"
        if len(names) != 1 or not re.fullmatch(f"synapse://{cluster}/scheduler/[^/]+", names[0]):
            conn.close()
            text = f"the server at {to} is not a scheduler of the cluster: its certificate has the names {names}"
            raise Unproved(text, "CODE_NOT_ALLOWED", "server")
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
        """Returns the root certificate whose digest is in the token. The request contains no credential."""
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
            f"the server at {to} belongs to another cluster than the token", "CODE_NOT_ALLOWED", "server",
            "use a token of this cluster, or the address of the other cluster",
        )

    def header(self) -> Dict[str, str]:
        """Returns the authentication header of each request."""
        token = self.token
        return {"Authorization": f"Bearer {token}"} if token else {}


def _local(path: str) -> socket.socket:
    """Connects to the Unix socket of a local scheduler, which first reports whether it accepts the user."""
    conn = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    conn.settimeout(_CONNECT_SECONDS)
    try:
        folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:  # the path of a data folder may exceed the limit for socket names
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
            raise ConnectionError("the scheduler closed the connection")
        text += more
    return text


class Server:
    """The address of a scheduler: host:port, unix:PATH, or https://NAME[:port] if its certificate contains NAME."""

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
            pass  # the port is not a number
        if not self.host or parts.path not in ("", "/"):
            hint = "use head1:9000, https://NAME or unix:PATH"
            raise errors.Invalid(f"invalid address {text!r}", "CODE_INVALID", "server", hint)

    def __str__(self) -> str:
        return self.text


class _Kept:
    """A reusable connection."""

    def __init__(self, sock: socket.socket, host: str) -> None:
        self.sock, self.http, self.last = sock, http.client.HTTPConnection(host), time.monotonic()
        self.http.sock = sock


class HTTP(Transport):
    """Calls with one identity to the leading scheduler, out of one or more schedulers."""

    def __init__(self, servers: str, identity: Identity, retry: float = 10.0) -> None:
        self._identity, self._retry = identity, retry
        self._lock = threading.Lock()
        self._idle: List[Tuple[str, _Kept]] = []
        self._servers = [Server(s.strip()) for s in servers.split(",") if s.strip()]
        if not self._servers:
            hint = "set server='head1:9000', or SYNAPSE_SERVER"
            raise errors.Invalid("no server given", "CODE_INVALID", "server", hint)

    def close(self) -> None:
        """Closes idle connections. Later calls open new ones."""
        with self._lock:
            kept, self._idle = self._idle, []
        for _, one in kept:
            one.sock.close()

    def __del__(self) -> None:
        self.close()

    # Servers

    def first(self) -> Server:
        with self._lock:
            return self._servers[0]

    def _follow(self, asked: Server, leader: str) -> bool:
        """Selects the named leader, or the next server. Returns True if the leader was named and selected."""
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
        """Calls attempt, and repeats it while no scheduler answers or leads, up to the retry time."""
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
        """Returns a connection, and whether it was used before."""
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
        """Sends a request, and waits for the head of the answer.

        If an idle connection turns out to be closed, the request is sent again over a new one.
        """
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
        """Finds the leader first, because a stream of requests cannot be repeated."""
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
    """A message without fields that matter."""


def refused(status: int, headers: Any, text: bytes) -> errors.SynapseError:
    """Returns the exception for an HTTP error."""
    return errors.read(text, status, headers.get("Synapse-Leader") or "", headers.get("Retry-After") or "")


class Stream(Answers[M]):
    """The stream of answers of a talk."""

    def __init__(self, talk: Talk, answer: Type[M], fed: Any = None) -> None:
        self._talk, self._answer, self._fed, self._lines = talk, answer, fed, talk.lines()
        self._reading = threading.Lock()  # the thread that holds it closes the connection

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
            raise errors.Unavailable(f"the answer was interrupted: {e or type(e).__name__}", "CODE_UNAVAILABLE") from e

    def close(self) -> None:
        self._talk.close()
        if self._reading.acquire(blocking=False):
            self._talk.end()
            self._reading.release()
