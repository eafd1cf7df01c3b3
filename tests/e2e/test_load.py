"""Load runs end to end. In each: started = completed + truncated + failed + lost."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.load_runs import (
    ANY_LAG,
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
from voicebench.agents.background import BackgroundServer
from voicebench.exits import Exit
from voicebench.report.store import load


@pytest.fixture(scope="module")
def agent() -> Iterator[str]:
    with BackgroundServer(response_ms=500) as server:
        yield server.url


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    return write_scenario(tmp_path)


def spools(directory: Path) -> list[Path]:
    return sorted((directory / "spool").glob("*/*"))


def calls_spooled(directory: Path) -> list[int]:
    return [(spool / "sessions.jsonl").read_bytes().count(b"\n") for spool in spools(directory)]


def test_a_run_that_reaches_its_time_reports_both_workers_and_every_call(
    agent: str, scenario: Path, tmp_path: Path
) -> None:
    arguments = load_arguments(tmp_path, scenario, agent, "--headless", "-u", "20", "-r", "20", "-t", "8s")
    with Locust(tmp_path, *arguments, *processes(2)) as locust:
        assert locust.wait() == Exit.OK, locust.log
    report = balanced_report(locust.out)
    run = report["run"]
    assert (run["failed"], run["lost"]) == (0, 0)
    assert run["completed"] >= 20
    assert [worker["started"] > 0 for worker in report["workers"]] == [True, True]
    assert report["summary"]["missed_responses"] == 0
    assert 650 <= report["summary"]["response_latency_ms"]["p50"] <= 750
    assert "PASS" in locust.log
    assert "turn     short/turn-1" in locust.log  # Locust's own table


@pytest.mark.parametrize("how", ["SIGTERM", "SIGINT", "SIGINT to all"])
def test_a_signal_ends_a_run_without_losing_a_call(agent: str, scenario: Path, tmp_path: Path, how: str) -> None:
    arguments = load_arguments(tmp_path, scenario, agent, "--headless", "-u", "20", "-r", "20")
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


def test_a_run_without_workers_ends_by_signal_and_keeps_recordings(
    agent: str, scenario: Path, tmp_path: Path
) -> None:
    arguments = load_arguments(tmp_path, scenario, agent, "--headless", "-u", "3", "-r", "3", "--record", "all")
    with Locust(tmp_path, *arguments) as locust:
        locust.wait_for_sessions(3)
        locust.signal(signal.SIGTERM)
        assert locust.wait() == Exit.OK, locust.log
    report = balanced_report(locust.out)
    assert report["run"]["lost"] == 0
    recording = next(call["recording"] for call in report["sessions"] if call["outcome"] == "completed")
    assert (locust.out / recording["stereo"]).stat().st_size > 44


def test_master_and_workers_in_separate_processes(agent: str, scenario: Path, tmp_path: Path) -> None:
    port = str(free_port())
    run = load_arguments(tmp_path, scenario, agent, "--headless", "-u", "8", "-r", "8", "-t", "4s")
    mastering = ["--master", "--expect-workers", "2", "--master-bind-port", port]
    with (
        Locust(tmp_path, *run, *mastering) as master,
        Locust(tmp_path, "--worker", "--master-port", port, name="one") as one,
        Locust(tmp_path, "--worker", "--master-port", port, name="two") as two,
    ):
        assert master.wait() == Exit.OK, master.log
        assert (one.wait(), two.wait()) == (0, 0)
    report = balanced_report(master.out)
    assert report["run"]["lost"] == 0
    assert len(report["workers"]) == 2


def test_the_web_ui_starts_stops_and_starts_again(agent: str, scenario: Path, tmp_path: Path) -> None:
    port = str(free_port())
    base = f"http://127.0.0.1:{port}"
    web = ["--web-host", "127.0.0.1", "--web-port", port]
    users = {"user_count": "6", "spawn_rate": "6", "host": agent}
    with Locust(tmp_path, *load_arguments(tmp_path, scenario, agent), *web, *processes(2)) as locust:
        wait_for_workers(base, 2)
        for out in (locust.out, tmp_path / "out-2"):
            assert json.loads(http(f"{base}/swarm", users))["success"]
            locust.wait_for_sessions(6, out)
            assert live_calls(http(f"{base}/stats/requests")) >= 1
            assert json.loads(http(f"{base}/stop", {}))["success"]
            report = balanced_report(out)
            assert (report["run"]["lost"], len(report["workers"])) == (0, 2)
            wait_for_workers(base, 2)
        assert "Voicebench" in http(f"{base}/")
        locust.signal(signal.SIGTERM)
        assert locust.wait() == Exit.OK, locust.log


def live_calls(stats: str) -> int:
    table: list[dict[str, Any]] = json.loads(stats)["extended_stats"][0]["data"]
    return int(table[-1]["calls"])


def test_a_killed_workers_calls_are_lost_and_the_exit_code_says_so(agent: str, tmp_path: Path) -> None:
    scenario = write_scenario(tmp_path, "long", tail_ms=9000)
    arguments = load_arguments(tmp_path, scenario, agent, "--headless", "-u", "20", "-r", "20")
    with Locust(tmp_path, *arguments, *processes(2)) as locust:
        wait_for(lambda: calls_spooled(tmp_path) == [10, 10], "ten calls on each worker")
        os.kill(locust.children()[0], signal.SIGKILL)
        locust.signal(signal.SIGTERM)
        assert locust.wait() == Exit.INVALID, locust.log
    report = balanced_report(locust.out)
    lost = [call for call in report["sessions"] if call["outcome"] == "lost"]
    assert (len(lost), report["run"]["truncated"]) == (10, 10)
    assert len({call["worker"] for call in lost}) == 1
    assert all("vanished" in call["reason"] for call in lost)
    assert sorted(worker["lost"] for worker in report["workers"]) == [0, 10]
    _, from_spools = load(spools(tmp_path))  # what `voicebench merge` reads
    assert {call.call_id for call in from_spools} == {call["call_id"] for call in report["sessions"]}


def test_a_worker_that_is_told_to_go_hands_over_its_calls_and_the_run_goes_on(agent: str, tmp_path: Path) -> None:
    scenario = write_scenario(tmp_path, "long", tail_ms=9000)
    arguments = load_arguments(tmp_path, scenario, agent, "--headless", "-u", "8", "-r", "8")
    with Locust(tmp_path, *arguments, *processes(2)) as locust:
        wait_for(lambda: calls_spooled(tmp_path) == [4, 4], "four calls on each worker")
        os.kill(locust.children()[0], signal.SIGTERM)
        locust.wait_for_sessions(4)
        assert locust.process.poll() is None
        wait_for(lambda: "1 workers ready" in locust.log or "quit. 0 workers" in locust.log, "the worker has gone")
        locust.signal(signal.SIGTERM)
        assert locust.wait() == Exit.INVALID, locust.log  # no call completed
    report = balanced_report(locust.out)
    assert (report["run"]["truncated"], report["run"]["lost"]) == (report["run"]["started"], 0)
    assert any("was stopped during the run, with all its calls" in note for note in report["run"]["notes"])


def test_a_second_interrupt_cuts_calls_off_that_the_first_one_let_go_on(agent: str, tmp_path: Path) -> None:
    scenario = write_scenario(tmp_path, "long", tail_ms=60000)
    arguments = load_arguments(tmp_path, scenario, agent, "--headless", "-u", "4", "-r", "4")
    with Locust(tmp_path, *arguments, "--voicebench-drain-s", "50", *processes(2)) as locust:
        wait_for(lambda: sum(calls_spooled(tmp_path)) == 4, "four calls")
        locust.signal_all(signal.SIGINT)
        wait_for(lambda: "the run ends with" in locust.log, "the end")
        locust.signal_all(signal.SIGINT)
        assert locust.wait(20) == Exit.INVALID, locust.log  # no call completed
    assert balanced_report(locust.out)["run"]["truncated"] == 4


@pytest.mark.parametrize("mode", [[], ["--processes", "2"], ["--master"], ["--worker"]])
def test_a_bad_scenario_ends_with_code_2_and_one_line_before_anything_starts(tmp_path: Path, mode: list[str]) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("name: bad\nturns:\n  - audio: {synth: speach}\n")
    with Locust(tmp_path, "--headless", "--scenario", str(bad), *mode) as locust:
        assert locust.wait(10) == Exit.USAGE
    assert locust.log.strip().count("\n") == 0
    assert f"{bad}:3: turns[0].audio.synth: 'speach' is not a signal" in locust.log


def test_a_run_without_a_scenario_or_a_place_to_write_ends_with_code_2(scenario: Path, tmp_path: Path) -> None:
    with Locust(tmp_path, "--headless") as locust:
        assert locust.wait(10) == Exit.USAGE
    assert "no scenario: give --scenario" in locust.log
    unwritable = ["--scenario", str(scenario), "--voicebench-out", "/proc/reports"]
    with Locust(tmp_path, "--headless", *unwritable) as locust:
        assert locust.wait(10) == Exit.USAGE
    assert "cannot write to /proc/reports" in locust.log


def test_an_agent_that_cannot_be_reached_fails_every_call_and_the_run_goes_on(scenario: Path, tmp_path: Path) -> None:
    nobody = f"ws://127.0.0.1:{free_port()}"
    arguments = load_arguments(tmp_path, scenario, nobody, "--headless", "-u", "4", "-r", "4", "-t", "5s")
    with Locust(tmp_path, *arguments) as locust:
        assert locust.wait() == Exit.UNREACHABLE, locust.log
    run = balanced_report(locust.out)["run"]
    assert run["failed"] == run["started"]
    assert 4 <= run["started"] <= 16  # a caller backs off: at most one attempt in two seconds
    assert "connection refused" in locust.log


def test_scenarios_mix_by_weight_and_their_names_stay_apart(agent: str, tmp_path: Path) -> None:
    often, seldom = write_scenario(tmp_path, "often"), write_scenario(tmp_path, "seldom")
    arguments = ["--scenario", f"{often}:3", "--scenario", f"{seldom}:1", "--host", agent, "--headless"]
    arguments += ["-u", "8", "-r", "8", "--voicebench-out", str(tmp_path / "out"), "--voicebench-drain-s", "3"]
    arguments += ANY_LAG
    with Locust(tmp_path, *arguments) as locust:
        locust.wait_for_sessions(8)
        locust.signal(signal.SIGTERM)
        assert locust.wait() == Exit.OK, locust.log
    report = balanced_report(locust.out)
    counts = {name: part["sessions"] for name, part in report["by_scenario"].items()}
    assert counts["often"] + counts["seldom"] == report["run"]["started"]
    assert abs(counts["often"] - 3 * counts["seldom"]) <= 4
