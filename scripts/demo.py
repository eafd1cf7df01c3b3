"""Twenty callers on two worker processes call the reference agent for half a minute. `make demo` runs this.

Environment: DEMO_PORT is the agent's port (default: a free one).
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = Path("reports/demo")
HOST = "127.0.0.1"
CALLERS, SPAWNED_PER_S, WORKERS, DURATION_S = 20, 10, 2, 30
#: Long enough for every call that is going on at the end to be played to its own end.
DRAIN_S = 25
AGENT_START_S = 20.0


def main() -> int:
    """Run the demo from the repository's root; returns the exit code of the load run."""
    os.chdir(ROOT)
    OUT.mkdir(parents=True, exist_ok=True)
    agent_port = int(os.environ.get("DEMO_PORT") or free_port())
    if taken(agent_port):
        print(f"demo: port {agent_port} is taken; choose another with DEMO_PORT", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with agent(agent_port), subprocess.Popen(load_command(agent_port, free_port())) as load:
        try:
            return load.wait()
        except KeyboardInterrupt:  # the run ends its calls and writes its report
            load.terminate()
            return load.wait()


def load_command(agent_port: int, master_port: int) -> list[str]:
    """The load run, as anybody would type it."""
    command = f"""
        locust -f locustfiles/voice.py --headless --only-summary
        -u {CALLERS} -r {SPAWNED_PER_S} -t {DURATION_S}s --processes {WORKERS}
        --master-bind-host {HOST} --master-bind-port {master_port} --master-port {master_port}
        --host ws://{HOST}:{agent_port}
        --scenario scenarios/booking.yaml --scenario scenarios/smoke.yaml
        --voicebench-out {OUT} --voicebench-drain-s {DRAIN_S}
    """.split()
    print("demo:", " ".join(command), flush=True)
    return [sys.executable, "-m", *command]


@contextmanager
def agent(port: int) -> Iterator[None]:
    """The reference agent, from its first to its last second."""
    command = [sys.executable, "-m", "voicebench", "agent", "--host", HOST, "--port", str(port)]
    command += ["--log", str(OUT / "agent.jsonl")]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)  # Ctrl-C is for the callers
    try:
        wait_until_it_answers(process, port)
        yield
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=10)
        process.kill()
        process.wait()


def wait_until_it_answers(process: "subprocess.Popen[bytes]", port: int) -> None:
    """Raises SystemExit if it ends or stays silent."""
    deadline = time.monotonic() + AGENT_START_S
    while not taken(port):
        if process.poll() is not None:
            raise SystemExit("demo: the reference agent did not start; its message stands above")
        if time.monotonic() > deadline:
            raise SystemExit(f"demo: the reference agent did not answer on port {port} within {AGENT_START_S:g} s")
        time.sleep(0.05)


def taken(port: int) -> bool:
    """Whether somebody listens there."""
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def free_port() -> int:
    """A port that is free right now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    sys.exit(main())
