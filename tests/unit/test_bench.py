"""Running a scenario from Python: what is chosen, recorded, and kept when something goes wrong."""

from pathlib import Path
from typing import Any

import pytest

from voicebench.adapters import Adapter, AdapterError
from voicebench.bench import choose_adapter, run_benchmark, slug
from voicebench.exits import Exit
from voicebench.metrics.results import SessionResult
from voicebench.report.store import ReportError, load
from voicebench.scenario import Scenario, parse_scenario

HERE = __name__


def scenario(**extra: Any) -> Scenario:
    """One question; the reference agent answers after 300 ms of silence and 400 ms more."""
    turns = [{"audio": {"synth": "speech", "duration_ms": 500}}]
    return parse_scenario({"name": "One question", "tail_ms": 1000, "turns": turns, **extra})


class Unreachable(Adapter):
    """Nobody there."""

    name = "unreachable"

    def connect(self) -> None:
        raise AdapterError("connection refused: nothing listens there")

    def send_audio(self, pcm: bytes) -> None: ...
    def close(self) -> None: ...


class Silent(Adapter):
    """Connects, and says nothing."""

    name = "silent"
    supports_virtual_clock = True

    def __init__(self, interrupt_at: int = 0) -> None:
        super().__init__()
        self.left = interrupt_at

    def connect(self) -> None: ...

    def send_audio(self, pcm: bytes) -> None:
        """Count down the frames; at 0 somebody presses Ctrl-C."""
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt

    def close(self) -> None: ...


def test_a_run_passes_and_measures_what_the_agent_was_told_to_do() -> None:
    bench = run_benchmark(scenario(**{"assert": {"max_response_latency_ms": 750}}), repeat=3)

    assert bench.passed
    assert bench.exit_code is Exit.OK
    latency = bench.report["summary"]["response_latency_ms"]
    assert (latency["count"], latency["min"], latency["max"]) == (3, 700, 700)
    assert bench.report["run"]["completed"] == 3
    assert [result.call_id for result in bench.results] == [f"one-question-{n:04d}" for n in (1, 2, 3)]


def test_options_are_merged_and_dropped_with_their_adapter() -> None:
    chosen = scenario(adapter={"type": "mock", "options": {"seed": 1, "response_ms": 500}})

    assert choose_adapter(chosen, None, {"seed": 2}) == ("mock", {"seed": 2, "response_ms": 500})
    assert choose_adapter(chosen, "mock", None) == ("mock", {"seed": 1, "response_ms": 500})
    assert choose_adapter(chosen, "websocket", {"url": "ws://x"}) == ("websocket", {"url": "ws://x"})


def test_a_failed_assertion_is_no_pass() -> None:
    bench = run_benchmark(scenario(**{"assert": {"max_response_latency_ms": 600}}))

    assert not bench.passed
    assert bench.exit_code is Exit.ASSERTION


def test_calls_that_cannot_connect_are_records_like_any_other(tmp_path: Path) -> None:
    seen: list[SessionResult] = []

    bench = run_benchmark(scenario(), f"{HERE}:Unreachable", repeat=2, out=tmp_path, on_result=seen.append)

    assert bench.exit_code is Exit.UNREACHABLE
    assert [result.outcome for result in bench.results] == ["failed", "failed"]
    assert bench.results[0].reason == "connection refused: nothing listens there"
    assert tuple(seen) == bench.results
    assert (tmp_path / "report.json").exists()


def test_an_interrupt_keeps_what_was_recorded_and_the_call_it_met(tmp_path: Path) -> None:
    # The call has 500 ms + 500 ms of turn and 1000 ms of tail: 100 frames. The 50th is never sent.
    bench = run_benchmark(scenario(), f"{HERE}:Silent", {"interrupt_at": 50}, repeat=3, out=tmp_path)

    assert bench.interrupted
    assert bench.exit_code is Exit.INVALID
    assert [result.outcome for result in bench.results] == ["truncated"]
    assert bench.results[0].reason == "interrupted by the user"
    assert "interrupted by the user in call 1 of 3" in bench.run.notes
    _, stored = load([tmp_path])
    assert [result.outcome for result in stored] == ["truncated"]


def test_recordings_of_failed_calls_only(tmp_path: Path) -> None:
    good = run_benchmark(scenario(), out=tmp_path / "good", record="failed")
    bad = run_benchmark(scenario(), f"{HERE}:Silent", out=tmp_path / "bad", record="failed")

    assert good.results[0].recording is None
    recording = bad.results[0].recording
    assert recording is not None
    assert set(recording) == {"stereo", "user", "agent"}
    assert all((tmp_path / "bad" / path).is_file() for path in recording.values())


def test_a_recording_that_cannot_be_written_costs_a_note(tmp_path: Path) -> None:
    (tmp_path / "recordings").write_text("in the way")

    bench = run_benchmark(scenario(), out=tmp_path, record="all")

    assert bench.exit_code is Exit.OK
    assert bench.results[0].recording is None
    assert any("recording of call one-question-0001 could not be written" in note for note in bench.run.notes)


def test_bad_arguments_are_refused_before_the_first_call(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="repeat is 0"):
        run_benchmark(scenario(), repeat=0)
    with pytest.raises(ValueError, match="give out"):
        run_benchmark(scenario(), record="all")
    with pytest.raises(AdapterError, match="unknown"):
        run_benchmark(scenario(), "nothing", out=tmp_path / "out")
    with pytest.raises(ReportError, match="cannot write"):
        run_benchmark(scenario(), out=tmp_path / "file" / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("name", "expected"), [("Two  turns!", "two-turns"), ("äö", "scenario"), ("../etc", "etc"), ("v1.2", "v1-2")]
)
def test_slugs_are_safe_file_names(name: str, expected: str) -> None:
    assert slug(name) == expected


def test_a_scenario_says_how_many_calls_it_wants_unless_told_otherwise() -> None:
    scenario = parse_scenario({"name": "five", "runs": 5, "tail_ms": 0, "turns": [{"audio": {"synth": "tone"}}]})
    assert len(run_benchmark(scenario).results) == 5
    assert len(run_benchmark(scenario, repeat=2).results) == 2
