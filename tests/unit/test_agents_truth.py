"""The reference agent's log. Time 0 of these calls is 1000 ms on the monotonic clock."""

import json
from pathlib import Path
from typing import Any

import pytest

from voicebench.agents.hearing import Loudness
from voicebench.agents.reference import Audio, Clear, ReferenceAgent, ReferenceOptions
from voicebench.agents.truth import CallTruth, Lateness, TruthLog

ORIGIN_NS = 1_000_000_000
LOUD = Loudness(-20.0, 0.0, 0.02)
SILENT = Loudness(-120.0, 0.0, 0.0)
LATE_S = 0.002


class Rig:
    """An agent and its log, driven frame by frame; every output goes out 2 ms late."""

    def __init__(self, **options: Any) -> None:
        parsed = ReferenceOptions.parse(options)
        self.agent = ReferenceAgent(parsed, lambda _turn, ms: [b""] * round(ms / 20))
        self.truth = CallTruth("c1", 0.0, ORIGIN_NS, parsed, 0.02)
        self.now = 0.0

    def play(self, *stretches: tuple[Loudness, int]) -> None:
        for loudness, count in stretches:
            for _ in range(count):
                noticed = self.agent.hear(loudness.level_db, 0.02, self.now)
                self.truth.heard(self.agent, loudness, 0.02, self.now, noticed)
                self.now = round(self.now + 0.02, 6)
                while (due := self.agent.next_due()) is not None and due < self.now:
                    for output in self.agent.due(due + LATE_S):
                        if isinstance(output, Audio | Clear):
                            self.truth.sent(self.agent, output, due + LATE_S)

    def ms(self, **turn: Any) -> dict[str, Any]:
        """Times of a turn in ms of the call."""
        return {
            key.removesuffix("_ns"): round((value - ORIGIN_NS) / 1e6, 3) if key.endswith("_ns") and value else value
            for key, value in turn.items()
        }

    @property
    def line(self) -> dict[str, Any]:
        return self.truth.line(self.now, "test")

    @property
    def turns(self) -> list[dict[str, Any]]:
        return [self.ms(**turn) for turn in self.line["turns"]]


def test_a_turn_and_its_reply() -> None:
    rig = Rig(response_ms=60)
    # 100 ms of silence, speech from 107 to 195 ms, silence
    rig.play(
        (SILENT, 5), (Loudness(-25.0, 0.007, 0.02), 1), (LOUD, 3), (Loudness(-25.0, 0.0, 0.015), 1), (SILENT, 60)
    )
    assert rig.turns == [
        {
            "speech_start": 107,
            "speech_end": 195,
            "endpoint": 500,  # 200 + 300
            "reply_due": 900,
            "reply_start": 902,
            "reply_end": 962,  # the third frame leaves at 942
            "frames_sent": 3,
            "cut": False,
            "stop": None,
            "clear": None,
            "restart": None,
            "barge_in_start": None,
        }
    ]
    assert rig.line["late_ms"] == {"p50": 2.0, "p99": 2.0, "max": 2.0}
    assert rig.line["greeting"] is None


def test_speech_that_begins_or_dies_away_in_a_faint_frame_keeps_its_edges() -> None:
    rig = Rig()
    faint_start, faint_end = Loudness(-50.0, 0.018, 0.02), Loudness(-50.0, 0.0, 0.003)
    rig.play((SILENT, 5), (faint_start, 1), (LOUD, 5), (faint_end, 1), (SILENT, 20))
    assert (rig.turns[0]["speech_start"], rig.turns[0]["speech_end"]) == (118, 223)


def test_a_faint_click_long_before_is_not_the_start() -> None:
    rig = Rig()
    rig.play((Loudness(-50.0, 0.01, 0.011), 1), (SILENT, 5), (LOUD, 5), (SILENT, 20))
    assert rig.turns[0]["speech_start"] == 120


def test_an_interruption() -> None:
    rig = Rig()
    # The first turn's endpoint is at 400, its reply at 800. Speech from 1000 to 1400 qualifies at 1100.
    rig.play((LOUD, 5), (SILENT, 45), (LOUD, 20), (SILENT, 40))
    first, second = rig.turns
    assert (first["reply_due"], first["barge_in_start"], first["cut"]) == (800, 1000, True)
    assert first["stop"] == 1252
    assert first["frames_sent"] == 23  # due at 800, 820 ... 1240
    assert (second["speech_start"], second["speech_end"], second["endpoint"]) == (1000, 1400, 1700)


def test_a_cough_is_not_part_of_the_next_turn() -> None:
    rig = Rig(response_ms=400)
    rig.play((LOUD, 5), (SILENT, 40), (LOUD, 2), (SILENT, 40), (LOUD, 5), (SILENT, 20))
    assert [turn["speech_start"] for turn in rig.turns] == [0, 1740]
    assert rig.turns[0]["barge_in_start"] is None


def test_a_greeting_is_kept_apart() -> None:
    rig = Rig(greeting_ms=40)
    rig.play((SILENT, 10))
    assert rig.line["turns"] == []
    assert rig.ms(**rig.line["greeting"])["reply_start"] == 2
    assert rig.line["greeting"]["frames_sent"] == 2


def test_the_start_message_leaves_its_keys_but_not_its_secrets() -> None:
    truth = Rig().truth
    truth.text('{"token": "s3cret", "sample_rate": 16000}')
    truth.text("[[")
    line = truth.line(0, "")
    assert (line["start_keys"], line["texts"]) == (["sample_rate", "token"], 2)
    assert "s3cret" not in json.dumps(line)


@pytest.mark.parametrize("text", ["{", "[1]", "[" * 100_000, ""])
def test_a_start_message_that_is_no_object_is_only_counted(text: str) -> None:
    truth = Rig().truth
    truth.text(text)
    assert (truth.line(0, "")["start_keys"], truth.texts) == (None, 1)


def test_lateness_over_all_calls() -> None:
    lateness = Lateness()
    assert lateness.summary() is None
    lateness.add([])
    lateness.add([0.001] * 98)
    lateness.add([0.005, 2.5])
    assert lateness.summary() == {
        "p50": pytest.approx(1.0, abs=0.011),
        "p99": pytest.approx(5.0, abs=0.011),
        "max": 2500,
    }


def test_the_file_has_a_line_a_call_at_once_and_a_summary_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "agent.jsonl"
    log = TruthLog(path)
    log.call(Rig().truth, 1.5, "caller closed (1000)")
    (line,) = map(json.loads, path.read_text().splitlines())
    assert (line["call_id"], line["closed_ns"], line["reason"]) == ("c1", 2_500_000_000, "caller closed (1000)")
    log.refused = 2
    log.close()
    assert json.loads(path.read_text().splitlines()[1]) == {"calls": 1, "refused": 2, "late_ms": None}


def test_a_full_disk_does_not_end_the_calls() -> None:
    log = TruthLog(Path("/dev/full"))
    log.call(Rig().truth, 1.0, "")
    log.call(Rig().truth, 1.0, "")
    log.close()
    assert log.calls == 2
    assert log.error is not None


def test_a_frame_that_was_late_delays_the_end_of_the_reply_for_whoever_hears_it() -> None:
    rig = Rig(response_ms=60)
    rig.truth.sent(rig.agent, Audio(b"", 0, False, 0.100), 0.100)
    rig.truth.sent(rig.agent, Audio(b"", 1, False, 0.120), 0.131)  # sounds from 131 ms
    rig.truth.sent(rig.agent, Audio(b"", 2, True, 0.140), 0.140)  # sounds behind it, from 151 ms
    assert rig.ms(**rig.line["greeting"])["reply_end"] == 171.0
