"""The reference agent's voice as frames."""

import numpy as np
import pytest

from voicebench.agents.reference import ReferenceOptions
from voicebench.agents.voice import VOICES, FramedVoice


def test_frames_are_whole_shared_and_at_the_level_asked_for() -> None:
    voice = FramedVoice(ReferenceOptions(level_db=-26.0), 16000)
    frames = voice(1, 1010)
    assert [len(frame) for frame in frames] == [640] * 51
    assert frames[-1][320:] == bytes(320)  # 10 ms of voice, 10 ms of silence
    assert voice(1, 1010) is frames
    samples = np.frombuffer(b"".join(frames), dtype="<i2")[:16160] / 32768
    assert 10 * np.log10(np.mean(samples**2)) == pytest.approx(-26, abs=0.1)


def test_the_same_seed_and_turn_sound_the_same_and_others_do_not() -> None:
    first, again = (FramedVoice(ReferenceOptions(seed=3), 8000) for _ in range(2))
    assert first(2, 200) == again(2, 200)
    assert first(2, 200) != first(3, 200)
    assert first(2, 200) == first(2 + VOICES, 200)


def test_a_tone_is_at_its_full_level_from_end_to_end() -> None:
    frames = FramedVoice(ReferenceOptions.parse({"voice": "tone", "level_db": -26.0}), 16000)(1, 1000)
    samples = np.frombuffer(b"".join(frames), dtype="<i2") / 32768
    for millisecond in (samples[:16], samples[-16:]):
        assert 10 * np.log10(np.mean(millisecond**2)) == pytest.approx(-26, abs=0.1)


def test_even_an_empty_reply_is_one_frame() -> None:
    assert FramedVoice(ReferenceOptions(), 16000)(1, 0) == (bytes(640),)


def test_frames_go_through_the_encoder_once() -> None:
    calls: list[int] = []

    def encode(pcm: bytes) -> bytes:
        calls.append(len(pcm))
        return b"wire" + pcm

    voice = FramedVoice(ReferenceOptions(response_ms=40), 16000, encode=encode)
    voice.prepare()
    made = len(calls)
    assert made == 2 * VOICES
    assert voice(5, 40)[0].startswith(b"wire")
    assert len(calls) == made
