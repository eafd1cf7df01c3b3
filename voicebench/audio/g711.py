"""G.711: what the 8-bit companding of telephone networks leaves of a signal (ITU-T G.711).

``companded`` is encoding and decoding in one: from int16 to int16, by a table of 65,536 values. A-law keeps 13 bits
of a sample, mu-law 14, in steps that grow with its size.
"""

from functools import cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from voicebench.audio.pcm import Int16Array
from voicebench.audio.resample import resample

Law = Literal["pcma", "pcmu"]  #: A-law and mu-law, by the names of their RTP payloads
RATE = 8000

_MU_BIAS, _MU_CLIP = 33, 8158


def companded(pcm: Int16Array, law: Law) -> Int16Array:
    """The samples as they come out at the other end."""
    heard: Int16Array = table(law)[pcm.astype(np.uint16)]
    return heard


def through(pcm: Int16Array, sample_rate: int, law: Law) -> Int16Array:
    """A whole track over a telephone line: down to 8 kHz, companded, and back to its own rate."""
    narrow = companded(resample(pcm, sample_rate, RATE), law)
    wide = resample(narrow, RATE, sample_rate)
    return np.pad(wide, (0, max(0, len(pcm) - len(wide))))[: len(pcm)]


@cache
def table(law: Law) -> Int16Array:
    """What becomes of each sample, indexed by it as uint16."""
    samples = np.arange(65536).astype(np.uint16).view(np.int16).astype(np.int32)
    values: Int16Array = (_a_law(samples) if law == "pcma" else _mu_law(samples)).astype(np.int16)
    values.setflags(write=False)
    return values


def _mu_law(samples: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    size = np.minimum(np.abs(samples >> 2), _MU_CLIP) + _MU_BIAS  # 14 bits
    segment = np.floor(np.log2(size)).astype(np.int32) - 5
    mantissa = (size >> (segment + 1)) & 0xF
    decoded = ((((mantissa << 1) + _MU_BIAS) << segment) - _MU_BIAS) << 2
    return _signed(decoded, samples)


def _a_law(samples: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    size = np.where(samples < 0, -(samples >> 3) - 1, samples >> 3)
    segment = np.maximum(np.floor(np.log2(np.maximum(size, 1))).astype(np.int32) - 4, 0)
    mantissa = (size >> np.maximum(segment, 1)) & 0xF
    decoded = np.where(segment == 0, (mantissa << 4) + 8, ((mantissa << 4) + 0x108) << np.maximum(segment - 1, 0))
    return _signed(decoded, samples)


def _signed(size: npt.NDArray[np.int32], like: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    signed: npt.NDArray[np.int32] = np.copysign(size, like).astype(np.int32)
    return signed
