"""``voicebench agent``: serve the reference agent, whose delays are known (VB31)."""

import argparse
from pathlib import Path
from typing import Any

from voicebench.cli.options import UsageError, add_option_argument, positive_int
from voicebench.exits import Exit


def add_commands(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add ``agent`` and its old name ``mock-server``."""
    for name, text in (("agent", "serve the reference agent over websockets"), ("mock-server", "old name of agent")):
        agent = commands.add_parser(name, parents=[common], help=text)
        agent.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
        agent.add_argument("--port", type=int, default=8765, help="port to listen on; 0 picks one (default: 8765)")
        agent.add_argument("--sample-rate", type=positive_int, default=16000, help="in Hz (default: 16000)")
        add_option_argument(agent, "option of the agent, such as response_delay_ms=250 (repeatable)")
        agent.add_argument("--log", type=Path, metavar="FILE", help="write what the agent did when, as JSON lines")
        agent.add_argument("--tls-cert", type=Path, metavar="FILE", help="certificate chain (PEM): serve wss://")
        agent.add_argument("--tls-key", type=Path, metavar="FILE", help="its private key (PEM)")
        agent.set_defaults(handler=agent_command)


def agent_command(args: argparse.Namespace) -> int:
    """Serve until interrupted."""
    if (args.tls_cert is None) != (args.tls_key is None):
        raise UsageError("--tls-cert and --tls-key go together")
    if not 0 <= args.port <= 65535:
        raise UsageError(f"--port {args.port}: must be between 0 and 65535")
    return Exit.OK
