"""The ``voicebench`` command as a process of its own: runs, reports, exit codes, signals."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

SCENARIO = """
name: Two turns
tail_ms: 1500
adapter:
  type: mock
  options: {response_delay_ms: 200, response_ms: 600}
turns:
  - audio: {synth: speech, duration_ms: 600}
  - audio: {synth: speech, duration_ms: 600, seed: 1}
assert:
  max_response_latency_ms: LIMIT
"""

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Run ``voicebench`` in an empty directory and wait for its end."""

    def run(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "voicebench", *map(str, arguments)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    return run


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    """Two questions to the in-process agent, which answers after 500 ms: 300 ms of silence, then 200 ms."""
    return write(tmp_path, 1000)


def write(directory: Path, limit: int) -> Path:
    path = directory / "two-turns.yaml"
    path.write_text(SCENARIO.replace("LIMIT", str(limit)))
    return path


def read(path: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(path.read_text())
    return report


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_run_writes_its_reports_and_exits_0(command: Command, scenario: Path, tmp_path: Path) -> None:
    done = command("run", scenario, "-n", "3")

    assert done.returncode == 0, done.stderr
    (directory,) = (tmp_path / "voicebench-results").iterdir()
    assert directory.name.startswith("two-turns-")
    names = {path.name for path in directory.iterdir()}
    assert names == {"report.json", "report.md", "report.html", "run.json", "sessions.jsonl"}
    report = read(directory / "report.json")
    assert report["run"]["started"] == report["run"]["completed"] == 3
    assert report["summary"]["turns_passed"] == 6
    assert str(directory.relative_to(tmp_path)) in done.stdout


def test_an_assertion_that_fails_exits_1(command: Command, tmp_path: Path) -> None:
    done = command("run", write(tmp_path, 400), "--out", "out")

    assert done.returncode == 1
    assert "max_response_latency_ms" in done.stdout
    assert read(tmp_path / "out/report.json")["assertions"][0]["passed"] is False


def test_options_of_the_command_line_go_before_the_scenario(command: Command, tmp_path: Path) -> None:
    done = command("run", write(tmp_path, 400), "-o", "response_delay_ms=50", "--no-write", "-q")

    assert (done.returncode, done.stdout) == (0, "")
    assert [path.name for path in tmp_path.iterdir()] == ["two-turns.yaml"]


def test_equal_runs_on_the_virtual_clock_leave_equal_reports(
    command: Command, scenario: Path, tmp_path: Path
) -> None:
    for _ in range(2):
        command("run", scenario, "-n", "2", "--out", "out")
        (tmp_path / "out").rename(tmp_path / f"out-{len(list(tmp_path.glob('out-*')))}")

    first, second = (read(tmp_path / f"out-{number}/report.json") for number in (0, 1))
    for report in (first, second):
        del report["created_at"], report["run"]["id"]
    assert first == second


def test_only_the_asked_formats_are_written(command: Command, scenario: Path, tmp_path: Path) -> None:
    command("run", scenario, "--out", "out", "--format", "md")

    assert (tmp_path / "out/report.md").exists()
    assert not (tmp_path / "out/report.json").exists()
    assert not (tmp_path / "out/report.html").exists()


@pytest.mark.parametrize(("choice", "limit", "files"), [("all", 1000, 3), ("failed", 1000, 0), ("none", 1000, 0)])
def test_recordings_are_kept_as_asked(command: Command, tmp_path: Path, choice: str, limit: int, files: int) -> None:
    command("run", write(tmp_path, limit), "--out", "out", "--record", choice)

    assert len(list((tmp_path / "out").glob("recordings/*.wav"))) == files
    (session,) = read(tmp_path / "out/report.json")["sessions"]
    recordings = session["recording"] or {}
    assert len(recordings) == files
    assert all((tmp_path / "out" / path).is_file() for path in recordings.values())


def test_an_agent_that_nobody_answers_for_exits_3_with_a_report(
    command: Command, scenario: Path, tmp_path: Path, closed_port: int
) -> None:
    done = command("run", scenario, "--url", f"ws://127.0.0.1:{closed_port}", "-n", "2", "--out", "out")

    assert done.returncode == 3
    report = read(tmp_path / "out/report.json")
    assert (report["run"]["started"], report["run"]["failed"], report["run"]["completed"]) == (2, 2, 0)
    assert all("refused" in session["reason"] for session in report["sessions"])


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["-a", "telepathy"], "adapter 'telepathy': unknown"),
        (["-a", "nowhere:Adapter"], "cannot import nowhere"),
        (["-o", "respnse_delay_ms=1"], "respnse_delay_ms"),
    ],
)
def test_an_adapter_that_cannot_load_exits_3_before_anything_is_written(
    command: Command, scenario: Path, tmp_path: Path, arguments: list[str], complaint: str
) -> None:
    done = command("run", scenario, *arguments)

    assert done.returncode == 3
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "voicebench-results").exists()


def test_a_directory_that_cannot_be_written_exits_2_before_the_run(
    command: Command, scenario: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")

    done = command("run", scenario, "--out", "file/out")

    assert done.returncode == 2
    assert "cannot write to file/out" in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_a_broken_scenario_exits_2_naming_the_place(command: Command, tmp_path: Path) -> None:
    path = write(tmp_path, 1000)
    path.write_text(path.read_text().replace("tail_ms", "tial_ms"))

    done = command("run", path)

    assert done.returncode == 2
    assert "tial_ms: unknown key; did you mean 'tail_ms'?" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_report_can_be_made_again(command: Command, scenario: Path, tmp_path: Path) -> None:
    command("run", scenario, "-n", "2", "--out", "out")
    before = {name: (tmp_path / "out" / name).read_bytes() for name in ("report.json", "report.md", "report.html")}
    for name in before:
        (tmp_path / "out" / name).unlink()

    done = command("report", "out")

    assert done.returncode == 0, done.stderr
    assert {name: (tmp_path / "out" / name).read_bytes() for name in before} == before


def test_merge_adds_runs_up(command: Command, scenario: Path, tmp_path: Path) -> None:
    command("run", scenario, "--realtime", "--out", "one")
    command("run", scenario, "--realtime", "--out", "two")

    done = command("merge", "both", "one", "two/sessions.jsonl")

    assert done.returncode == 0, done.stderr
    assert read(tmp_path / "both/report.json")["sessions_total"] == 2
    one = read(tmp_path / "one/report.json")
    assert len(one["sessions"]) == 1
    assert one["harness"]["loop_lag_ms"] == one["workers"][0]["loop_lag_ms"]
    assert one["harness"]["loop_lag_ms"]["max"] > 0
    assert not any(item["builtin"] for item in one["assertions"])  # a few calls are held to what the scenario asserts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_still_reports(scenario: Path, tmp_path: Path, number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "voicebench", "run", scenario, "--realtime", "-n", "50", "--out", "out"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stderr is not None
    process.stderr.readline()  # the first call is done, the second has begun or is about to

    process.send_signal(number)
    output, _ = process.communicate(timeout=20)

    assert process.returncode == 4
    assert "interrupted" in output
    report = read(tmp_path / "out/report.json")
    assert [session["outcome"] for session in report["sessions"]][:1] == ["completed"]
    assert report["run"]["started"] == report["run"]["recorded"] <= 2


def test_the_command_itself_imports_nothing_heavy() -> None:
    code = "import sys, voicebench.cli; voicebench.cli.build_parser(); print(*sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert not {"locust", "gevent", "numpy", "pydantic", "yaml", "jinja2", "ssl"} & set(done.stdout.split())


def test_audio_that_cannot_be_decoded_ends_the_run_before_it_writes_anything(
    command: Command, tmp_path: Path
) -> None:
    samples = np.zeros(16000, np.float32)
    samples[5] = np.nan
    soundfile.write(tmp_path / "a.wav", samples, 16000, subtype="FLOAT")
    (tmp_path / "s.yaml").write_text("name: s\nturns: [{audio: {file: a.wav}}]\n")
    done = command("run", "s.yaml", "--out", "out")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "voicebench: a.wav: holds samples that are no numbers; export it again\n"
    assert not (tmp_path / "out").exists()
