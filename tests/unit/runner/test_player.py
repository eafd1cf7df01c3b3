"""The caller's player: VB03, VB04, and the bounded players."""

import numpy as np
import pytest

from voicebench.runner.player import Player
from voicebench.scenario import JitterBuffer

RATE = 1000  # one sample a millisecond, so that positions read as milliseconds
MS = 1_000_000


def packet(samples: int, value: int = 1000) -> bytes:
    return np.full(samples, value, dtype="<i2").tobytes()


def player(playout: str | JitterBuffer = "ideal", max_s: float = 10.0) -> Player:
    return Player(RATE, playout, max_s)


def heard_ms(of: Player) -> list[float | None]:
    return [None if np.isnan(s) else round(s * 1000, 3) for s in of.packets().heard]


def test_a_packet_sounds_when_it_arrives_or_when_the_one_before_has_ended() -> None:
    ears = player()
    for arrived in (100, 120, 130, 200):
        ears.audio(packet(20), arrived * MS, arrived * MS)
    assert heard_ms(ears) == [100, 120, 140, 200]
    track = ears.heard()
    assert np.flatnonzero(np.diff(np.concatenate([[0], track != 0, [0]]))).tolist() == [100, 160, 200, 220]


def test_a_packet_from_before_the_first_frame_sounds_at_once() -> None:
    ears = player()
    ears.audio(packet(20), -5 * MS, 0)
    assert heard_ms(ears) == [-5]
    assert ears.packets().arrived.tolist() == [-0.005]


def test_a_clear_drops_what_has_not_sounded_yet() -> None:
    ears = player()
    for _ in range(10):
        ears.audio(packet(20), 100 * MS, 100 * MS)  # a burst: 200 ms of audio at once
    ears.clear(150 * MS)
    assert heard_ms(ears) == [100, 120, 140] + [None] * 7
    assert len(ears.heard()) == 150
    ears.audio(packet(20), 160 * MS, 160 * MS)  # the next reply starts afresh
    assert heard_ms(ears)[-1] == 160


def test_levels_survive_a_clear_and_a_second_one() -> None:
    ears = player()
    ears.audio(packet(20, 3277), 0, 0)  # -20 dBFS
    ears.audio(packet(20, 328), 0, 0)  # -40 dBFS
    ears.clear(30 * MS)
    ears.clear(10 * MS)
    assert ears.packets().level_db == pytest.approx([-20, -40], abs=0.05)


def test_an_empty_packet_and_silence_have_the_floor_level() -> None:
    ears = player()
    ears.audio(b"", 0, 0)
    ears.audio(packet(20, 0), 0, 0)
    assert ears.packets().level_db.tolist() == [-120, -120]


def test_a_jitter_buffer_holds_back_the_start_of_a_spurt_and_drops_what_does_not_fit() -> None:
    ears = player(JitterBuffer(jitter_buffer_ms=60, max_ms=100))
    for _ in range(4):
        ears.audio(packet(20), 100 * MS, 100 * MS)
    assert heard_ms(ears) == [160, 180, 200, None]  # the fourth would wait 120 ms
    ears.audio(packet(20), 300 * MS, 300 * MS)
    assert heard_ms(ears)[-1] == 360


def test_without_a_queue_packets_sound_over_each_other() -> None:
    ears = player("none")
    ears.audio(packet(20, 1), 100 * MS, 100 * MS)
    ears.audio(packet(20, 2), 110 * MS, 110 * MS)
    track = ears.heard()
    assert track[100:130].tolist() == [1] * 10 + [2] * 20


def test_audio_beyond_the_call_is_counted_but_not_kept() -> None:
    ears = player(max_s=1.0)
    for _ in range(1000):
        ears.audio(packet(20), 0, 0)  # 20 s of audio
    assert len(ears.heard()) == 1000
    assert len(ears.packets()) == 1000
    assert np.isnan(ears.packets().heard[50:]).all()


def test_the_receive_lag_is_kept() -> None:
    ears = player()
    ears.audio(packet(20), 100 * MS, 103 * MS)
    packets = ears.packets()
    assert packets.read - packets.arrived == pytest.approx([0.003])


def test_what_came_before_time_0_has_sounded_by_then_and_delays_nothing() -> None:
    ears = player()
    for arrived in (-50, -15, 6):  # they last 20 ms: only the last 5 ms of the second fall into the session
        ears.audio(packet(20, arrived), arrived * MS, arrived * MS)

    assert ears.heard().tolist() == [-15] * 5 + [0] + [6] * 20
    assert heard_ms(ears) == [-50, -15, 6]
    packets = ears.packets()
    assert packets.duration.tolist() == [0.02, 0.02, 0.02]
    assert packets.arrived.tolist() == [-0.05, -0.015, 0.006]
    assert packets.level_db[0] == pytest.approx(20 * np.log10(50 / 32768), abs=0.01)


def test_a_long_packet_has_a_level_for_every_20_ms() -> None:
    ears = player()
    loud_then_quiet = np.repeat(np.array([3277, 328, 33], dtype="<i2"), 20)  # -20, -40 and -60 dBFS
    ears.audio(loud_then_quiet.tobytes() + packet(5, 3277), 100 * MS, 100 * MS)
    ears.audio(packet(10, 328), 110 * MS, 110 * MS)

    packets = ears.packets()
    assert packets.pieces.tolist() == [4, 1]
    assert packets.pieces_db == pytest.approx([-20, -40, -60, -20, -40], abs=0.1)


@pytest.mark.parametrize("rate", [8000, 11025, 16000, 22050, 44100])
@pytest.mark.parametrize("playout", ["ideal", "none"])
def test_levels_of_pieces_hold_at_any_rate_and_after_a_clear(rate: int, playout: str) -> None:
    ears = Player(rate, playout, 60.0)
    values = [3277, 328, 1036]
    for number, value in enumerate(values):
        ears.audio(packet(rate // 4, value), number * 250 * MS, 0)
    ears.clear(300 * MS)
    packets = ears.packets()

    expected = [level for value in values for level in [20 * np.log10(value / 32768)] * 13]
    assert packets.pieces_db == pytest.approx(expected, abs=0.01)
    assert packets.pieces.sum() == len(packets.pieces_db)
    assert packets.level_db == pytest.approx(expected[::13], abs=0.01)


def test_when_a_clear_came_is_kept_with_what_it_took_back() -> None:
    ears = player(JitterBuffer(jitter_buffer_ms=0, max_ms=50))
    for _ in range(4):
        ears.audio(packet(20), 100 * MS, 100 * MS)  # the last one finds no room
    ears.clear(130 * MS)
    packets = ears.packets()

    assert [None if np.isnan(s) else round(s * 1000) for s in packets.queued] == [100, 120, 140, None]
    assert [None if np.isnan(s) else round(s * 1000) for s in packets.cleared] == [None, 130, 130, None]
    assert heard_ms(ears) == [100, 120, None, None]
