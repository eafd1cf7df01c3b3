"""How many calls one core holds, and how exactly: ours, the naive user, PyPI's voicebench, and a client in C.

The client has core 0, the agent core 1, both with a sentinel beside that says when the machine itself was late. The
agent and all callers send 50 frames a second in every call all the time. Each client goes up in steps until it
breaks: send lag beyond 10 ms at p99 while the machine was on time, or the core full.

    python -m benchmarks.density --only ours,naive --seconds 4

Writes bench.json, bench.md and bench.svg into reports/bench.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import machine, publish
from benchmarks.figures import Run, row

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Client:
    """One of those that are compared."""

    name: str
    label: str
    steps: tuple[int, ...]
    reply: str = "reply_start_ns"  #: what its latency ends at
    tls: bool = False


CLIENTS = (
    Client("ours", "voicebench (this)", (100, 200, 400, 600, 800, 1000, 1200), "reply_heard_ns"),
    Client("ours-tls", "voicebench (this), TLS", (200, 400), "reply_heard_ns", tls=True),
    Client("naive", "naive Locust user", (50, 100, 150, 200, 300)),
    Client("peer", "PyPI voicebench 0.2.0", (10, 20, 40, 60, 80), "reply_heard_ns"),
    Client("c", "event-driven C client", (400, 800, 1200, 1600)),
)


class Bench:
    """Runs the steps."""

    def __init__(self, directory: Path, seconds: float, realtime: bool, peer: Path | None) -> None:
        self.directory = directory
        self.seconds = seconds
        self.realtime = realtime
        self.peer = peer
        self.priority = ""
        self.programs = machine.build(directory)
        self.certificate = machine.certificate(directory)
        (directory / "path").mkdir()
        (directory / "path" / "benchmarks").symlink_to(ROOT / "benchmarks")  # for the peer: ours, but not our package

    def client(self, client: Client) -> list[dict[str, Any]]:
        """All steps of a client: a row for each, the last one being the one that broke, if any."""
        rows: list[dict[str, Any]] = []
        for calls in client.steps:
            try:
                found = self.step(client, calls)
            except RuntimeError as error:
                found = {"client": client.name, "calls": calls, "broke": str(error)}
            rows.append(found)
            print(publish.line(found), flush=True)
            if found["broke"]:
                break
        return rows

    def step(self, client: Client, calls: int) -> dict[str, Any]:
        """One row. Raises RuntimeError if it cannot be run."""
        if client.tls and self.certificate is None:
            raise RuntimeError("no openssl command to make a certificate")
        log, out = self.directory / "agent.jsonl", self.directory / "out"
        log.unlink(missing_ok=True)
        tls = self.certificate if client.tls else None
        with machine.Sentinels(self.programs, self.directory) as sentinels:
            self.priority = sentinels.priority
            with machine.agent(self.programs, log, tls, self.realtime) as url:
                command = machine.pinned(machine.CLIENT_CORE, self.realtime) + self.command(client, url, calls, out)
                path = self.directory / "path" if client.name == "peer" else ROOT
                failure = machine.run_client(command, 60 + 3 * self.seconds, self.directory, path)
        if failure:
            raise RuntimeError(failure)
        truth, about_agent = machine.truths(log)
        return row(Run(client.name, calls, out, truth, about_agent, sentinels.lateness(), client.reply))

    def command(self, client: Client, url: str, calls: int, out: Path) -> list[str]:
        if client.name == "c":
            if self.programs.client is None or self.programs.agent is None:
                raise RuntimeError("no C compiler")
            return [str(self.programs.client), url.rsplit(":", 1)[1], str(calls), str(self.seconds), str(out)]
        python = sys.executable
        if client.name == "peer":
            self.peer = self.peer or machine.peer_python()
            python = str(self.peer)
        name = client.name.partition("-")[0]
        arguments = [url, str(calls), str(self.seconds), str(out)]
        if client.tls and self.certificate:
            arguments += ["--ca", str(self.certificate[0])]
        return [python, "-m", f"benchmarks.clients.{name}", *arguments]


def main() -> int:
    """Run the benchmark and write its files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [client.name for client in CLIENTS]
    parser.add_argument(
        "--only", default=",".join(names), help=f"which clients, with commas (default: {','.join(names)})"
    )
    parser.add_argument("--steps", help="calls per step, with commas, instead of each client's own")
    parser.add_argument("--seconds", type=float, default=8.0, help="length of a step with all calls up (default: 8)")
    parser.add_argument("--out", type=Path, default=ROOT / "reports" / "bench", help="where to write")
    parser.add_argument("--peer", type=Path, help="an interpreter that has the peer (default: make an environment)")
    parser.add_argument(
        "--realtime", action="store_true", help="run client and agent above the machine's other programs (needs root)"
    )
    parser.add_argument("--publish", type=Path, metavar="FILE", help="also put the tables into this Markdown file")
    args = parser.parse_args()
    if len(os.sched_getaffinity(0)) < 2:
        print("bench: needs two cores, one for the client and one for the agent", file=sys.stderr)
        return 2
    wanted = set(args.only.split(","))
    directory = Path(tempfile.mkdtemp(prefix="voicebench-bench-"))
    try:
        bench = Bench(directory, args.seconds, args.realtime, args.peer)
        print(publish.HEADER, flush=True)
        rows = []
        for client in CLIENTS:
            if client.name in wanted:
                steps = tuple(int(step) for step in args.steps.split(",")) if args.steps else client.steps
                rows += bench.client(Client(client.name, client.label, steps, client.reply, client.tls))
        report = {
            "machine": machine.describe(),
            "seconds": args.seconds,
            "realtime": args.realtime,
            "sentinel": bench.priority,
            "labels": {client.name: client.label for client in CLIENTS},
            "rows": rows,
        }
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "bench.json").write_text(json.dumps(report, indent=1) + "\n")
    publish.write(report, args.out, args.publish)
    return 0


if __name__ == "__main__":
    sys.exit(main())
