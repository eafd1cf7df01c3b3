"""``voicebench calibrate`` against a real agent, with few calls."""

import json
import os
import subprocess
import sys

from voicebench.exits import Exit


def calibrate(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "voicebench", "calibrate", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=90)


def test_a_short_ramp_finds_the_agents_truth_and_its_own_figures() -> None:
    done = calibrate("--step", "4", "--max", "8", "--seconds", "3", "--json")

    assert done.returncode == Exit.OK, done.stderr
    found = json.loads(done.stdout)
    assert found["calls"] == 8
    last = found["steps"][-1]
    assert last["calls"] == 8
    assert last["turns"] >= 8
    assert last["error_p50_ms"] <= 20
    assert 0 < last["cpu_share"] < 1
    assert 0 < last["agent_cpu_share"] < 1
    assert 0 < last["memory_per_call_kib"] < 10_000
    assert last["send_lag_p50_ms"] < 20


def test_it_ends_in_time_and_says_what_it_saw() -> None:
    done = calibrate("--step", "2", "--max", "1000", "--seconds", "1", "--time", "5")

    assert "calls with a send lag of at most 20 ms" in done.stdout, done.stderr
    assert len(done.stdout.splitlines()) < 12


def test_a_core_that_is_not_there_is_a_usage_error() -> None:
    absent = max(os.sched_getaffinity(0)) + 1
    done = calibrate("--cores", f"0,{absent}")

    assert done.returncode == Exit.USAGE
    assert f"cannot use core {absent}" in done.stderr
