"""Connection settings, from the same places as synapse-cli: the environment, the file of SYNAPSE_CONFIG, contexts."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from typing import Dict, List, Mapping, Optional, Tuple

from . import errors

_KEYS = ("server", "retry", "tls", "token-file", "ca", "cert", "key")
_DEFAULT_SERVER = "localhost:9000"
_LOCAL_SOCKET = "/var/lib/synapse/local/socket"
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass
class Settings:
    """Where a scheduler is, and the credential for it."""

    server: str
    tls: str = ""
    token: str = ""
    cafile: str = ""
    retry: float = 10.0


def find(
    server: str = "",
    tls: str = "",
    token: str = "",
    cafile: str = "",
    context: str = "",
    environ: Optional[Mapping[str, str]] = None,
) -> Settings:
    """Returns the settings of a client. Arguments override the environment, which overrides the file of SYNAPSE_CONFIG.

    A named context overrides the environment and the file. The current context applies only if no other setting names a
    scheduler or a credential. Without any setting, the socket of a scheduler on this host is used, or localhost:9000.
    """
    env = os.environ if environ is None else environ
    values = _read_file(env.get("SYNAPSE_CONFIG", ""))
    for key in _KEYS:
        values[key] = env.get("SYNAPSE_" + key.upper().replace("-", "_"), "") or values.get(key, "")
    found = Settings(values["server"] or _DEFAULT_SERVER, retry=_seconds(values["retry"]) if values["retry"] else 10.0)
    named = context or env.get("SYNAPSE_CONTEXT", "")
    said = bool(tls or token or server or env.get("SYNAPSE_TOKEN", "").strip() or any(v for k, v in values.items() if k != "retry"))
    if named or not said:
        found = _of_context(named, env, found)
    elif not (tls or token):
        _credentials(found, values, env)
    if tls or token:
        found.tls, found.token = tls, token
    found.server, found.cafile = server or found.server, cafile or found.cafile
    return found


def _credentials(found: Settings, values: Mapping[str, str], env: Mapping[str, str]) -> None:
    """Sets the credential of the environment or of the file."""
    if values["cert"] or values["key"]:
        raise errors.Invalid(
            "a client certificate for a proxy is not supported by the Python client", "CODE_INVALID", "cert", "use a token"
        )
    found.tls, found.cafile, found.token = values["tls"], values["ca"], env.get("SYNAPSE_TOKEN", "").strip()
    if values["ca"] and not found.server.startswith(("https://", "unix:")):
        found.server = "https://" + found.server
    if not values["token-file"]:
        return
    if found.token:
        raise errors.Invalid("SYNAPSE_TOKEN and SYNAPSE_TOKEN_FILE are both set", "CODE_INVALID", "token", "unset one of them")
    with open(values["token-file"], encoding="utf-8") as file:
        found.token = file.read().strip()
    if not found.token:
        raise errors.Invalid(f"{values['token-file']} is empty", "CODE_INVALID", "token", "use a file with a token")


def _of_context(name: str, env: Mapping[str, str], found: Settings) -> Settings:
    """Returns the settings of a context, or of the current one without a name."""
    path = _contexts_path(env)
    current, contexts = _read_contexts(path)
    name = name or current
    if not name:
        if os.path.exists(_LOCAL_SOCKET) and os.access(_LOCAL_SOCKET, os.R_OK | os.W_OK):
            found.server = "unix:" + _LOCAL_SOCKET
        return found
    for one in contexts:
        if one.get("name") == name:
            return Settings(one.get("server", ""), one.get("tls", ""), one.get("token", ""), retry=found.retry)
    known = ", ".join(one.get("name", "") for one in contexts)
    hint = f"use {known}" if known else "run `synapse-cli login HOST:PORT` to create one"
    raise errors.Invalid(f"unknown context {name!r}", "CODE_INVALID", "context", hint)


def _contexts_path(env: Mapping[str, str]) -> str:
    if env.get("SYNAPSE_CONTEXTS"):
        return env["SYNAPSE_CONTEXTS"]
    if os.path.isabs(env.get("XDG_CONFIG_HOME", "")):
        return os.path.join(env["XDG_CONFIG_HOME"], "synapse", "contexts.yaml")
    for home in ("HOME", "USERPROFILE"):
        if os.path.isabs(env.get(home, "")):
            return os.path.join(env[home], ".config", "synapse", "contexts.yaml")
    return ""


def _read_contexts(path: str) -> Tuple[str, List[Dict[str, str]]]:
    """Returns the current context and all contexts. The file has the form in which synapse-cli writes it."""
    try:
        with open(path, encoding="utf-8") as file:
            if os.name == "posix" and stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                raise errors.Invalid(f"{path} is readable by other users", "CODE_INVALID", "context", f"run chmod 600 {path}")
            text = file.read()
    except FileNotFoundError:
        return "", []
    except OSError as e:
        raise errors.Invalid(f"{path}: {e.strerror}", "CODE_INVALID", "context", "set SYNAPSE_CONTEXTS to your file") from e
    current, all_of = "", []  # type: Tuple[str, List[Dict[str, str]]]
    for number, line in _lines(text):
        begins = re.match(r"\s*- ", line)
        if begins:
            all_of.append({})
            line = " " * begins.end() + line[begins.end() :]
        key, value = _pair(path, number, line)
        if line.startswith(" ") and all_of:
            all_of[-1][key] = value
        elif key == "current":
            current = value
    return current, all_of


def _read_file(path: str) -> Dict[str, str]:
    """Reads the flat mapping of a settings file."""
    if not path:
        return {}
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError as e:
        raise errors.Invalid(f"{path}: {e.strerror}", "CODE_INVALID", "SYNAPSE_CONFIG", "name a YAML file") from e
    values: Dict[str, str] = {}
    for number, line in _lines(text):
        key, value = _pair(path, number, line)
        if key not in _KEYS:
            raise errors.Invalid(f"{path}:{number}: unknown setting {key!r}", "CODE_INVALID", "", f"use {', '.join(_KEYS)}")
        values[key] = value
    return values


def _lines(text: str) -> List[Tuple[int, str]]:
    """Returns the lines that are neither empty nor comments."""
    return [
        (number, line.rstrip())
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#") and line.strip() != "---"
    ]


def _pair(path: str, number: int, line: str) -> Tuple[str, str]:
    """Parses `key: value`. The error does not quote the value, which may be a token."""
    found = re.match(r"""\s*([A-Za-z][\w-]*):(?:\s+(?:"((?:[^"\\]|\\.)*)"|'((?:[^']|'')*)'|([^"'\s#&*!|>{\[][^#]*?)))?\s*(?:#.*)?$""", line)
    if found is None:
        raise errors.Invalid(f"{path}:{number}: not a line `key: value`", "CODE_INVALID", "", "write one setting per line")
    key, double, single, plain = found.groups()
    if double is not None:
        return key, re.sub(r"\\(.)", r"\1", double)
    if single is not None:
        return key, single.replace("''", "'")
    return key, plain or ""


def _seconds(text: str) -> float:
    """Parses a duration such as 10s or 1m."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", text)
    if found is None and text != "0":
        raise errors.Invalid(f"{text!r} is not a duration", "CODE_INVALID", "retry", "write 10s or 1m")
    return float(found.group(1)) * _UNITS[found.group(2)] if found else 0.0
