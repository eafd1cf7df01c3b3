"""The speech detector (VB05-VB08)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voicebench.audio import synth
from voicebench.audio.pcm import Int16Array, frame_energy
from voicebench.vad import Segment, StreamingVad, VadConfig, VadEvent, detect

RATE = 1000  # one sample a millisecond: frames of 10 samples, times that can be read off


def levels(*parts: tuple[int, int]) -> Int16Array:
    """A track of (duration in ms, amplitude) parts at RATE. Amplitude 1000 is -30 dBFS, 100 is -50, 130 is -48."""
    return np.concatenate([np.full(duration, amplitude, dtype=np.int16) for duration, amplitude in parts])


def streamed(track: Int16Array, sample_rate: int, config: VadConfig, cuts: list[int] | None = None) -> list[Segment]:
    vad = StreamingVad(sample_rate, config)
    events = [event for piece in np.split(track, sorted(cuts or [])) for event in vad.push(piece)]
    events += vad.flush()
    assert [event.kind for event in events] == ["onset", "offset"] * (len(events) // 2)
    return [Segment(on.time_s, off.time_s) for on, off in zip(events[::2], events[1::2], strict=True)]


def test_defaults_are_those_of_vb05() -> None:
    assert VadConfig().model_dump() == {
        "threshold_db": -45.0,
        "hysteresis_db": 6.0,
        "frame_ms": 10.0,
        "min_speech_ms": 50.0,
        "min_silence_ms": 250.0,
        "refine": "frame",
    }


def test_boundaries_are_backdated_to_the_first_and_last_active_frame() -> None:
    track = levels((100, 0), (200, 1000), (400, 0))
    assert detect(track, RATE) == [Segment(0.1, 0.3)]


def test_a_boundary_is_reported_when_it_is_confirmed() -> None:
    vad = StreamingVad(RATE)
    steps = []
    for piece in ((100, 0), (49, 1000), (1, 1000), (249, 0), (1, 0)):
        events = vad.push(levels(piece))
        steps.append((vad.position_s, vad.speaking, events))
    assert steps == [
        (0.1, False, []),
        (0.14, False, []),
        (0.15, True, [VadEvent("onset", 0.1)]),
        (0.39, True, []),
        (0.4, False, [VadEvent("offset", 0.15)]),
    ]


@pytest.mark.parametrize(("duration_ms", "found"), [(40, []), (50, [Segment(0.0, 0.05)])])
def test_less_than_min_speech_opens_nothing(duration_ms: int, found: list[Segment]) -> None:
    assert detect(levels((duration_ms, 1000), (400, 0)), RATE) == found


@pytest.mark.parametrize(("pause_ms", "found"), [(240, 1), (250, 2)])
def test_a_pause_of_min_silence_parts_two_segments(pause_ms: int, found: int) -> None:
    assert len(detect(levels((100, 1000), (pause_ms, 0), (100, 1000)), RATE)) == found


def test_between_the_thresholds_speech_lasts_but_does_not_begin() -> None:
    # 130 is -48 dBFS: under the threshold of -45, above -45 - 6.
    assert detect(levels((500, 130)), RATE) == []
    assert detect(levels((100, 1000), (500, 130), (300, 0)), RATE) == [Segment(0.0, 0.6)]


def test_a_level_exactly_at_the_threshold_is_active() -> None:
    track = levels((100, 8192), (300, 0))  # a quarter of full scale
    at = 20 * np.log10(0.25)
    assert detect(track, RATE, VadConfig(threshold_db=at)) == [Segment(0.0, 0.1)]
    assert detect(track, RATE, VadConfig(threshold_db=at + 0.001)) == []


def test_zero_durations_open_and_close_with_one_frame() -> None:
    config = VadConfig(min_speech_ms=0, min_silence_ms=0)
    track = levels((10, 0), (10, 1000), (10, 0), (20, 1000), (10, 0))
    assert detect(track, RATE, config) == [Segment(0.01, 0.02), Segment(0.03, 0.05)]
    assert streamed(track, RATE, config) == [Segment(0.01, 0.02), Segment(0.03, 0.05)]


def test_a_threshold_at_the_floor_takes_silence_for_speech() -> None:
    assert detect(levels((100, 0)), RATE, VadConfig(threshold_db=-120)) == [Segment(0.0, 0.1)]


def test_speech_at_the_end_is_closed_at_its_last_active_frame() -> None:
    track = levels((100, 1000), (100, 0), (5, 1000))  # the last 5 ms are no whole frame
    assert detect(track, RATE) == [Segment(0.0, 0.1)]
    vad = StreamingVad(RATE)
    vad.push(track)
    assert vad.flush() == [VadEvent("offset", 0.1)]
    assert vad.flush() == []


@pytest.mark.parametrize("track", [levels((0, 0)), levels((9, 1000))])
def test_without_a_whole_frame_there_is_nothing(track: Int16Array) -> None:
    assert detect(track, RATE) == []


def test_the_origin_shifts_every_time() -> None:
    vad = StreamingVad(RATE, origin_s=2.0)
    assert vad.push(levels((100, 1000))) == [VadEvent("onset", 2.0)]
    assert vad.position_s == 2.1


def test_float_audio_counts_as_its_int16() -> None:
    track = levels((100, 0), (200, 1000), (400, 0))
    vad = StreamingVad(RATE)
    events = vad.push(track.astype(np.float32) / 32768)
    assert events == [VadEvent("onset", 0.1), VadEvent("offset", 0.3)]


def test_segments_overlap_by_what_they_share() -> None:
    assert Segment(0.0, 2.0).overlap(Segment(1.5, 3.0)) == 0.5
    assert Segment(0.0, 1.0).overlap(Segment(1.0, 3.0)) == 0.0
    assert Segment(1.0, 1.5).duration == 0.5


@pytest.mark.parametrize("seed", range(5))
def test_synthetic_speech_is_one_segment_with_its_ends_within_a_frame(seed: int) -> None:
    pause = synth.silence(300, 16000)
    track = np.concatenate([pause, synth.speech(1200, 16000, seed=seed), pause])
    (segment,) = detect(track, 16000)
    assert segment.start_s == pytest.approx(0.3, abs=0.01)
    assert segment.end_s == pytest.approx(1.5, abs=0.01)


configs = st.builds(
    VadConfig,
    threshold_db=st.sampled_from([-130.0, -120.0, -50.0, -45.0, -30.0, 0.0, 3.0]),
    hysteresis_db=st.sampled_from([0.0, 3.0, 6.0, 100.0]),
    frame_ms=st.sampled_from([0.01, 2.5, 5.0, 10.0, 30.0]),
    min_speech_ms=st.sampled_from([0.0, 5.0, 10.0, 25.0, 50.0]),
    min_silence_ms=st.sampled_from([0.0, 5.0, 10.0, 45.0, 250.0]),
)
# Parts of a few frames around the thresholds, so that runs of every length come about.
parts = st.lists(
    st.tuples(st.integers(0, 700), st.sampled_from([0, 1, 90, 104, 150, 184, 190, 1000, 32767])), max_size=25
)


@given(
    parts=parts,
    config=configs,
    sample_rate=st.sampled_from([8000, 11025, 16000]),
    cuts=st.lists(st.integers(0, 6000), max_size=20),
    seed=st.integers(0, 99),
)
@settings(max_examples=200, deadline=None)
def test_streaming_and_whole_track_agree_exactly_on_any_chunking(
    parts: list[tuple[int, int]], config: VadConfig, sample_rate: int, cuts: list[int], seed: int
) -> None:
    random = np.random.default_rng(seed)
    peaks = np.repeat([peak for _, peak in parts], [length for length, _ in parts]) if parts else np.zeros(0)
    track = (peaks * random.choice([-1, 1, 0.99], len(peaks))).astype(np.int16)
    assert detect(track, sample_rate, config) == streamed(track, sample_rate, config, cuts)


@given(
    config=configs, energies=st.lists(st.sampled_from([0.0, 1e4, 5e6, 1e9]), max_size=200), cut=st.integers(0, 200)
)
@settings(max_examples=100, deadline=None)
def test_energies_computed_elsewhere_give_the_same(config: VadConfig, energies: list[float], cut: int) -> None:
    one, two = StreamingVad(8000, config), StreamingVad(8000, config)
    together = one.push_energies(energies) + one.flush()
    apart = two.push_energies(energies[:cut]) + two.push_energies(energies[cut:]) + two.flush()
    assert together == apart


def test_batched_energies_equal_pushed_audio() -> None:
    track = np.concatenate([synth.silence(200, 16000), synth.speech(500, 16000), synth.silence(400, 16000)])
    pushed, batched = StreamingVad(16000), StreamingVad(16000)
    energies = frame_energy(track.reshape(-1, batched.frame_length))
    assert batched.push_energies(energies.tolist()) == pushed.push(track) != []
