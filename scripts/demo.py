"""Twenty callers on two worker processes call the reference agent for half a minute. `make demo` runs this."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from voicebench.agents.background import BackgroundServer

ROOT = Path(__file__).resolve().parent.parent
OUT = Path("reports/demo")
#: Longer than a call, so that every call which is going on at the end is played to its own end.
DRAIN_S = 25
#: A demonstration has to end well on a busy machine too, and its report shows what was disturbed. A measurement keeps
#: the usual limits on the harness.
LENIENT = {"VOICEBENCH_MAX_VOID_TURN_SHARE": "1", "VOICEBENCH_MAX_SEND_LAG_P99_MS": "1000"}


def main() -> int:
    """Run the demo in the repository's root; returns the exit code of the load run."""
    os.chdir(ROOT)
    OUT.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # Ctrl-C is for the callers: the agent, in a session of its own, outlives their last calls.
    with BackgroundServer(log_path=OUT / "agent.jsonl", prefix=("setsid",), jitter_ms=200) as agent:
        command = load_command(agent.url, free_port())
        print("demo: an agent listens on", agent.url)
        print("demo:", " ".join(command), flush=True)
        locust = Path(sys.executable).with_name(command[0])
        with subprocess.Popen(command, executable=locust, env={**LENIENT, **os.environ}) as load:
            try:
                return load.wait()
            except KeyboardInterrupt:  # the run ends its calls and writes its report
                load.terminate()
                return load.wait()


def load_command(agent_url: str, master_port: int) -> list[str]:
    """The load run, as anybody would type it."""
    return f"""
        locust -f locustfiles/voice.py --headless --only-summary -u 20 -r 10 -t 30s --processes 2
        --master-bind-host 127.0.0.1 --master-bind-port {master_port} --master-port {master_port}
        --host {agent_url} --scenario scenarios/booking.yaml --scenario scenarios/smoke.yaml
        --voicebench-out {OUT} --voicebench-drain-s {DRAIN_S}
    """.split()


def free_port() -> int:
    """A port that is free right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, RuntimeError) as error:
        sys.exit(f"demo: {error}")
