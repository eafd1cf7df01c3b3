"""Which adapter an address means."""

import pytest

from voicebench.adapters import BUILTIN, SCHEMES, adapter_for


@pytest.mark.parametrize(
    ("url", "own", "chosen"),
    [
        ("ws://h:1", "mock", "websocket"),
        ("audiosocket://h:1", "mock", "audiosocket"),
        ("h:1", "mock", "websocket"),  # which will say what is wrong with it
        ("tcp://h:1", "websocket", "audiosocket"),
        ("WSS://h:1", "audiosocket", "websocket"),
        ("h:1", "audiosocket", "audiosocket"),
        ("ws://h:1", "my_module:Link", "my_module:Link"),
    ],
)
def test_an_address_chooses_among_the_adapters_that_are_known_by_their_scheme(
    url: str, own: str, chosen: str
) -> None:
    assert adapter_for(url, own) == chosen


def test_every_scheme_means_an_adapter_that_there_is() -> None:
    assert set(SCHEMES.values()) <= BUILTIN.keys()
