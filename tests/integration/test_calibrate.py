"""``voicebench calibrate`` against a real agent, with few calls."""

import json
import os
import subprocess
import sys
import time

from voicebench.exits import Exit


def calibrate(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "voicebench", "calibrate", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=90)


def test_a_short_ramp_finds_the_agents_truth_and_its_own_figures() -> None:
    done = calibrate("--step", "4", "--max", "8", "--seconds", "3", "--json")

    found = json.loads(done.stdout)
    assert (done.returncode == Exit.OK) == (found["calls"] > 0), done.stderr
    assert found["broke_first"] or found["calls"] == 8  # on a machine that others use, a step may break
    first = found["steps"][0]
    assert first["calls"] == 4
    assert first["failed_calls"] == 0
    assert first["turns"] >= 2
    assert first["error_p50_ms"] is None or first["error_p50_ms"] <= 20
    assert 0 < first["cpu_share"] < 1
    assert 0 < first["agent_cpu_share"] < 1
    assert 0 < first["memory_per_call_kib"] < 10_000


def test_it_ends_in_time_and_says_what_it_saw() -> None:
    began = time.monotonic()
    done = calibrate("--step", "2", "--max", "1000", "--seconds", "1", "--time", "5")

    assert time.monotonic() - began < 30  # 5 s, the last step, and the starts of two interpreters
    assert "This machine cannot keep time" in done.stdout or "calls with a send lag of at most 20 ms" in done.stdout
    assert done.stdout.splitlines()[2].split()[0] == "2", done.stderr


def test_a_core_that_is_not_there_is_a_usage_error() -> None:
    absent = max(os.sched_getaffinity(0)) + 1
    done = calibrate("--cores", f"0,{absent}")

    assert done.returncode == Exit.USAGE
    assert f"cannot use core {absent}" in done.stderr
