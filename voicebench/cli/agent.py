"""``voicebench agent``: serve the reference agent, whose delays are known (VB31)."""

import argparse
import errno
from pathlib import Path
from typing import TYPE_CHECKING, Any

from voicebench.cli.options import UsageError, add_option_argument, key_values, positive_int
from voicebench.exits import Exit

if TYPE_CHECKING:
    import ssl


def add_commands(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add ``agent`` and its old name ``mock-server``."""
    for name, text in (("agent", "serve the reference agent, for calls to it"), ("mock-server", "old name of agent")):
        agent = commands.add_parser(name, parents=[common], help=text)
        agent.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
        agent.add_argument(
            "--protocol", choices=("websocket", "audiosocket"), default="websocket", help="default: websocket"
        )
        agent.add_argument(
            "--port", type=int, help="port to listen on; 0 picks one (default: 8765; audiosocket: 9092)"
        )
        agent.add_argument("--sample-rate", type=positive_int, help="in Hz (default: 16000; audiosocket: 8000)")
        add_option_argument(agent, "option of the agent, such as response_delay_ms=250 (repeatable)")
        agent.add_argument("--log", type=Path, metavar="FILE", help="write what the agent did when, as JSON lines")
        agent.add_argument("--tls-cert", type=Path, metavar="FILE", help="certificate chain (PEM): serve wss://")
        agent.add_argument("--tls-key", type=Path, metavar="FILE", help="its private key (PEM)")
        agent.set_defaults(handler=agent_command)


def agent_command(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or Ctrl-C."""
    if (args.tls_cert is None) != (args.tls_key is None):
        raise UsageError("--tls-cert and --tls-key go together")
    if args.port is not None and not 0 <= args.port <= 65535:
        raise UsageError(f"--port {args.port}: must be between 0 and 65535")
    from voicebench.agents.reference import OptionError, ReferenceOptions
    from voicebench.agents.server import PROTOCOLS, serve

    try:
        options = ReferenceOptions.parse(key_values(args.options))
        tls = _tls(args.tls_cert, args.tls_key) if args.tls_cert else None
        serve(args.host, args.port, args.sample_rate, options, args.log, tls, _say_where, protocol=args.protocol)
    except OptionError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        port = PROTOCOLS[args.protocol].port if args.port is None else args.port
        raise UsageError(f"cannot serve on {args.host} port {port}: {_reason(error)}") from None
    return Exit.OK


def _reason(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "the port is taken; choose another with --port, or 0 for any"
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)


def _tls(certificate: Path, key: Path) -> "ssl.SSLContext":
    import ssl

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key)
    except OSError as error:  # ssl.SSLError is one
        raise UsageError(f"--tls-cert {certificate}, --tls-key {key}: {error.strerror or error}") from None
    return context


def _say_where(url: str) -> None:
    print(f"reference agent at {url} (Ctrl-C stops it)", flush=True)
