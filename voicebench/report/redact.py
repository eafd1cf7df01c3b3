"""Takes secrets out of what a report shows: URLs, headers, options and command lines (VB30).

Adapters already describe themselves without secrets; this is the second fence, for what a plug-in, a proxy's
error message or a shell's command line lets through. Names stay, so that a reader sees *that* a token was used;
values go.
"""

import re
import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

HIDDEN = "***"

#: A name one of whose words is among these holds a secret. So does a compound with ``key``, but no bare "key".
_SECRET_WORDS = frozenset(
    {"token", "secret", "password", "passwd", "passphrase", "pwd", "authorization", "auth", "bearer", "credential"}
    | {"credentials", "cookie", "apikey", "jwt", "signature", "sig"}
)
#: Under names with one of these words every value is hidden, since any header may carry a secret.
_SECRET_BLOCKS = frozenset({"headers", "header"})
#: Options of adapters that say what the agent is told; a command line shows none of it.
_SECRET_OPTIONS = frozenset({"start_message", "register_body"})
#: Where an option's KEY=VALUE is one word with the option itself: -oKEY=VALUE, --adapter-option=KEY=VALUE.
_GLUED = re.compile(r"(-o=?|--[\w-]+=)(?=[\w.-]+=)")

_URL = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s'\"<>]*[^\s'\"<>.,:;)\]}]", re.IGNORECASE)
_BEARER = re.compile(r"\b(bearer|basic)\s+[^\s'\",}\]]+", re.IGNORECASE)
_PAIR = re.compile(r"([\w.-]+)(['\"]?\s*[=:]\s*)(?!//)('[^']*'|\"[^\"]*\"|[^\s,;&'\"}\])]+)")
_WORDS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")


def is_secret_name(name: str) -> bool:
    """Whether an option, key or header of this name holds a secret: ``api_key``, ``--authToken``, ``X-Api-Key``."""
    words = [word.lower() for word in _WORDS.findall(name)]
    return any(word in _SECRET_WORDS for word in words) or ("key" in words and len(words) > 1)


def _is_secret_block(name: str) -> bool:
    return any(word.lower() in _SECRET_BLOCKS for word in _WORDS.findall(name))


def redact_url(url: str) -> str:
    """``wss://me:pw@host/path?token=x#y`` becomes ``wss://***@host/path?token=***``."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return HIDDEN
    login, at, host = parts.netloc.rpartition("@")
    netloc = f"{HIDDEN}@{host}" if login or at else host
    pairs = [pair.partition("=") for pair in parts.query.split("&")] if parts.query else []
    query = "&".join(f"{name}={HIDDEN}" if equals else HIDDEN for name, equals, _ in pairs)
    return urlunsplit((parts.scheme, netloc, parts.path, query, ""))


def redact_text(text: str) -> str:
    """Hide what looks like a secret in a sentence: URLs' logins and queries, bearer tokens, ``password=...``."""
    text = _URL.sub(lambda match: redact_url(match.group()), text)
    text = _BEARER.sub(lambda match: f"{match.group(1)} {HIDDEN}", text)
    return _PAIR.sub(_hide_pair, text)


def redact(value: Any, name: str = "") -> Any:
    """Hide the secrets in an adapter's description or in metadata, at any depth.

    A mapping's values are judged by their names; all text is searched as ``redact_text`` does.
    """
    if isinstance(value, Mapping):
        hide_all = _is_secret_block(name)
        return {str(key): HIDDEN if hide_all else redact(item, str(key)) for key, item in value.items()}
    if name and is_secret_name(name) and value not in (None, "", False, True):
        return HIDDEN
    if isinstance(value, (list, tuple)):
        return [HIDDEN if _is_secret_block(name) else redact(item) for item in value]
    return redact_text(value) if isinstance(value, str) else value


def redact_command(command: str) -> str:
    """Hide the secrets in a command line: ``--token x``, ``--api-key=x``, ``-o headers={...}``, ``TOKEN=x``, URLs."""
    try:
        words = shlex.split(command)
    except ValueError:
        return redact_text(command)
    shown: list[str] = []
    hide_next = False
    for word in words:
        glued = _GLUED.match(word)
        option, pair = (glued.group(), word[glued.end() :]) if glued else ("", word)
        name, equals, _ = pair.partition("=")
        if hide_next and not word.startswith("-"):
            shown.append(HIDDEN)
        elif equals and "://" not in name and (_is_secret_option(name) or name in _SECRET_OPTIONS):
            shown.append(f"{option}{name}={HIDDEN}")
        else:
            shown.append(redact_text(word))
        hide_next = word.startswith("-") and not equals and _is_secret_option(word)
    return shlex.join(shown)


def _is_secret_option(word: str) -> bool:
    return is_secret_name(word) or _is_secret_block(word)


def _hide_pair(match: re.Match[str]) -> str:
    name, between, value = match.groups()
    if not is_secret_name(name) or value.startswith(HIDDEN) or value.lower() in ("bearer", "basic"):
        return match.group()
    return f"{name}{between}{HIDDEN}"
