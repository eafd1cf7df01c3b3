"""What can be switched on that is wrong with the reference agent (TV12), one switch a test."""

from typing import Any

import numpy as np
import pytest

from voicebench.agents.options import DEFECTS, ReferenceOptions
from voicebench.agents.reference import (
    Audio,
    Echoed,
    HeardText,
    OptionError,
    ReferenceAgent,
)
from voicebench.agents.voice import FramedVoice
from voicebench.audio.pcm import rms_db

FRAME_S = 0.02


def speak(*stretches: tuple[int, int], **options: Any) -> list[tuple[int, str]]:
    """Hear the caller speak in the stretches (from, to) in ms, asked in every ms; returns (ms, what) to 9 s."""
    agent = ReferenceAgent(ReferenceOptions.parse(options), lambda _turn, ms: [b"v"] * round(ms / 20), FRAME_S)
    said: list[tuple[int, str]] = []
    for ms in range(9000):
        t = ms / 1000
        if ms % 20 == 0:
            loud = any(start <= ms < end for start, end in stretches)
            agent.overhear(b"u" if loud else b"-", t)
            agent.hear(-20.0 if loud else -120.0, FRAME_S, t)
        while (due := agent.next_due()) is not None and due <= t + 1e-9:
            for output in agent.due(t):
                assert not isinstance(output, HeardText)
                what = "audio" if isinstance(output, Audio) else type(output).__name__
                said.append((ms, what if not isinstance(output, Echoed) else f"echo {output.pcm.decode()}"))
    return said


def sent(said: list[tuple[int, str]]) -> list[int]:
    return [ms for ms, what in said if what == "audio"]


def test_without_defects_frames_come_every_20_ms() -> None:
    assert speak(greeting_ms=3000, greeting_delay_ms=400) == [(400 + 20 * i, "audio") for i in range(150)]


def test_burst_sends_a_reply_at_once() -> None:
    assert sent(speak(greeting_ms=6000, burst=True)) == [0] * 300


def test_burst_is_interruptible_as_long_as_what_it_sent_sounds() -> None:
    said = speak((1000, 1500), greeting_ms=6000, burst=True, barge_in_min_ms=120, interrupt_reaction_ms=60)
    assert [ms for ms, what in said if what == "Clear"] == [1180]


def test_burst_listens_again_when_what_it_sent_has_sounded() -> None:
    said = speak((3000, 3500), greeting_ms=2000, response_ms=20, burst=True)
    assert sent(said)[100:] == [3500 + 300 + 400]


def test_gaps_come_between_sentences_of_two_seconds() -> None:
    times = sent(speak(greeting_ms=6000, gap_ms=500))
    assert np.flatnonzero(np.diff(times) != 20).tolist() == [99, 199]
    assert max(np.diff(times)) == 520
    assert len(times) == 300


def test_a_stall_ends_with_all_that_was_missed() -> None:
    times = sent(speak(greeting_ms=2000, stall_ms=400))
    assert times[24:26] == [480, 900]
    assert times.count(900) == 21  # due at 500, 520, ..., 880, and the one of 900 itself
    assert times[-1] == 1980


def test_a_sender_at_19_ms_runs_ahead() -> None:
    times = sent(speak(greeting_ms=4000, frame_interval_ms=19))
    assert times == [19 * i for i in range(200)]


def test_one_way_sends_nothing() -> None:
    assert sent(speak((100, 500), greeting_ms=500, one_way=True)) == []


def test_deaf_talks_on() -> None:
    assert len(sent(speak((1000, 2500), greeting_ms=4000, interruptible=False))) == 200


CUT = {"greeting_ms": 6000, "barge_in_min_ms": 120, "interrupt_reaction_ms": 60}


def test_stopping_clears_at_once() -> None:
    said = speak((1000, 1500), **CUT)
    assert [item for item in said if item[1] != "audio"] == [(1180, "Clear")]


def test_no_clear_just_stops() -> None:
    said = speak((1000, 1500), no_clear=True, response_delay_ms=5000, **CUT)
    assert [item for item in said if item[1] != "audio"] == [(1180, "Stopped")]
    assert [ms for ms in sent(said) if 1180 <= ms < 6000] == []


def test_a_late_clear_comes_after_the_stop() -> None:
    said = speak((1000, 1500), clear_delay_ms=300, **CUT)
    assert [item for item in said if item[1] != "audio"] == [(1180, "Stopped"), (1480, "Clear")]


def test_a_restart_follows_the_stop_once_and_goes_on_where_it_stopped() -> None:
    said = speak((1000, 1200), restart_ms=150, **CUT)
    times = sent(said)
    assert [ms for ms, what in said if what == "Clear"] == [1180]
    assert times[58:60] == [1160, 1330]  # 1180 was to come: a stop goes before a frame
    assert len(times) == 300 + 75  # the whole greeting, and the answer to what cut in


def test_a_restart_can_be_stopped_for_good() -> None:
    said = speak((1000, 2500), restart_ms=150, **CUT)
    assert [ms for ms, what in said if what == "Clear"] == [1180, 1330 + 10 + 120 + 60]
    assert len([ms for ms in sent(said) if 1330 <= ms < 2500]) == 10


def test_answers_twice_says_it_again() -> None:
    times = sent(speak(greeting_ms=1000, answers_twice_ms=700))
    assert times == [20 * i for i in range(50)] + [1700 + 20 * i for i in range(50)]


def test_hangs_up_early() -> None:
    assert (700, "HangUp") in speak(hangs_up_after_ms=700)


def test_an_echo_comes_back_late_while_the_agent_is_silent() -> None:
    said = speak((1000, 1040), greeting_ms=100, echo_ms=150)
    assert [ms for ms, what in said if what == "echo u"] == [1150, 1170]
    assert min(ms for ms, what in said if what == "echo -") == 150


def sound(**options: Any) -> np.ndarray:
    frames = FramedVoice(ReferenceOptions.parse(options), 8000)(1, 2000.0)
    return np.frombuffer(b"".join(frames), "<i2").astype(np.int16)


def test_the_sound_of_the_voice() -> None:
    plain = sound()
    assert rms_db(sound(quiet_db=30)) == pytest.approx(rms_db(plain) - 30, abs=0.1)
    assert np.mean(sound(dc_offset=0.05)) / 32768 == pytest.approx(0.05, abs=0.001)
    assert np.count_nonzero(np.abs(sound(clip_gain_db=30).astype(int)) >= 32767) > 1000
    assert np.count_nonzero(plain != sound(crackle_per_s=10)) == 20
    silent = sound(leading_silence_ms=300)
    assert len(silent) == len(plain) + 2400
    assert not silent[:2400].any()
    assert (silent[2400:] == plain).all()


def test_defects_combine() -> None:
    times = sent(speak(greeting_ms=3000, gap_ms=500, answers_twice_ms=300))
    assert len(times) == 300
    assert sorted(set(np.diff(times)) - {20}) == [320, 520]


def test_a_share_of_the_calls_has_them_always_the_same() -> None:
    options = ReferenceOptions.parse({"gap_ms": 500, "interruptible": False, "defect_share": 0.1, "seed": 3})
    sick = [number for number in range(1000) if options.for_call(number).defects]
    assert 70 <= len(sick) <= 130
    assert sick == [number for number in range(1000) if options.for_call(number) is options]
    assert options.defects == ("interruptible", "gap_ms")
    assert options.sound().interruptible
    other = options.model_copy(update={"seed": 4})
    assert sick != [number for number in range(1000) if other.for_call(number).defects]


def test_every_defect_is_harmless_by_default() -> None:
    assert ReferenceOptions().defects == ()
    assert len(DEFECTS) == 17


def test_a_defect_out_of_its_range_is_refused() -> None:
    with pytest.raises(OptionError, match="defect_share"):
        ReferenceOptions.parse({"defect_share": 1.5})
    with pytest.raises(OptionError, match="frame_interval_ms"):
        ReferenceOptions.parse({"frame_interval_ms": 0})
