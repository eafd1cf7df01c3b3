"""The conversation without I/O: anchors, delays, timeouts, the tail (VB16, VB22)."""

from typing import Any

import numpy as np

from voicebench.audio.synth import tone
from voicebench.runner.conversation import BURST_PACKETS, Conversation
from voicebench.runner.ears import hear_all
from voicebench.scenario import parse_scenario

RATE = 16000
FRAME_MS = 20
MS = 1_000_000
QUIET = b"silence"


def conversation(*turns: dict[str, Any], **keys: Any) -> Conversation:
    """Turns of 100 ms, five frames each; the wire bytes name turn and frame."""
    scenario = parse_scenario(
        {
            "name": "talk",
            "tail_ms": 200,
            **keys,
            "turns": [{"audio": {"synth": "tone", "duration_ms": 100}, **turn} for turn in turns],
        }
    )
    frames = [[f"{turn.id}:{k}".encode() for k in range(5)] for turn in scenario.turns]
    return Conversation(scenario, frames, QUIET, [RATE // 10] * len(turns), RATE)


def play(talk: Conversation, agent: dict[int, list[bytes]] | None = None, frames: int = 2000) -> list[bytes]:
    """Drive it frame by frame; ``agent`` maps a frame number to the packets that arrive just before it."""
    wires = []
    for i in range(frames):
        for packet in (agent or {}).get(i, ()):
            talk.audio(packet, i * FRAME_MS * MS, i * FRAME_MS * MS)
        heard = talk.unheard(i)
        if heard is not None:
            hear_all([(talk, heard)])
        wires.append(talk.tick(i))
        talk.mark_sent(i, i * FRAME_MS * MS)
        if talk.finished:
            break
    return wires


def speech(start_ms: int, length_ms: int) -> dict[int, list[bytes]]:
    """A paced reply: one packet of 20 ms a frame."""
    pcm = tone(length_ms, RATE).tobytes()
    return {start_ms // FRAME_MS + k: [pcm[640 * k : 640 * (k + 1)]] for k in range(length_ms // FRAME_MS)}


def test_the_first_turn_starts_half_a_second_into_the_call_and_the_call_ends_after_the_tail() -> None:
    talk = conversation({})
    wires = play(talk)
    assert wires[:25] == [QUIET] * 25
    assert wires[25:30] == [b"turn-1:0", b"turn-1:1", b"turn-1:2", b"turn-1:3", b"turn-1:4"]
    assert set(wires[30:]) == {QUIET}
    assert len(wires) == 41  # 0.6 s + 0.2 s of tail, and the frame that is due then
    assert (talk.windows[0].start, talk.windows[0].end, talk.windows[0].trigger) == (0.5, 0.6, "anchor")


def test_a_turn_follows_the_end_of_the_reply_by_its_delay() -> None:
    talk = conversation({}, {"start": {"after": "agent_speech_end", "delay_ms": 400}})
    play(talk, speech(start_ms=1000, length_ms=500))
    assert talk.windows[1].start == 1.9  # the reply ends at 1.5 s
    assert talk.windows[1].trigger == "anchor"


def test_the_end_of_a_reply_is_known_a_quarter_of_a_second_later() -> None:
    talk = conversation({}, {"start": {"after": "agent_speech_end"}})
    play(talk, speech(start_ms=1000, length_ms=500))
    assert talk.windows[1].start == 1.76  # 1.5 s + min_silence_ms 250, at the next frame


def test_an_interruption_counts_from_the_onset_of_the_reply() -> None:
    talk = conversation({}, {"expect": "stop", "start": {"after": "agent_speech_start", "delay_ms": 300}})
    play(talk, speech(start_ms=1000, length_ms=1000))
    assert talk.windows[1].start == 1.3


def test_agent_speech_from_before_the_previous_turn_ended_is_no_anchor() -> None:
    talk = conversation({}, {"start": {"after": "agent_speech_start", "timeout_ms": 800}})
    play(talk, speech(start_ms=300, length_ms=250))  # onset at 0.3 s, before the first turn
    assert talk.windows[1].start == 1.4
    assert talk.windows[1].trigger == "timeout"


def test_a_turn_starts_on_timeout_if_its_anchor_never_comes() -> None:
    talk = conversation({}, {"start": {"timeout_ms": 1000}})
    play(talk)
    assert (talk.windows[1].start, talk.windows[1].trigger) == (1.6, "timeout")


def test_a_turn_never_starts_before_the_previous_one_has_ended() -> None:
    talk = conversation({}, {"start": {"after": "session_start", "delay_ms": 100}})
    play(talk)
    assert [(w.start, w.end) for w in talk.windows] == [(0.5, 0.6), (0.6, 0.7)]


def test_the_call_goes_on_while_the_agent_is_heard() -> None:
    talk = conversation({})
    wires = play(talk, speech(start_ms=700, length_ms=2000))
    assert len(wires) == 149  # the reply ends at 2.7 s; known with the frame due at 2.96 s
    burst = conversation({})
    pcm = tone(2000, RATE).tobytes()
    assert abs(len(play(burst, {35: [pcm]})) - 149) <= 1  # the same, if all of it arrives at once


def test_a_call_ends_at_its_maximum_duration() -> None:
    talk = conversation({}, {"start": {"timeout_ms": 60000}}, max_duration_ms=2000)
    assert len(play(talk)) == 101
    assert talk.max_duration_reached
    assert len(talk.windows) == 1


def test_frames_that_the_clock_skipped_are_left_out_not_sent_late() -> None:
    talk = conversation({})
    sent = [talk.tick(i) for i in (25, 28, 29, 30)]
    assert sent == [b"turn-1:0", b"turn-1:3", b"turn-1:4", QUIET]
    for i in (0, 3):
        talk.mark_sent(i, i)
    assert list(talk.sent) == [0, -1, -1, 3]


def test_many_calls_hear_in_one_batch_what_each_would_hear_alone() -> None:
    alone = conversation({}, {"start": {"after": "agent_speech_end", "delay_ms": 400}})
    agent = speech(start_ms=1000, length_ms=500)
    play(alone, agent)
    crowd = [conversation({}, {"start": {"after": "agent_speech_end", "delay_ms": 400}}) for _ in range(3)]
    for i in range(120):
        batch = []
        for number, talk in enumerate(crowd):
            for packet in agent.get(i - 5 * number, ()):
                talk.audio(packet, i * FRAME_MS * MS, i * FRAME_MS * MS)
            heard = talk.unheard(i)
            if heard is not None:
                batch.append((talk, heard))
        hear_all(batch)
        for talk in crowd:
            talk.tick(i)
    assert [round(talk.windows[1].start, 3) for talk in crowd] == [1.9, 2.0, 2.1]
    assert alone.windows[1].start == 1.9


def test_a_flood_of_packets_is_noticed_and_memory_stays_bounded() -> None:
    talk = conversation({})
    for _ in range(BURST_PACKETS + 10):
        talk.audio(b"\0\0", 0, 0)
    assert talk.flooded
    assert len(talk.player.packets()) == BURST_PACKETS


def test_a_flood_of_long_packets_is_noticed_too() -> None:
    for at_s, allowed_s in ((0, 600), (1, 620), (10, 800)):
        talk = conversation({})
        while not talk.flooded:
            talk.audio(bytes(2 * talk.player.rate), at_s * 10**9, at_s * 10**9)
        assert len(talk.player.packets()) == allowed_s


def test_events_beyond_a_bound_are_counted() -> None:
    talk = conversation({})
    for _ in range(1500):
        talk.note("message", "x" * 1000, 0)
    notes = talk.closing_notes()
    assert len(notes) == 1001
    assert "500" in notes[-1].detail
    assert len(notes[0].detail) == 500


def test_whereabouts_tell_where_the_call_stands() -> None:
    talk = conversation({"id": "hello"})
    assert (talk.whereabouts, talk.all_played) == ("before the first turn", False)
    for i in range(27):
        talk.tick(i)
        talk.mark_sent(i, i)
    assert (talk.whereabouts, talk.all_played) == ("during turn 'hello'", False)
    for i in range(27, 31):
        talk.tick(i)
        talk.mark_sent(i, i)
    assert (talk.whereabouts, talk.all_played) == ("after turn 'hello'", True)


def test_the_detector_hears_silence_where_nothing_came() -> None:
    talk = conversation({"start": {"after": "agent_speech_start", "timeout_ms": 400}})
    heard = talk.unheard(10)
    assert heard is not None
    assert not np.frombuffer(heard, dtype=np.int16).any()
    assert len(heard) == 2 * 10 * RATE * FRAME_MS // 1000


def test_an_agent_that_sends_silence_without_an_end_keeps_no_call_open() -> None:
    # Two packets of silence at each frame: the player's queue grows for as long as the call lasts.
    silent = {i: [bytes(640)] * 2 for i in range(2000)}
    assert len(play(conversation({}), silent)) == 41  # as long as with no agent at all


def test_speech_that_was_sent_ahead_keeps_the_call_open_until_it_has_sounded() -> None:
    ahead = {30: speech(0, 1000)}  # 1 s at once, at 600 ms
    packets = {30: [packet for frame in ahead[30].values() for packet in frame]}
    assert len(play(conversation({}), packets)) >= (600 + 1000) // FRAME_MS
