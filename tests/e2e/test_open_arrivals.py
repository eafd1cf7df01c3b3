"""Load runs whose calls begin on schedule, whatever has become of earlier ones. However a run ends, none is lost."""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.load_runs import (
    Locust,
    balanced_report,
    free_port,
    http,
    load_arguments,
    processes,
    wait_for,
    wait_for_workers,
    write_scenario,
)
from tests.integration import scripted_agent
from voicebench.agents.background import BackgroundServer
from voicebench.exits import Exit


@pytest.fixture(scope="module")
def agent() -> Iterator[str]:
    with BackgroundServer(response_ms=500) as server:
        yield server.url


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    return write_scenario(tmp_path)


def all_calls(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "sessions.jsonl").read_text().splitlines()]


def spooled(directory: Path) -> int:
    """Calls that workers have begun so far."""
    lines = [line for spool in directory.glob("spool/*/*/sessions.jsonl") for line in spool.read_text().splitlines()]
    return len({json.loads(line)["call_id"] for line in lines if line.endswith("}")})


def test_a_constant_rate_is_kept_by_two_workers(agent: str, scenario: Path, tmp_path: Path) -> None:
    arguments = load_arguments(tmp_path, scenario, agent, "--headless", "--arrivals", "constant:5", "-t", "8s")
    with Locust(tmp_path, *arguments, *processes(2)) as locust:
        assert locust.wait() == Exit.OK, locust.log
    report = balanced_report(locust.out)
    run = report["run"]
    assert (run["arrivals"], run["schedule"]) == ("open", "5 calls a second, evenly spaced")
    assert (run["lost"], run["failed"]) == (0, 0)
    times = sorted(call["scheduled_at"] for call in all_calls(locust.out))
    assert run["started"] == pytest.approx((times[-1] - times[0]) * 5 + 1, abs=2)
    assert 25 <= run["started"] <= 41  # 40, less what a busy machine takes of the run's time to begin
    shares = [worker["started"] for worker in report["workers"]]
    assert (len(shares), max(shares) - min(shares) <= 1) == (2, True)
    for worker in report["workers"]:
        own = sorted(call["scheduled_at"] for call in all_calls(locust.out) if call["worker"] == worker["id"])
        assert [b - a for a, b in pairwise(own)] == pytest.approx([0.4] * (len(own) - 1), abs=0.01)
    assert sum(row["scheduled"] for row in report["timeline"]) == run["started"]
    assert report["summary"]["start_lag_ms"]["count"] == run["started"]
    assert "5 calls a second, evenly spaced" in locust.log
    assert "Call setup p50 / p99 / max" in locust.log


@pytest.mark.parametrize("how", ["SIGTERM", "SIGINT", "SIGINT to all"])
def test_a_signal_ends_a_run_without_losing_a_call(agent: str, scenario: Path, tmp_path: Path, how: str) -> None:
    arguments = load_arguments(tmp_path, scenario, agent, "--headless", "--arrivals", "poisson:20")
    with Locust(tmp_path, *arguments, *processes(2)) as locust:
        locust.wait_for_sessions(10)
        number = signal.Signals[how.split()[0]]
        if "all" in how:
            locust.signal_all(number)
        else:
            locust.signal(number)
        assert locust.wait() == Exit.OK, locust.log
    run = balanced_report(locust.out)["run"]
    assert (run["failed"], run["lost"]) == (0, 0)
    assert run["started"] >= 20
    assert ", seed " in run["schedule"]
    assert not any("never begun" in note for note in run["notes"])


def test_the_web_ui_starts_and_stops_a_schedule(agent: str, scenario: Path, tmp_path: Path) -> None:
    port = str(free_port())
    base = f"http://127.0.0.1:{port}"
    web = ["--web-host", "127.0.0.1", "--web-port", port]
    form = {"user_count": "1", "spawn_rate": "1", "host": agent, "arrivals": "constant:10"}
    with Locust(tmp_path, *load_arguments(tmp_path, scenario, agent), *web, *processes(2)) as locust:
        wait_for_workers(base, 2)
        for out in (locust.out, tmp_path / "out-2"):
            assert json.loads(http(f"{base}/swarm", form))["success"]
            locust.wait_for_sessions(6, out)
            assert json.loads(http(f"{base}/stop", {}))["success"]
            report = balanced_report(out)
            assert (report["run"]["lost"], report["run"]["arrivals"]) == (0, "open")
            assert [worker["started"] > 0 for worker in report["workers"]] == [True, True]
            wait_for_workers(base, 2)
        locust.signal(signal.SIGTERM)
        assert locust.wait() == Exit.OK, locust.log


def test_a_killed_workers_calls_are_lost_and_those_it_never_began_are_counted(agent: str, tmp_path: Path) -> None:
    scenario = write_scenario(tmp_path, "long", tail_ms=9000)
    arguments = load_arguments(tmp_path, scenario, agent, "--headless", "--arrivals", "constant:10")
    with Locust(tmp_path, *arguments, *processes(2)) as locust:
        wait_for(lambda: spooled(tmp_path) >= 20, "twenty calls, some of either worker")
        os.kill(locust.children()[0], signal.SIGKILL)
        before = spooled(tmp_path)
        wait_for(lambda: spooled(tmp_path) >= before + 15, "three seconds of the other worker's calls")
        locust.signal(signal.SIGTERM)
        assert locust.wait() == Exit.INVALID, locust.log
    run = balanced_report(locust.out)["run"]
    assert run["lost"] >= 1
    note = next(note for note in run["notes"] if "never begun" in note)
    assert (
        12 <= int(note.split(":")[1].split()[0]) <= 60
    )  # five a second for three seconds, and what a busy machine adds


def test_beyond_the_most_calls_at_once_arrivals_fail_at_once_and_say_why(agent: str, tmp_path: Path) -> None:
    scenario = write_scenario(tmp_path, "long", tail_ms=9000)
    arguments = load_arguments(tmp_path, scenario, agent, "--headless", "--arrivals", "constant:10")
    with Locust(tmp_path, *arguments, "--voicebench-max-active", "3") as locust:
        locust.wait_for_sessions(20)
        locust.signal(signal.SIGTERM)
        assert locust.wait() == Exit.INVALID, locust.log  # no call completed
    report = balanced_report(locust.out)
    reason = "not started: more than 3 calls at once on this worker"
    calls = all_calls(locust.out)
    assert sum(call["connect_ms"] is not None for call in calls) == 3
    failure = next(item for item in report["failures"] if item["outcome"] == "failed")
    assert (failure["reason"], failure["count"]) == (reason, report["run"]["failed"])
    assert 0 <= len(calls) - 3 - failure["count"] <= 1  # the one that fell due as the run ended
    assert "not started" in locust.log


def test_a_listed_schedule_ends_the_run_when_its_calls_have_ended(agent: str, tmp_path: Path) -> None:
    booking, cancel = write_scenario(tmp_path, "booking"), write_scenario(tmp_path, "cancel")
    listed = tmp_path / "calls.csv"
    listed.write_text("time,scenario\n0,booking\n0.5,cancel\n0.5,booking\n1.25,cancel\n2,booking\n")
    arguments = load_arguments(tmp_path, booking, agent, "--headless", "--scenario", str(cancel))
    with Locust(tmp_path, *arguments, "--arrivals", f"csv:{listed}", *processes(2)) as locust:
        assert locust.wait(30) == Exit.OK, locust.log
    report = balanced_report(locust.out)
    assert (report["run"]["started"], report["run"]["completed"]) == (5, 5)
    assert {name: part["sessions"] for name, part in report["by_scenario"].items()} == {"booking": 3, "cancel": 2}


def test_a_schedule_that_makes_no_sense_ends_with_code_2_before_anything_starts(
    scenario: Path, tmp_path: Path
) -> None:
    listed = tmp_path / "calls.csv"
    listed.write_text("0\n1\nsoon\n")
    with Locust(tmp_path, "--headless", "--scenario", str(scenario), "--arrivals", f"csv:{listed}") as locust:
        assert locust.wait(10) == Exit.USAGE
    assert f"{listed}:3: 'soon' is no time in seconds" in locust.log
    listed.write_text("0\n1,nobody\n")
    with Locust(tmp_path, "--headless", "--scenario", str(scenario), "--arrivals", f"csv:{listed}") as locust:
        assert locust.wait(10) == Exit.USAGE
    assert f"{listed}:2: no scenario 'nobody' in this run; there is short" in locust.log


class Stall:
    """From two to four seconds after the first caller came, nobody is let in. Times are Unix times."""

    def __init__(self) -> None:
        self._first = threading.Lock()
        self.begins_at = self.ends_at = 0.0

    def __call__(self) -> None:
        with self._first:
            if not self.begins_at:
                self.begins_at, self.ends_at = time.time() + 2, time.time() + 4
        if self.begins_at <= time.time() < self.ends_at:
            time.sleep(self.ends_at - time.time())


MUTE = """
name: mute
tail_ms: 200
turns:
  - audio: {synth: speech, duration_ms: 300}
    response_timeout_ms: 200
"""


def test_an_agent_that_stalls_is_seen_by_every_call_scheduled_meanwhile(tmp_path: Path) -> None:
    """No coordinated omission: callers who wait to call again would have kept most of the stall to themselves."""
    scenario = tmp_path / "mute.yaml"
    scenario.write_text(MUTE)
    closed_stall, open_stall = Stall(), Stall()
    for name in ("closed", "open"):
        (tmp_path / name).mkdir()
    closed_dir, open_dir = tmp_path / "closed", tmp_path / "open"
    with (
        scripted_agent.agent(scripted_agent.Connection.hear_out, at_the_door=closed_stall) as closed_url,
        scripted_agent.agent(scripted_agent.Connection.hear_out, at_the_door=open_stall) as open_url,
    ):
        usual = ["--headless", "-t", "8s"]
        closed_run = load_arguments(closed_dir, scenario, closed_url, *usual, "-u", "2", "-r", "2")
        open_run = load_arguments(open_dir, scenario, open_url, *usual, "--arrivals", "constant:5")
        with Locust(closed_dir, *closed_run) as closed, Locust(open_dir, *open_run) as opened:
            assert (closed.wait(), opened.wait()) == (Exit.OK, Exit.OK), closed.log + opened.log
    report = balanced_report(opened.out)
    scheduled = [
        call
        for call in all_calls(opened.out)
        if open_stall.begins_at + 0.05 <= call["scheduled_at"] <= open_stall.ends_at - 0.05
    ]
    assert len(scheduled) in (9, 10)
    for call in scheduled:
        left_ms = (open_stall.ends_at - call["scheduled_at"]) * 1000
        assert left_ms - 20 <= call["setup_ms"] <= left_ms + 500
    assert report["summary"]["setup_ms"]["p90"] > 1000
    waited = [call for call in all_calls(closed.out) if (call["setup_ms"] or 0) > 50]
    assert 1 <= len(waited) <= 2  # each caller once
    assert all(call["scheduled_at"] is None for call in all_calls(closed.out))


BUSY = """
import time

import gevent
from locust import events

from voicebench.load.user import VoiceUser


class Caller(VoiceUser):
    pass


@events.test_start.add_listener
def stall_later(**_):
    gevent.spawn_later(1.5, stall)


def stall():
    until = time.monotonic() + 0.5
    with open("stall.txt", "w") as file:
        file.write(f"{time.time()} {time.time() + 0.5}")
    while time.monotonic() < until:
        pass
"""


def test_a_harness_that_stalls_owns_up_to_it_in_every_call_scheduled_meanwhile(
    agent: str, scenario: Path, tmp_path: Path
) -> None:
    locustfile = tmp_path / "busy.py"
    locustfile.write_text(BUSY)
    scenario.write_text(scenario.read_text() + "assert: {p99_start_lag_ms: 50}\n")
    arguments = load_arguments(tmp_path, scenario, agent, "--headless", "--arrivals", "constant:20", "-t", "4s")
    with Locust(tmp_path, *arguments, locustfile=locustfile) as locust:
        assert locust.wait() == Exit.INVALID, locust.log
    balanced_report(locust.out)
    begins_at, ends_at = map(float, (tmp_path / "stall.txt").read_text().split())
    held_up = [call for call in all_calls(locust.out) if begins_at + 0.01 < call["scheduled_at"] < ends_at - 0.01]
    assert len(held_up) in (9, 10)
    for call in held_up:
        left_ms = (ends_at - call["scheduled_at"]) * 1000
        assert left_ms - 10 <= call["start_lag_ms"] <= left_ms + 400
        assert call["setup_ms"] > call["start_lag_ms"]
