"""Packets of any size become frames of 20 ms, and frames become replies."""

from dataclasses import replace

import numpy as np
import pytest

from voicebench.metrics.frames import Frames, frames_of, replies_of

from .builders import played, stream


def frames(*sent: tuple[float, float, float], clears: tuple[float, ...] = ()) -> Frames:
    return frames_of(played(sent, clears)[0])


def ms(times: np.ndarray) -> list[float | None]:
    return [None if np.isnan(time) else round(float(time) * 1000, 3) for time in times]


def test_packets_of_20_ms_are_frames() -> None:
    found = frames(*stream(1.0, 1.06))

    assert ms(found.arrived) == [1000, 1020, 1040]
    assert found.audible.all()


def test_a_packet_of_60_ms_is_three_frames_that_arrive_at_once_and_sound_one_after_the_other() -> None:
    found = frames((1.0, 0.06, -20.0), (1.06, 0.06, -20.0))

    assert ms(found.arrived) == [1000] * 3 + [1060] * 3
    assert ms(found.heard) == [1000, 1020, 1040, 1060, 1080, 1100]


def test_two_packets_of_10_ms_are_one_frame_that_arrives_with_the_second() -> None:
    found = frames(*((1.0 + k / 100, 0.01, -20.0) for k in range(6)))

    assert ms(found.arrived) == [1010, 1030, 1050]
    assert ms(found.heard) == [1000, 1020, 1040]


def test_packets_of_30_ms_share_frames_and_their_levels_mix() -> None:
    found = frames((1.0, 0.03, -35.0), (1.03, 0.03, -120.0))

    assert ms(found.arrived) == [1000, 1030, 1030]
    assert found.audible.tolist() == [True, True, False]  # half of the second sounds: -38 dBFS


def test_the_threshold_is_one_hundredth_of_full_scale_tv04() -> None:
    assert frames((1.0, 0.02, -39.9), (1.02, 0.02, -40.1)).audible.tolist() == [True, False]


def test_silence_inside_one_long_packet_is_seen() -> None:
    packets, _ = played([(1.0, 0.1, -20.0)])
    quiet = packets.pieces_db.copy()
    quiet[1:3] = -120.0

    assert frames_of(replace(packets, pieces_db=quiet)).audible.tolist() == [True, False, False, True, True]


def test_what_a_pause_leaves_incomplete_is_a_short_frame() -> None:
    found = frames((1.0, 0.05, -20.0), (3.0, 0.04, -20.0))

    assert ms(found.arrived) == [1000, 1000, 1000, 3000, 3000]
    assert ms(found.duration) == [20, 20, 10, 20, 20]
    assert found.pauses.tolist() == [0, 0, 0, 1, 1]


def test_a_long_packet_delays_the_next_without_a_pause() -> None:
    assert frames((1.0, 0.5, -20.0), (1.5, 0.5, -20.0)).pauses.max() == 0
    assert frames((1.0, 0.02, -20.0), (1.121, 0.02, -20.0)).pauses.max() == 1


def test_a_frame_that_a_clear_took_back_was_queued_and_never_heard() -> None:
    found = frames((1.0, 0.1, -20.0), clears=(1.05,))

    assert ms(found.heard) == [1000, 1020, 1040, None, None]
    assert ms(found.queued) == [1000, 1020, 1040, 1060, 1080]


def test_no_packets_are_no_frames_and_no_replies() -> None:
    none = frames()

    assert len(none) == 0
    assert replies_of(none, [(0.0, 1.0)]) == []
    assert len(frames((1.0, 0.0, -20.0))) == 0


def test_replies_part_where_the_caller_speaks_in_a_pause_and_nowhere_else() -> None:
    sent = [*stream(0.0, 1.0), *stream(1.5, 2.0), *stream(4.0, 5.0)]
    found = frames_of(played(sent)[0])

    alone = replies_of(found, [])
    assert [(reply.first, reply.stop) for reply in alone] == [(0, 125)]
    parted = replies_of(found, [(2.5, 3.5)])
    assert [(reply.first, reply.stop) for reply in parted] == [(0, 75), (75, 125)]


def test_silence_that_is_sent_parts_replies_too() -> None:
    sent = [*stream(0.0, 1.0), *stream(1.0, 3.0, -120.0), *stream(3.0, 4.0)]
    first, second = replies_of(frames_of(played(sent)[0]), [(1.5, 2.0)])

    assert (first.first_audible, first.last_audible) == (0, 49)
    assert (second.first_audible, second.last_audible, second.stop) == (150, 199, 200)


def test_an_agent_that_talks_on_through_the_caller_makes_one_reply() -> None:
    assert len(replies_of(frames_of(played(stream(0.0, 4.0))[0]), [(1.0, 2.0)])) == 1


@pytest.mark.parametrize("length_s", [0.005, 0.01, 0.02, 0.03, 0.06, 0.2, 1.0])
def test_the_size_of_packets_loses_no_audio(length_s: float) -> None:
    packets = [(1.0 + k * length_s, length_s, -20.0) for k in range(round(3.0 / length_s))]

    assert frames(*packets).duration.sum() == pytest.approx(3.0)
