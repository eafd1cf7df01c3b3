"""A worker that stalls makes a load run invalid, and is named."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.load_runs import Locust, balanced_report, processes, write_scenario
from voicebench.agents.background import BackgroundServer
from voicebench.exits import Exit

STALLING = Path(__file__).with_name("stalling.py")


@pytest.fixture(scope="module")
def agent() -> Iterator[str]:
    with BackgroundServer(response_ms=500) as server:
        yield server.url


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stall_of_400_ms_ends_with_code_4_and_names_the_worker(agent: str, tmp_path: Path, workers: int) -> None:
    scenario = write_scenario(tmp_path, tail_ms=2000)  # calls begin after 0 and 4 s
    arguments = ["--scenario", str(scenario), "--host", agent, "--headless", "-u", "10", "-r", "10", "-t", "6s"]
    arguments += ["--voicebench-out", str(tmp_path / "out"), "--voicebench-drain-s", "4"]
    arguments += processes(workers) if workers else []
    with Locust(tmp_path, *arguments, locustfile=STALLING) as locust:
        assert locust.wait() == Exit.INVALID, locust.log
    report = balanced_report(locust.out)
    stalled = f"{socket.gethostname()}-{1 if workers else 0}"
    lag = next(item for item in report["assertions"] if item["key"] == "max_send_lag_p99_ms")
    assert (lag["limit"], lag["builtin"], lag["passed"], lag["scenario"]) == (20, True, False, "")
    overloaded = {item["worker"]: item for item in report["harness"]["overloaded"] if item["key"] == lag["key"]}
    assert overloaded[stalled]["actual"] > 200
    row = next(worker for worker in report["workers"] if worker["id"] == stalled)
    assert row["loop_lag_ms"]["max"] >= 395
    assert row["send_lag_ms"]["max"] >= 380
    assert row["skipped_frames"] >= 5 * 18  # all its callers hold their second call then
    assert row["void_turns"] >= 1
    assert row["cpu_share"] > 0
    words = " ".join(locust.log.split())  # the console breaks lines
    assert "INVALID The measurement is not valid: the harness did not keep time: " in words
    assert f"{stalled} (" in words
    assert "Use more workers with fewer users each, one worker per core" in words
    assert f"worker {stalled} is late: send lag p99 of the last 10 s is " in words
    latency = report["summary"]["response_latency_ms"]  # of the turns that the stall did not touch
    assert latency["p50"] == pytest.approx(700, abs=100)
