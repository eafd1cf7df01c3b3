"""G.711: exact against what the standard's tables say, and the band of a telephone."""

import numpy as np
import pytest

from voicebench.audio import g711, synth
from voicebench.audio.pcm import Int16Array, rms_db

ALL = np.arange(65536).astype(np.uint16).view(np.int16)


@pytest.mark.parametrize(
    ("law", "sample", "heard"),
    [
        ("pcmu", 0, 0),
        ("pcmu", 8, 8),
        ("pcmu", 1000, 988),
        ("pcmu", 32767, 32124),
        ("pcmu", -32768, -32124),
        ("pcma", 0, 8),
        ("pcma", -1, -8),
        ("pcma", 1000, 1008),
        ("pcma", 32767, 32256),
        ("pcma", -32768, -32256),
    ],
)
def test_samples_come_out_as_in_the_standard(law: g711.Law, sample: int, heard: int) -> None:
    assert g711.companded(np.array([sample], dtype=np.int16), law)[0] == heard


@pytest.mark.parametrize("law", ["pcma", "pcmu"])
def test_all_samples_together(law: g711.Law) -> None:
    out = g711.companded(ALL, law)
    assert len(np.unique(out)) == (256 if law == "pcma" else 255)  # mu-law has a plus and a minus 0
    assert (g711.companded(out, law) == out).all()  # a second line in the path changes nothing
    loud = np.abs(ALL.astype(int)) > 1000
    assert (np.abs(out.astype(int) - ALL)[loud] / np.abs(ALL.astype(int))[loud]).max() < 0.04
    order = np.argsort(ALL)
    assert (np.diff(out[order].astype(int)) >= 0).all()


def test_a_line_keeps_the_voice_and_what_lies_above_its_band_is_gone() -> None:
    def left_db(hz: float) -> float:
        tone: Int16Array = synth.tone(1000, 16000, hz, -20)
        return rms_db(g711.through(tone, 16000, "pcma")) + 20

    assert left_db(1000) == pytest.approx(0, abs=0.2)
    assert left_db(6000) < -30
