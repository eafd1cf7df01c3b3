"""``voicebench agent`` as a process of its own, and a call to it with ``voicebench run``."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SCENARIO = """
name: question
tail_ms: 1000
turns:
  - audio: {synth: speech, duration_ms: 500}
"""


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[str]:
    """The URL of an agent that answers 350 ms after the caller's last sound: 300 ms of silence, then 50 ms."""
    command = [sys.executable, "-m", "voicebench", "mock-server", "--port", "0", "--log", "agent.jsonl"]
    options = ["-o", "response_delay_ms=50", "-o", "response_ms=400"]
    process = subprocess.Popen([*command, *options], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        found = re.search(r"ws://\S+", process.stdout.readline())
        assert found is not None
        yield found.group()
    finally:
        process.terminate()
        assert process.wait(timeout=10) == 0
        process.stdout.close()


def test_a_call_over_a_socket_measures_the_agent_and_both_sides_can_be_joined(agent: str, tmp_path: Path) -> None:
    scenario = tmp_path / "question.yaml"
    scenario.write_text(SCENARIO)

    done = subprocess.run(
        [sys.executable, "-m", "voicebench", "run", scenario, "--url", f"{agent}/?token=s3cr3t", "--out", "out"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    text = (tmp_path / "out/report.json").read_text()
    (session,) = json.loads(text)["sessions"]
    assert session["turns"][0]["response_latency_ms"] == pytest.approx(350, abs=30)
    assert session["call_id"] in (tmp_path / "agent.jsonl").read_text()
    assert not any("s3cr3t" in path.read_text() for path in (tmp_path / "out").iterdir())


def test_a_taken_port_is_one_line_and_exits_2(agent: str, tmp_path: Path) -> None:
    port = agent.rpartition(":")[2]

    done = subprocess.run(
        [sys.executable, "-m", "voicebench", "agent", "--port", port],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 2
    assert done.stderr == (
        f"voicebench: cannot serve on 127.0.0.1 port {port}: "
        "the port is taken; choose another with --port, or 0 for any\n"
    )
