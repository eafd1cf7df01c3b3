"""Two hundred callers on four workers, ended in every way, five times in a row: not one call is lost."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.load_runs import (
    Locust,
    balanced_report,
    free_port,
    http,
    load_arguments,
    processes,
    wait_for_workers,
    write_scenario,
)
from voicebench.agents.background import BackgroundServer
from voicebench.exits import Exit

CALLERS = 200
WORKERS = 4
USERS = ["-u", str(CALLERS), "-r", str(CALLERS)]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def agent() -> Iterator[str]:
    with BackgroundServer(response_ms=500) as server:
        yield server.url


@pytest.mark.parametrize("repetition", range(5))
@pytest.mark.parametrize("end", ["run time", "SIGTERM", "SIGINT", "web UI"])
def test_no_call_is_lost(agent: str, tmp_path: Path, end: str, repetition: int) -> None:
    scenario = write_scenario(tmp_path, tail_ms=2000)
    arguments = [*load_arguments(tmp_path, scenario, agent), *processes(WORKERS)]
    if end == "web UI":
        _from_the_web_ui(tmp_path, arguments, agent)
    else:
        arguments += ["--headless", *USERS, *(["-t", "9s"] if end == "run time" else [])]
        with Locust(tmp_path, *arguments) as locust:
            if end != "run time":
                locust.wait_for_sessions(CALLERS)
                locust.signal(signal.Signals[end])
            assert locust.wait(60) == Exit.OK, locust.log
    report = balanced_report(tmp_path / "out")
    run = report["run"]
    assert (run["lost"], run["failed"]) == (0, 0)
    assert run["started"] == run["recorded"] >= CALLERS
    assert len(report["workers"]) == WORKERS


def _from_the_web_ui(directory: Path, arguments: list[str], agent: str) -> None:
    port = str(free_port())
    base = f"http://127.0.0.1:{port}"
    with Locust(directory, *arguments, "--web-host", "127.0.0.1", "--web-port", port) as locust:
        wait_for_workers(base, WORKERS)
        form = {"user_count": str(CALLERS), "spawn_rate": str(CALLERS), "host": agent}
        assert json.loads(http(f"{base}/swarm", form))["success"]
        locust.wait_for_sessions(CALLERS)
        assert json.loads(http(f"{base}/stop", {}))["success"]
        locust.signal(signal.SIGTERM)
        assert locust.wait() == Exit.OK, locust.log
