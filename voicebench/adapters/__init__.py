"""How to reach the agent: the built-in adapters, and plug-ins named ``module:Class`` (VB32)."""

import difflib
import importlib
import sys
from collections.abc import Mapping
from typing import Any

from voicebench.adapters.base import (
    Adapter,
    AdapterError,
    AgentAudio,
    AgentClear,
    AgentEvent,
    AgentHangup,
    AgentOther,
    AgentTranscript,
    SessionInfo,
    SocketAdapter,
)

BUILTIN: dict[str, str] = {
    "mock": "voicebench.adapters.mock:MockAdapter",
    "websocket": "voicebench.adapters.websocket:WebSocketAdapter",
    "audiosocket": "voicebench.adapters.audiosocket:AudioSocketAdapter",
}

#: URL scheme -> the adapter that is meant by it.
SCHEMES: dict[str, str] = {
    "ws": "websocket",
    "wss": "websocket",
    "audiosocket": "audiosocket",
    "tcp": "audiosocket",
}


def adapter_for(url: str, own: str) -> str:
    """The adapter for an agent's address, where a scenario that names ``own`` is played.

    An adapter that is not chosen by its scheme alone, such as a plug-in, is kept; so is any for an unknown scheme,
    but the mock, which has no address.
    """
    if own not in ("mock", *SCHEMES.values()):
        return own
    return SCHEMES.get(url.partition("://")[0].lower(), "websocket" if own == "mock" else own)


def load_adapter(name: str) -> type[Adapter]:
    """The class behind a built-in name or ``module:Class``. Raises AdapterError."""
    target = BUILTIN.get(name, name)
    module_name, colon, class_name = target.partition(":")
    if not colon or not module_name or not class_name:
        near = difflib.get_close_matches(name, BUILTIN, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"use one of {', '.join(BUILTIN)}, or module:Class"
        raise AdapterError(f"adapter {name!r}: unknown; {hint}")
    if "" not in sys.path:  # a plug-in may lie beside the scenario, as with `python -m`
        sys.path.insert(0, "")
    try:
        found = getattr(importlib.import_module(module_name), class_name, None)
    except ImportError as error:
        raise AdapterError(f"adapter {name!r}: cannot import {module_name}: {error}") from error
    except Exception as error:
        raise AdapterError(f"adapter {name!r}: importing {module_name} failed: {error!r}") from error
    if found is None:
        raise AdapterError(f"adapter {name!r}: {module_name} has no {class_name}")
    if not (isinstance(found, type) and issubclass(found, Adapter)):
        raise AdapterError(f"adapter {name!r}: {class_name} does not derive from voicebench.adapters.Adapter")
    return found


def create_adapter(name: str, options: Mapping[str, Any] | None = None) -> Adapter:
    """A fresh adapter for one call. Raises AdapterError for an unknown name or option."""
    kind = load_adapter(name)
    try:
        return kind(**(options or {}))
    except AdapterError:
        raise
    except (TypeError, ValueError) as error:
        raise AdapterError(f"adapter {name!r}: bad options: {' '.join(str(error).split())}") from error


__all__ = [
    "BUILTIN",
    "SCHEMES",
    "Adapter",
    "AdapterError",
    "AgentAudio",
    "AgentClear",
    "AgentEvent",
    "AgentHangup",
    "AgentOther",
    "AgentTranscript",
    "SessionInfo",
    "SocketAdapter",
    "adapter_for",
    "create_adapter",
    "load_adapter",
]
