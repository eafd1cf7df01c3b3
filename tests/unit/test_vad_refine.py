"""Boundaries of speech to the sample (``refine: sample``)."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from voicebench.agents.reference import ReferenceOptions
from voicebench.agents.voice import FramedVoice
from voicebench.audio.pcm import FloatArray, Int16Array, db_to_amplitude, energy_threshold, to_int16
from voicebench.runner.player import Player
from voicebench.scenario import parse_scenario
from voicebench.vad import CAP, Segment, StreamingVad, VadConfig, detect

RATE = 16000  # frames of 160 samples
SAMPLE = VadConfig(refine="sample")


def levels(*parts: tuple[int, int]) -> Int16Array:
    """A track of (samples, amplitude) parts. 185 is at the threshold to open a segment, 93 at that to stay in it."""
    return np.concatenate([np.full(samples, amplitude, dtype=np.int16) for samples, amplitude in parts])


def found(track: Int16Array, config: VadConfig = SAMPLE, rate: int = RATE) -> list[tuple[int, int]]:
    """First samples of the segments, and the samples behind their last ones."""
    return [(round(s.start_s * rate), round(s.end_s * rate)) for s in detect(track, rate, config)]


def test_edges_are_found_where_they_are() -> None:
    track = levels((1603, 0), (6402, 1000), (8000, 0))
    assert detect(track, RATE) == [Segment(0.1, 0.51)]
    assert detect(track, RATE, SAMPLE) == [Segment(1603 / RATE, 8005 / RATE)]


@pytest.mark.parametrize(("lead", "length"), [(1590, 6410), (1600, 6410), (1590, 6400), (1610, 6380)])
def test_sound_too_short_to_make_a_frame_active_still_counts(lead: int, length: int) -> None:
    # ten samples of 250 are 20 dB down in a frame of 160: 12 + 9 dB below the threshold to open, 12 + 3 to stay open
    assert found(levels((lead, 0), (length, 250), (8000, 0))) == [(lead, lead + length)]


def test_soft_ends_are_where_the_level_crosses_the_thresholds() -> None:
    rise, fall = np.arange(2000), np.arange(2000)[::-1]
    track = np.concatenate([np.zeros(1600), rise, np.full(4000, 2000), fall, np.zeros(6000)]).astype(np.int16)
    # -45 dBFS is 184.3, -51 is 92.4; the last sample at or above that is 93
    assert found(track) == [(1600 + 185, 1600 + 2000 + 4000 + 2000 - 93)]


def test_between_the_thresholds_speech_lasts_but_does_not_begin() -> None:
    assert found(levels((1605, 0), (103, 130), (4000, 1000), (1507, 130), (8000, 0))) == [(1708, 7215)]


@pytest.mark.parametrize("click", [1, 3, 5])
@pytest.mark.parametrize("gap", [16, 80, 150])
def test_a_click_before_the_onset_or_behind_the_offset_is_not_speech(click: int, gap: int) -> None:
    track = levels((2000, 0), (click, 32000), (gap, 0), (4000, 1000), (gap, 0), (click, -32000), (8000, 0))
    start = 2000 + click + gap
    assert found(track) == [(start, start + 4000)]


def test_a_burst_close_to_the_onset_is_speech() -> None:
    # 1 ms of burst speaks for up to 3 ms of silence
    assert found(levels((2000, 0), (16, 1000), (48, 0), (4000, 1000), (8000, 0))) == [(2000, 6064)]
    assert found(levels((2000, 0), (16, 1000), (49, 0), (4000, 1000), (8000, 0))) == [(2065, 6065)]


def test_noise_below_the_threshold_has_no_say() -> None:
    random = np.random.default_rng(1)
    track = levels((2005, 0), (4000, 5000), (8000, 0))
    assert found(track + random.integers(-90, 91, len(track)).astype(np.int16)) == [(2005, 6005)]


@pytest.mark.parametrize("rest", [0, 37, 159])
def test_what_lasts_to_the_end_keeps_its_end(rest: int) -> None:
    track = levels((1603, 0), (6397, 1000), (rest, 1000))
    track[-20:] = 0  # such as a zero crossing
    assert found(track) == [(1603, 8000)]


def test_speech_from_the_first_sample_on() -> None:
    assert found(levels((4003, 1000), (8000, 0))) == [(0, 4003)]


def test_a_segment_of_which_nothing_would_be_left_keeps_its_frames() -> None:
    config = SAMPLE.model_copy(update={"min_speech_ms": 0.0, "min_silence_ms": 0.0})
    assert found(levels((1700, 0), (1, 32000), (8000, 0)), config) == [(1600, 1760)]


def test_a_noise_between_two_segments_that_is_near_to_both_goes_to_the_first() -> None:
    config = VadConfig(hysteresis_db=0, min_silence_ms=10, refine="sample")
    pause = levels((101, 185), (20, 0), (10, 368), (29, 0))  # one frame, on the whole below the threshold
    track = np.concatenate([levels((1600, 1000)), pause, levels((1600, 1000), (8000, 0))])
    assert found(track, config) == [(0, 1731), (1731, 3360)]


def test_a_threshold_at_the_floor_takes_silence_for_speech() -> None:
    assert found(levels((1600, 0)), VadConfig(threshold_db=-120, refine="sample")) == [(0, 1600)]


def test_nothing_is_found_in_nothing() -> None:
    assert found(levels((0, 0))) == found(levels((159, 1000))) == found(levels((16000, 0))) == []


def test_the_live_detector_keeps_to_frames() -> None:
    track = levels((1603, 0), (6402, 1000), (8000, 0))
    assert StreamingVad(RATE, SAMPLE).push(track) == StreamingVad(RATE).push(track) != []


@pytest.mark.parametrize("voice", ["speech", "tone"])
def test_a_reply_that_a_clear_cuts_off_ends_with_the_clear(voice: str) -> None:
    random = np.random.default_rng(2)
    frames = FramedVoice(ReferenceOptions.parse({"voice": voice}), RATE)(1, 1000)
    errors_ms = []
    for cut_ns in random.integers(300_000_000, 900_000_000, 200).tolist():
        player = Player(RATE, "ideal", 10.0)
        for number, frame in enumerate(frames):
            player.audio(frame, number * 15_000_000, number * 15_000_000)  # faster than it can be heard
        player.clear(cut_ns)
        track = np.concatenate([player.heard(), levels((8000, 0))])
        (segment,) = detect(track, RATE, SAMPLE)
        errors_ms.append(segment.end_s * 1e3 - cut_ns / 1e6)
    assert np.abs(errors_ms).max() < 0.5


edges = st.lists(
    st.sampled_from([0, 30, 92, 93, 150, 184, 185, 300, 368, 369, -1000, 32000]), min_size=30, max_size=30
)


@given(before=edges, behind=edges)
@settings(max_examples=200, deadline=None)
def test_a_boundary_parts_the_stretches_that_hold_the_level_from_those_that_do_not(
    before: list[int], behind: list[int]
) -> None:
    # one sample a millisecond: frames of ten samples
    track = np.concatenate([levels((30, 0)), before, levels((60, 1000)), behind, levels((400, 0))]).astype(np.int16)
    frames, samples = found(track, VadConfig(), 1000), found(track, SAMPLE, 1000)
    assume(len(frames) == 1)
    (start, end), ((onset, offset),) = frames[0], samples
    opening, closing = energy_threshold(-45, 1), energy_threshold(-51, 1)
    assert onset in [n for n in range(start - 10, start + 21) if parts_at(track, start - 10, n, start + 20, opening)]
    mirrored, last = track[::-1], len(track) - end
    parting = [n for n in range(last - 10, last + 21) if parts_at(mirrored, last - 10, n, last + 20, closing)]
    assert len(track) - offset in parting


def parts_at(track: Int16Array, low: int, at: int, high: int, threshold: float) -> bool:
    """Whether every stretch from ``at`` on holds the level, and every one up to it does not.

    A stretch exactly at the level (three silent samples and a capped one) may be counted either way.
    """
    nearly = threshold * 1e-9
    power = np.minimum(track.astype(np.float64) ** 2, CAP * threshold)
    before = all(power[start:at].mean() < threshold + nearly for start in range(low, at))
    return before and all(power[at:stop].mean() >= threshold - nearly for stop in range(at + 1, high + 1))


configs = st.builds(
    VadConfig,
    threshold_db=st.sampled_from([-130.0, -50.0, -45.0, 3.0]),
    hysteresis_db=st.sampled_from([0.0, 6.0, 100.0]),
    frame_ms=st.sampled_from([0.01, 2.5, 10.0, 30.0]),
    min_speech_ms=st.sampled_from([0.0, 10.0, 50.0]),
    min_silence_ms=st.sampled_from([0.0, 10.0, 250.0]),
)
parts = st.lists(
    st.tuples(st.integers(0, 500), st.sampled_from([0, 1, 90, 104, 184, 190, 1000, 32767])), min_size=1, max_size=25
)


@given(parts=parts, config=configs, rate=st.sampled_from([8000, 11025]), seed=st.integers(0, 99))
@settings(max_examples=200, deadline=None)
def test_segments_neither_come_nor_go_nor_meet_and_boundaries_stay_near(
    parts: list[tuple[int, int]], config: VadConfig, rate: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    track = levels(*parts)
    track = (track * random.choice([-1, 1, 0.99], len(track))).astype(np.int16)
    frames = found(track, config, rate)
    samples = found(track, config.model_copy(update={"refine": "sample"}), rate)
    frame = StreamingVad(rate, config).frame_length
    assert len(samples) == len(frames)
    for (start, end), (onset, offset) in zip(frames, samples, strict=True):
        assert onset < offset
        assert start - frame <= onset <= start + 2 * frame
        assert end - 2 * frame <= offset <= end + frame
    assert all(one[1] <= two[0] for one, two in pairwise(samples))


@pytest.mark.parametrize("rate", [8000, 16000, 48000])
@pytest.mark.parametrize("kind", ["tone", "noise"])
def test_against_sharp_edges_the_error_is_within_a_millisecond(kind: str, rate: int) -> None:
    """On both tracks of a scenario; the grid of 10 ms does no better than 9."""
    refined = parse_scenario(
        {"name": "x", "vad": {"refine": "sample"}, "turns": [{"audio": {"synth": "tone"}}], "sample_rate": rate}
    ).vad
    random = np.random.default_rng(rate)
    errors: dict[str, list[float]] = {"frame": [], "user": [], "agent": []}
    for _ in range(300):
        start, length = random.integers(rate // 10, rate // 5, 2).tolist()
        sound = (
            np.sqrt(2) * np.sin(2 * np.pi * (random.uniform(100, 3400) * np.arange(length) / rate + random.random()))
            if kind == "tone"
            else random.standard_normal(length)
        )
        track = burst(sound, start, rate // 3, random.uniform(-40, -6), random)
        for name, config in (("frame", VadConfig()), ("user", refined.user), ("agent", refined.agent)):
            (segment,) = detect(track, rate, config)
            errors[name] += [segment.start_s - start / rate, segment.end_s - (start + length) / rate]
    p99_ms = {name: np.percentile(np.abs(values), 99) * 1000 for name, values in errors.items()}
    assert p99_ms["user"] <= 1
    assert p99_ms["agent"] <= 1
    assert p99_ms["frame"] > 9


def burst(sound: FloatArray, lead: int, tail: int, level_db: float, random: np.random.Generator) -> Int16Array:
    """Sound of RMS 1 at a level, between silences, over noise of -70 dBFS."""
    track = np.concatenate([np.zeros(lead), sound * db_to_amplitude(level_db), np.zeros(tail)])
    return to_int16(track + random.standard_normal(len(track)) * db_to_amplitude(-70))
