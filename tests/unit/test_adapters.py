"""Which adapter an address means, and which options it refuses."""

from datetime import date
from typing import Any

import pytest

from voicebench.adapters import BUILTIN, SCHEMES, AdapterError, adapter_for, create_adapter


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


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("headers", 5),
        ("headers", ["a"]),
        ("headers", {"X-Pin": "1\r\nX-Other: 2"}),
        ("start_message", 5),
        ("start_message", {"day": date(2026, 1, 1)}),
        ("connect_timeout_s", -1),
        ("connect_timeout_s", float("nan")),
        ("connect_timeout_s", "soon"),
        ("agent_sample_rate", float("inf")),
        ("agent_sample_rate", float("nan")),
        ("agent_sample_rate", 16000.5),
    ],
)
def test_a_bad_option_of_the_websocket_is_refused_by_name(option: str, value: Any) -> None:
    with pytest.raises(AdapterError, match=f"^websocket: option {option}: "):
        create_adapter("websocket", {option: value})


@pytest.mark.parametrize("value", [5, ["a"], {"X-Pin": "1\nX-Other: 2"}])
def test_bad_headers_of_a_registration_are_refused_by_name(value: Any) -> None:
    with pytest.raises(AdapterError, match=r"^audiosocket: option register_headers: "):
        create_adapter("audiosocket", {"register_headers": value})
