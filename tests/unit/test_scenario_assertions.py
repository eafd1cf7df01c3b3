"""The grammar of assertions (VB18, VB23)."""

import math

import pytest

from voicebench.scenario import Assertion, parse_assertion
from voicebench.scenario.assertions import known_keys

VB23 = {
    "max_response_latency_ms": ("response_latency_ms", "max"),
    "p50_response_latency_ms": ("response_latency_ms", "p50"),
    "p90_response_latency_ms": ("response_latency_ms", "p90"),
    "p50_ttfa_ms": ("ttfa_ms", "p50"),
    "max_barge_in_stop_ms": ("barge_in_stop_ms", "max"),
    "min_barge_in_success_rate": ("barge_in_success_rate", "value"),
    "max_false_barge_ins": ("false_barge_ins", "value"),
    "max_missed_responses": ("missed_responses", "value"),
    "max_wer": ("mean_wer", "value"),
}


@pytest.mark.parametrize("key", VB23)
def test_the_keys_of_vb23_keep_their_meaning(key: str) -> None:
    metric, statistic = VB23[key]
    assert parse_assertion(key, 1) == Assertion(key, metric, statistic, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("statistic", ["min", "p50", "p90", "p95", "p99", "max", "mean"])
def test_a_distribution_takes_every_statistic(statistic: str) -> None:
    parsed = parse_assertion(f"{statistic}_ttfa_ms", 500)
    assert (parsed.metric, parsed.statistic) == ("ttfa_ms", statistic)
    assert parsed.is_floor == (statistic == "min")


@pytest.mark.parametrize("key", known_keys())
def test_every_known_key_parses_and_prints_itself(key: str) -> None:
    assert str(parse_assertion(key, 0.5)) == f"{key} {'>=' if key.startswith('min_') else '<='} 0.5"


def test_the_limit_itself_is_allowed() -> None:
    ceiling, floor = parse_assertion("max_ttfa_ms", 500), parse_assertion("min_barge_in_success_rate", 0.9)
    assert [ceiling.holds(value) for value in (499, 500, 500.1)] == [True, True, False]
    assert [floor.holds(value) for value in (0.89, 0.9, 1)] == [False, True, True]


@pytest.mark.parametrize("key", ["max_ttfa_ms", "min_barge_in_success_rate"])
@pytest.mark.parametrize("value", [None, math.nan])
def test_a_value_that_does_not_exist_never_holds(key: str, value: float | None) -> None:
    assert not parse_assertion(key, 0).holds(value)


def test_a_near_miss_is_told_what_was_meant() -> None:
    with pytest.raises(
        ValueError, match=r"^'p90_response_latency' is not an assertion; did you mean 'p90_response_la"
    ):
        parse_assertion("p90_response_latency", 1)


@pytest.mark.parametrize("key", ["p42_ttfa", "mean_missed", "", "max_", "zzz"])
def test_nonsense_is_told_the_grammar(key: str) -> None:
    with pytest.raises(ValueError, match="is not an assertion"):
        parse_assertion(key, 1)


def test_a_single_figure_has_no_percentiles() -> None:
    with pytest.raises(ValueError, match="is not an assertion"):
        parse_assertion("p90_missed_responses", 1)
