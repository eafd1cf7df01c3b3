"""What a call of two minutes costs while it runs, and when it has ended."""

import tracemalloc
from collections.abc import Iterator

import numpy as np
import pytest

from voicebench.adapters import create_adapter
from voicebench.runner.conversation import Conversation
from voicebench.runner.session import Call
from voicebench.scenario import parse_scenario

MIB = 2**20
FRAMES = 120 * 50
TURNS = 23
SCENARIO = parse_scenario(
    {
        "name": "two-minutes",
        "turns": [
            {
                "audio": {"synth": "tone", "duration_ms": 2000},
                "start": {"after": "previous_turn_end", "delay_ms": 3000},
            }
        ]
        * TURNS,
    }
)
#: Shared by all callers, as rendered prompts are.
PROMPT = [bytes(640)] * 100


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def two_minutes() -> Conversation:
    """A call whose agent never falls silent: 50 frames a second each way."""
    random = np.random.default_rng(1)
    pcm = random.integers(-3000, 3000, 320).astype("<i2").tobytes()
    conversation = Conversation(SCENARIO, [PROMPT] * TURNS, bytes(640), [32000] * TURNS, 16000)
    for frame in range(FRAMES):
        due_ns = frame * 20_000_000
        conversation.tick(frame)
        conversation.mark_sent(frame, due_ns + 100_000)
        conversation.audio(pcm, due_ns + 1_000_000, due_ns + 1_100_000)
    return conversation


@pytest.mark.usefixtures("traced")
def test_a_running_call_of_two_minutes_holds_at_most_5_mib_and_its_record_at_most_8() -> None:
    before, _ = tracemalloc.get_traced_memory()
    conversation = two_minutes()
    held, most = tracemalloc.get_traced_memory()
    # The agent's track takes 3.7 MiB; the caller's is put together from the shared prompts when the call has ended.
    assert (held - before) / MIB <= 5
    assert (most - before) / MIB <= 8, "a buffer that doubles its size takes the old one and the new one at once"

    call = Call(SCENARIO, create_adapter("mock"), realtime=True)
    call._conversation = conversation
    record = call._make_record()
    assert record.duration == 120.0
    assert record.user_track.dtype == record.agent_track.dtype == np.int16
    arrays = [record.user_track, record.agent_track, record.sent, *vars(record.packets).values()]
    assert sum(array.nbytes for array in arrays if isinstance(array, np.ndarray)) / MIB <= 8
