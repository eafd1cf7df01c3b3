"""Audio files and resampling."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from voicebench.audio import synth
from voicebench.audio.files import AudioFileError, read_audio, write_stereo, write_wav
from voicebench.audio.pcm import rms_db
from voicebench.audio.resample import resample


def test_wav_survives_a_round_trip_bit_for_bit(tmp_path: Path) -> None:
    audio = np.array([0, 1, -1, 32767, -32768], dtype=np.int16)
    write_wav(tmp_path / "a.wav", audio, 16000)
    assert read_audio(tmp_path / "a.wav", 16000).tolist() == audio.tolist()
    info = soundfile.info(str(tmp_path / "a.wav"))
    assert (info.samplerate, info.channels, info.subtype) == (16000, 1, "PCM_16")


@pytest.mark.parametrize(
    ("name", "subtype"),
    [("a.wav", "PCM_U8"), ("a.wav", "PCM_24"), ("a.wav", "PCM_32"), ("a.wav", "FLOAT"), ("a.flac", "PCM_16")],
)
def test_other_formats_read_the_same_within_their_precision(tmp_path: Path, name: str, subtype: str) -> None:
    audio = synth.tone(100, 16000)
    soundfile.write(str(tmp_path / name), audio / 32768, 16000, subtype=subtype)
    difference = read_audio(tmp_path / name, 16000).astype(int) - audio
    assert np.abs(difference).max() <= (256 if subtype == "PCM_U8" else 0)


def test_channels_are_averaged(tmp_path: Path) -> None:
    stereo = np.array([[100, 300], [-100, -300]], dtype=np.int16)
    soundfile.write(str(tmp_path / "a.wav"), stereo, 16000)
    assert read_audio(tmp_path / "a.wav", 16000).tolist() == [200, -200]


def test_files_are_resampled_to_the_rate_asked_for(tmp_path: Path) -> None:
    write_wav(tmp_path / "a.wav", synth.tone(500, 44100, 440, -20), 44100)
    audio = read_audio(tmp_path / "a.wav", 16000)
    assert len(audio) == 8000
    assert rms_db(audio) == pytest.approx(-20, abs=0.05)


@pytest.mark.parametrize(("from_hz", "to_hz"), [(16000, 24000), (24000, 16000), (8000, 16000), (44100, 16000)])
def test_resampling_keeps_time_and_level(from_hz: int, to_hz: int) -> None:
    track = np.concatenate([synth.silence(500, from_hz), synth.tone(200, from_hz), synth.silence(300, from_hz)])
    out = resample(track, from_hz, to_hz)
    assert out.dtype == np.int16
    assert len(out) == to_hz
    loud = np.flatnonzero(np.abs(out.astype(int)) > 1000) / to_hz
    assert loud[0] == pytest.approx(0.5, abs=0.005)
    assert loud[-1] == pytest.approx(0.7, abs=0.005)
    assert rms_db(out) == pytest.approx(rms_db(track), abs=0.05)


def test_resampling_to_the_same_rate_changes_nothing() -> None:
    audio = synth.noise(100, 16000)
    assert resample(audio, 16000, 16000) is audio
    assert len(resample(audio[:0], 16000, 8000)) == 0


def test_what_is_no_audio_is_one_line_that_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_text("no audio\nat all")
    for name in ("a.wav", "missing.wav"):
        with pytest.raises(AudioFileError, match=name) as caught:
            read_audio(tmp_path / name, 16000)
        assert "\n" not in str(caught.value)


def test_samples_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    soundfile.write(str(tmp_path / "a.wav"), np.array([0.0, np.nan]), 16000, subtype="FLOAT")
    with pytest.raises(AudioFileError, match="no numbers"):
        read_audio(tmp_path / "a.wav", 16000)


def test_stereo_fills_the_shorter_side_with_silence(tmp_path: Path) -> None:
    write_stereo(tmp_path / "a.wav", np.array([1, 2, 3], dtype=np.int16), np.array([9], dtype=np.int16), 16000)
    audio, _ = soundfile.read(str(tmp_path / "a.wav"), dtype="int16")
    assert audio.tolist() == [[1, 9], [2, 0], [3, 0]]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.wav"
    write_wav(path, synth.tone(10, 8000), 8000)
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("wave.Wave_write.writeframes", full)
    with pytest.raises(OSError, match="No space left"):
        write_wav(path, synth.tone(500, 8000), 8000)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_shape_that_contradicts_the_channels_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="2 channel"):
        write_wav(tmp_path / "a.wav", np.zeros(3, dtype=np.int16), 8000, channels=2)
