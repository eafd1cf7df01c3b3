"""Levels and edges of many callers' frames at once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from voicebench.agents.hearing import Hearing, Loudness
from voicebench.audio.pcm import rms_db
from voicebench.wire.rfc6455 import apply_mask

RATE = 16000


def square(samples: int, amplitude: int, lead: int = 0, trail: int = 0) -> bytes:
    """A square wave of 8 kHz between two silences; its level is that of its amplitude."""
    wave = np.tile([amplitude, -amplitude], samples // 2)
    return np.concatenate([np.zeros(lead), wave, np.zeros(trail)]).astype("<i2").tobytes()


def measure(*frames: bytes, threshold_db: float = -45.0) -> list[Loudness]:
    hearing = Hearing(RATE, threshold_db)
    for frame in frames:
        hearing.add(frame)
    return hearing.measure()


def edges_ms(loudness: Loudness) -> tuple[float, float]:
    return round(loudness.first_s * 1000, 6), round(loudness.last_s * 1000, 6)


def test_a_square_wave_of_half_scale_has_minus_6_db_from_end_to_end() -> None:
    (loudness,) = measure(square(320, 16384))
    assert loudness.level_db == pytest.approx(-6.0206, abs=1e-3)
    assert edges_ms(loudness) == (0, 20)


def test_the_edges_are_those_of_the_samples() -> None:
    (loudness,) = measure(square(160, 16384, lead=53, trail=107))  # 10 ms of sound from the 53rd sample on
    assert edges_ms(loudness) == (53 / 16, 213 / 16)


def test_a_sample_alone_is_no_edge_unless_its_millisecond_is_loud() -> None:
    frame = np.frombuffer(square(160, 16384, lead=64, trail=96), "<i2").copy()
    frame[[10, 300]] = 260  # -42 dB, but -54 over its millisecond
    (loudness,) = measure(frame.tobytes())
    assert edges_ms(loudness) == (4, 14)


def test_silence_is_at_the_floor_and_has_no_edges() -> None:
    assert measure(bytes(640)) == [Loudness(-120.0, 0.0, 0.0)]
    assert measure(b"") == [Loudness(-120.0, 0.0, 0.0)]


def test_a_faint_frame_may_hold_a_loud_millisecond() -> None:
    (loudness,) = measure(square(16, 260, lead=304))  # -42 dB for 1 ms of 20 is -55 dB in all
    assert loudness.level_db == pytest.approx(-55.0, abs=0.1)
    assert edges_ms(loudness) == (19, 20)


def test_measuring_forgets() -> None:
    hearing = Hearing(RATE, -45.0)
    hearing.add(bytes(640))
    assert len(hearing) == 1
    hearing.measure()
    assert len(hearing) == 0


@given(
    st.lists(
        st.tuples(st.integers(1, 400), st.integers(0, 9), st.binary(min_size=4, max_size=4)), min_size=1, max_size=20
    )
)
def test_any_mix_of_sizes_and_masks_gives_each_frame_its_own_level(frames: list[tuple[int, int, bytes]]) -> None:
    hearing = Hearing(RATE, -45.0)
    expected = []
    for count, seed, mask in frames:
        pcm = np.random.default_rng(seed).integers(-3 * 8 ** (seed // 2), 3 * 8 ** (seed // 2), count).astype("<i2")
        masked = len(pcm) % 2 == 0
        hearing.add(apply_mask(pcm.tobytes(), mask) if masked else pcm.tobytes(), mask if masked else bytes(4))
        expected.append(rms_db(pcm))
    assert [loudness.level_db for loudness in hearing.measure()] == pytest.approx(expected, abs=1e-9)
