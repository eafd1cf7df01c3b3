"""The live detectors of many calls, fed in one go.

Computing the energies of one call's frame costs 14 us in numpy, of a frame in a batch of hundreds 0.2 us.
"""

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from voicebench.audio.pcm import frame_energy
from voicebench.runner.conversation import Conversation


def hear_all(batch: Sequence[tuple[Conversation, memoryview]]) -> None:
    """Give each conversation the energies of what it has not heard yet (see ``Conversation.unheard``)."""
    if len(batch) > 1:
        batch = sorted(batch, key=_frame_length)
    for length, group in groupby(batch, key=_frame_length):
        members = list(group)
        samples = np.frombuffer(b"".join(heard for _, heard in members), dtype="<i2")
        energies = frame_energy(samples.reshape(-1, length)).tolist()  # plain floats: several times faster to look at
        start = 0
        for conversation, heard in members:
            stop = start + len(heard) // (2 * length)
            conversation.hear(energies[start:stop])
            start = stop


def _frame_length(member: tuple[Conversation, memoryview]) -> int:
    return member[0].detector_frame
