"""``python -m voicebench.agents``: serve the reference agent; prints ``READY URL`` once it listens."""

import argparse
import ssl
import sys
from pathlib import Path

import yaml

from voicebench.agents.reference import OptionError, ReferenceOptions
from voicebench.agents.server import PROTOCOLS, serve
from voicebench.exits import Exit


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m voicebench.agents", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--protocol", choices=PROTOCOLS, default="websocket")
    parser.add_argument("--port", type=int, help="0 picks a free one")
    parser.add_argument("--sample-rate", type=int, help="in Hz")
    parser.add_argument("-o", "--option", action="append", default=[], metavar="KEY=YAML", help="option of the agent")
    parser.add_argument("--log", type=Path, metavar="FILE", help="write what the agent did when, as JSON lines")
    parser.add_argument("--tls-cert", type=Path, metavar="FILE", help="certificate chain (PEM): serve wss://")
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="its private key (PEM)")
    args = parser.parse_args(arguments)
    try:
        options = ReferenceOptions.parse(dict(_option(text) for text in args.option))
        tls = None
        if args.tls_cert is not None:
            tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            tls.load_cert_chain(args.tls_cert, args.tls_key)
        serve(args.host, args.port, args.sample_rate, options, args.log, tls, _ready, protocol=args.protocol)
    except (OptionError, OSError) as error:
        print(error, file=sys.stderr)
        return Exit.USAGE
    return Exit.OK


def _option(text: str) -> tuple[str, object]:
    key, equals, value = text.partition("=")
    if not equals:
        raise OptionError(f"-o {text}: write it as KEY=VALUE")
    try:
        return key, yaml.safe_load(value)
    except yaml.YAMLError:
        raise OptionError(f"-o {text}: the value is not YAML") from None


def _ready(url: str) -> None:
    print(f"READY {url}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
