"""The reference agent, polled once a 20 ms frame as on the virtual clock (VB31), and by its own deadlines."""

from collections.abc import Iterable
from typing import Any

import pytest

from voicebench.agents.reference import (
    Audio,
    Clear,
    HeardText,
    Noticed,
    OptionError,
    ReferenceAgent,
    ReferenceOptions,
    State,
)

SPEECH, SILENCE = -20.0, -120.0
FRAME_MS = 20


def voice(turn: int, duration_ms: float) -> list[bytes]:
    return [f"{turn}/{i}".encode() for i in range(round(duration_ms / FRAME_MS))]


def agent(**options: Any) -> ReferenceAgent:
    return ReferenceAgent(ReferenceOptions.parse(options), voice, FRAME_MS / 1000)


def play(subject: ReferenceAgent, *stretches: tuple[float, int]) -> list[tuple[int, str]]:
    """Send stretches of (level, ms), frame by frame; return what came back as (ms, what)."""
    said: list[tuple[int, str]] = []
    ms = 0
    for level, length_ms in stretches:
        for _ in range(length_ms // FRAME_MS):
            subject.hear(level, FRAME_MS / 1000, ms / 1000)
            for output in subject.due(ms / 1000):
                if isinstance(output, Audio):
                    said.append((ms, output.frame.decode()))
                elif isinstance(output, Clear):
                    said.append((ms, "clear"))
                else:
                    assert isinstance(output, HeardText)
                    said.append((ms, output.text))
            ms += FRAME_MS
    return said


def times(said: Iterable[tuple[int, str]], start: str) -> list[int]:
    return [ms for ms, what in said if what.startswith(start)]


def test_a_reply_begins_after_silence_and_delay() -> None:
    # Speech until 1000; the frame at 1280 ends 300 ms of silence at 1300; the reply is due 400 later.
    said = play(agent(), (SPEECH, 1000), (SILENCE, 3000))
    assert said == [(1700 + 20 * i, f"1/{i}") for i in range(75)]


def test_a_reply_off_the_grid_goes_out_with_the_next_frame() -> None:
    said = play(agent(response_delay_ms=405, response_ms=60), (SPEECH, 1000), (SILENCE, 1000))
    assert said == [(1720, "1/0"), (1740, "1/1"), (1760, "1/2")]


def test_the_transcript_comes_with_the_endpoint_and_runs_out() -> None:
    subject = agent(transcripts=["hello", 42], response_ms=20)
    said = play(subject, *[(SPEECH, 200), (SILENCE, 1000)] * 3)
    # Turns end with the frames at 480, 1680 and 2880; replies follow 420 later.
    assert said == [(480, "hello"), (900, "1/0"), (1680, "42"), (2100, "2/0"), (3300, "3/0")]


def test_a_pause_shorter_than_the_endpoint_does_not_end_the_turn() -> None:
    said = play(agent(response_ms=20), (SPEECH, 200), (SILENCE, 280), (SPEECH, 200), (SILENCE, 1000))
    assert said == [(680 + 300 + 400, "1/0")]


def test_silence_alone_gets_no_reply() -> None:
    subject = agent()
    assert play(subject, (SILENCE, 5000)) == []
    assert subject.next_due() is None


def test_the_threshold_itself_counts_as_speech() -> None:
    assert times(play(agent(), (-45.0, 200), (SILENCE, 1000)), "1/0") == [900]
    assert play(agent(), (-45.001, 200), (SILENCE, 1000)) == []


def test_a_greeting_begins_with_the_first_frame() -> None:
    said = play(agent(greeting_ms=60), (SILENCE, 200))
    assert said == [(0, "0/0"), (20, "0/1"), (40, "0/2")]


def test_an_interruption_stops_the_reply_and_is_answered() -> None:
    # The reply runs from 720. Speech from 1000 qualifies with the frame at 1080 (100 ms); it stops at 1100 + 150,
    # that is with the frame at 1260. The speech ends at 1500: endpoint 1800, next reply 2200.
    said = play(agent(), (SPEECH, 20), (SILENCE, 980), (SPEECH, 500), (SILENCE, 1000))
    assert times(said, "1/") == list(range(720, 1260, 20))
    assert times(said, "clear") == [1260]
    assert times(said, "2/")[0] == 2200


def test_a_cough_neither_stops_the_agent_nor_becomes_a_turn() -> None:
    said = play(agent(), (SPEECH, 20), (SILENCE, 980), (SPEECH, 80), (SILENCE, 3000))
    assert said == [(720 + 20 * i, f"1/{i}") for i in range(75)]


def test_an_interruption_that_ends_before_the_agent_does_is_answered_too() -> None:
    # Speech from 1000 to 1100 qualifies with its last frame; the agent stops at 1250, after 150 ms of silence.
    said = play(agent(), (SPEECH, 20), (SILENCE, 980), (SPEECH, 100), (SILENCE, 1000))
    assert times(said, "clear") == [1260]
    assert times(said, "2/")[0] == 1100 + 300 + 400


def test_two_coughs_do_not_add_up() -> None:
    said = play(agent(), (SPEECH, 20), (SILENCE, 980), (SPEECH, 80), (SILENCE, 20), (SPEECH, 80), (SILENCE, 2000))
    assert times(said, "clear") == []


def test_an_agent_that_cannot_be_interrupted_goes_on() -> None:
    said = play(agent(interruptible=False), (SPEECH, 20), (SILENCE, 980), (SPEECH, 500), (SILENCE, 2000))
    assert times(said, "clear") == []
    assert len(said) == 75


def test_no_clear_when_the_reply_ends_before_the_reaction() -> None:
    # The reply runs 720..1019; speech from 900 qualifies at 1000; the reaction would be at 1150.
    said = play(agent(response_ms=300), (SPEECH, 20), (SILENCE, 880), (SPEECH, 200), (SILENCE, 1000))
    assert times(said, "clear") == []
    assert times(said, "2/")[0] == 1100 + 300 + 400


def test_jitter_is_drawn_once_a_reply_from_the_seed() -> None:
    def starts(seed: int) -> list[int]:
        return times(play(agent(jitter_ms=200, response_ms=20, seed=seed), *[(SPEECH, 200), (SILENCE, 1400)] * 5), "")

    assert starts(1) == starts(1)
    assert starts(1) != starts(2)
    delays = [start - 1600 * turn - 500 for turn, start in enumerate(starts(1))]
    assert all(400 <= delay <= 620 for delay in delays)
    assert len(set(delays)) > 1


def test_hearing_says_what_it_noticed() -> None:
    subject = agent(endpoint_silence_ms=20, response_delay_ms=0, barge_in_min_ms=20)
    assert subject.hear(SPEECH, 0.02, 0.0) is None
    assert subject.hear(SILENCE, 0.02, 0.02) is Noticed.ENDPOINT
    assert subject.hear(SPEECH, 0.02, 0.04) is Noticed.BARGE_IN  # the reply is due at 0.04
    assert subject.state is State.SPEAKING


def drive(subject: ReferenceAgent, until: float) -> list[tuple[float, Any]]:
    """Serve every deadline exactly when it falls due, as a server would."""
    served: list[tuple[float, Any]] = []
    while (due := subject.next_due()) is not None and due <= until:
        served += [(round(due, 6), output) for output in subject.due(due)]
    return served


def test_by_its_own_deadlines_the_reply_is_exact() -> None:
    subject = agent(response_delay_ms=405, endpoint_silence_ms=20, response_ms=60, transcripts=["hm"])
    subject.hear(SPEECH, 0.02, 10.003)
    subject.hear(SILENCE, 0.02, 10.023)
    served = drive(subject, 20)
    assert [at for at, _ in served] == [10.023, 10.448, 10.468, 10.488]
    assert isinstance(served[0][1], HeardText)
    assert [output.last for _, output in served[1:]] == [False, False, True]
    assert subject.next_due() is None


def test_by_its_own_deadlines_the_stop_is_exact() -> None:
    subject = agent(endpoint_silence_ms=20, response_delay_ms=0, barge_in_min_ms=20, interrupt_reaction_ms=25)
    subject.hear(SPEECH, 0.02, 0.0)
    subject.hear(SILENCE, 0.02, 0.02)
    drive(subject, 0.05)
    subject.hear(SPEECH, 0.02, 0.05)  # qualifies at 0.07, so it stops at 0.095
    served = drive(subject, 1)
    assert [(at, type(output)) for at, output in served] == [(0.06, Audio), (0.08, Audio), (0.095, Clear)]


def test_a_late_driver_gets_no_burst() -> None:
    subject = agent(greeting_ms=200)
    subject.hear(SILENCE, 0.02, 0.0)
    assert len(subject.due(0.0)) == 1
    assert subject.next_due() == pytest.approx(0.02)
    assert len(subject.due(0.025)) == 1  # late by less than a frame: the clock is kept
    assert subject.next_due() == pytest.approx(0.04)
    assert len(subject.due(0.3)) == 1  # late by 13 frames: one frame, and the rest moves back
    assert subject.next_due() == pytest.approx(0.32)
    assert subject.due(0.31) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reponse_ms": 1}, "unknown option 'reponse_ms'; did you mean 'response_ms'?"),
        ({"xyzzy": 1}, "unknown option 'xyzzy'; it takes endpoint_silence_ms, "),
        ({"response_ms": "long"}, "response_ms: Input should be a valid number, got 'long'"),
        ({"response_ms": -1}, "response_ms: Input should be greater than or equal to 0, got -1"),
        ({"response_ms": float("nan")}, "response_ms: "),
        ({"response_ms": True}, "response_ms: "),
        ({"interruptible": "no"}, "interruptible: Input should be a valid boolean, got 'no'"),
        ({"transcripts": "hello"}, "transcripts: expected a list of texts, got 'hello'"),
        ({"transcripts": [["a"]]}, "transcripts: expected a list of texts"),
        ({"seed": 1.5}, "seed: "),
    ],
)
def test_wrong_options_are_named_in_one_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        ReferenceOptions.parse(options)
    assert str(caught.value).startswith(f"reference agent: {message}")
    assert "\n" not in str(caught.value)
