"""How audio arrives over real sockets, against what the agent itself wrote down; and again from the evidence."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from voicebench.adapters import adapter_for, create_adapter
from voicebench.agents.background import BackgroundServer
from voicebench.metrics import measure
from voicebench.metrics.results import Delivery
from voicebench.runner.record import SessionRecord
from voicebench.runner.session import Call
from voicebench.scenario import Scenario, parse_scenario

AGENT: dict[str, Any] = {"greeting_ms": 2400, "barge_in_min_ms": 120, "interrupt_reaction_ms": 60, "response_ms": 300}
#: An agent that was later than this, in ms, did something else than its script says; then the call is made again.
LATE_MS = 15.0
TRIES = 4

LISTEN = parse_scenario(
    {
        "name": "listen",
        "tail_ms": 400,
        "turns": [
            {
                "audio": {"synth": "silence", "duration_ms": 20},
                "start": {"after": "agent_speech_end", "timeout_ms": 5000},
                "expect": "ignore",
            }
        ],
    }
)
CUT_IN = parse_scenario(
    {
        "name": "cut-in",
        "tail_ms": 800,
        "turns": [
            {
                "audio": {"synth": "tone", "duration_ms": 600},
                "start": {"after": "agent_speech_start", "delay_ms": 500},
                "expect": "stop",
            }
        ],
    }
)


def truth(agent: BackgroundServer, call_id: str) -> dict[str, Any]:
    """The agent's line about a call, which it writes when the call has ended."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        for line in agent.log_path.read_text().splitlines():
            found: dict[str, Any] = json.loads(line)
            if found.get("call_id") == call_id:
                return found
        time.sleep(0.02)
    raise AssertionError(f"the agent wrote nothing about call {call_id}")


def on_time(agent: BackgroundServer, scenario: Scenario) -> tuple[SessionRecord, Delivery, dict[str, Any]]:
    """A call in which both sides kept their time: record, delivery, and the agent's own log."""
    for _ in range(TRIES):
        adapter = create_adapter(adapter_for(agent.url, scenario.adapter.type), {"url": agent.url})
        record = Call(scenario, adapter).run()
        metrics, log = measure(record).metrics, truth(agent, record.call_id)
        assert metrics is not None, record.reason
        assert metrics.delivery is not None
        found = metrics.delivery
        statuses = {*found.status.values(), *(barge_in.status for barge_in in found.barge_ins)}
        if "void" not in statuses and log["late_ms"]["max"] < LATE_MS:
            return record, found, log
    pytest.skip("this machine is too busy to keep time")


@pytest.mark.parametrize("protocol", ["websocket", "audiosocket"])
def test_a_paced_agent_is_measured_as_it_says_itself_over_every_protocol(protocol: str) -> None:
    with BackgroundServer(protocol=protocol, **AGENT) as agent:
        record, found, log = on_time(agent, LISTEN)
        barged, cut_in, cut_log = on_time(agent, CUT_IN)

    assert record.connected_s is not None
    assert found.opening.first_audible_ms is not None
    opened_ns = record.origin_ns + record.connected_s * 1e9
    sent_ms = (log["greeting"]["reply_start_ns"] - opened_ns) / 1e6
    assert found.opening.first_audible_ms == pytest.approx(sent_ms, abs=5)
    assert (found.pacing.frames, found.pacing.replies) == (120, 1)
    late_ms = log["late_ms"]["max"]
    assert found.pacing.worst_burst_frames in (1, 2)
    assert found.pacing.realtime_ratio == pytest.approx(120 / 119, rel=0.01)
    assert found.continuity.worst_gap_ms == pytest.approx(20, abs=5 + late_ms)

    assert cut_in.barge_in is not None
    assert cut_in.barge_in.cut_ms is not None
    greeting = cut_log["greeting"]
    last_ns = greeting["reply_start_ns"] + (greeting["frames_sent"] - 1) * 20_000_000
    onset = round(barged.windows[0].start / barged.frame_s)
    cut_ms = (last_ns - barged.origin_ns) / 1e6 - barged.sent[onset] * 1000
    assert cut_in.barge_in.cut_ms == pytest.approx(cut_ms, abs=10 + cut_log["late_ms"]["max"])
    assert cut_in.barge_in.resumed_after_stop is False


@pytest.mark.parametrize(
    ("defect", "holds"),
    [
        ({"burst": True}, lambda found: found.pacing.worst_burst_frames == 120 and found.pacing.realtime_ratio > 5),
        ({"gap_ms": 500}, lambda found: 500 <= found.continuity.worst_gap_ms <= 530),
        ({"leading_silence_ms": 200}, lambda found: found.opening.silent_preroll_frames == 10),
    ],
    ids=["burst", "gappy", "preroll"],
)
def test_each_defect_moves_its_own_figure_and_leaves_the_others_tv13(
    defect: dict[str, Any], holds: Callable[[Delivery], bool]
) -> None:
    with BackgroundServer(**AGENT, **defect) as agent:
        _, found, _ = on_time(agent, LISTEN)

    assert holds(found)
    if "burst" not in defect:
        assert found.pacing.worst_burst_frames in (1, 2)
        assert found.pacing.realtime_ratio is not None
        assert found.pacing.realtime_ratio < 1.05
    if "gap_ms" not in defect:
        assert found.continuity.worst_gap_ms is not None
        assert found.continuity.worst_gap_ms < 50


def test_a_report_comes_out_of_the_evidence_again_to_the_last_digit(tmp_path: Path) -> None:
    scenario = tmp_path / "calls.yaml"
    scenario.write_text(
        "name: calls\ntail_ms: 300\nturns:\n"
        "  - audio: {synth: speech, duration_ms: 400}\n"
        "  - audio: {synth: tone, duration_ms: 400}\n"
        "    expect: stop\n"
        "    start: {after: agent_speech_start, delay_ms: 100}\n"
        "assert: {max_response_latency_ms: 5000, max_realtime_ratio: 1.5}\n"
    )
    with BackgroundServer(response_ms=600, response_delay_ms=50) as agent:
        voicebench(tmp_path, "run", scenario, "--url", agent.url, "-n", "2", "--frames", "all", "--out", "run", "-q")

    printed = voicebench(tmp_path, "analyze", "run", "--out", "again")

    first, again = (json.loads((tmp_path / name / "report.json").read_text()) for name in ("run", "again"))
    for session in [*first["sessions"], *again["sessions"]]:
        assert session.pop("frames").endswith(f"frames/{session['call_id']}.npz")
    assert again == first
    assert len(first["sessions"]) == 2
    assert first["sessions"][0]["delivery"]["pacing"]["frames"] > 10
    assert "Worst burst in 20 ms" in printed


def test_one_call_is_measured_again_apart_from_its_run(tmp_path: Path) -> None:
    (tmp_path / "calls.yaml").write_text("name: calls\ntail_ms: 300\nturns: [{audio: {synth: speech}}]\n")
    voicebench(tmp_path, "run", "calls.yaml", "-n", "2", "--frames", "all", "--out", "run", "-q")

    printed = voicebench(tmp_path, "analyze", "run/frames/calls-0002.npz")

    assert "1 started = 1 completed" in printed


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["nowhere"], "nowhere: no such file or directory"),
        (["calls.yaml"], "calls.yaml: no evidence of a call: this is no zip file"),
        (["run"], "run: no call left evidence; run with --frames all"),
        (["run", "--out", "run"], "--out run: write elsewhere, so that what the run stored stays as it is"),
    ],
)
def test_mistakes_are_told_in_one_line(arguments: list[str], why: str, tmp_path: Path) -> None:
    (tmp_path / "calls.yaml").write_text("name: calls\ntail_ms: 300\nturns: [{audio: {synth: speech}}]\n")
    voicebench(tmp_path, "run", "calls.yaml", "--out", "run", "-q")

    done = process(tmp_path, "analyze", *arguments)

    assert (done.returncode, done.stderr) == (2, f"voicebench: {why}\n")


def voicebench(directory: Path, *arguments: str | Path) -> str:
    """Run a command that has to succeed; returns what it printed."""
    done = process(directory, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def process(directory: Path, *arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    """Run ``voicebench`` and wait for its end."""
    command = [sys.executable, "-m", "voicebench", *map(str, arguments)]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=60, check=False)
