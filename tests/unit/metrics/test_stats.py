"""Statistics by hand, and histograms that add up."""

import random
from array import array

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from voicebench.metrics.histogram import Histogram, middle_ms
from voicebench.metrics.stats import distribution, mean, percentile


def test_percentiles_lie_on_the_line_between_ranks_vb17() -> None:
    values = [40.0, 10.0, 20.0, 30.0]
    assert percentile(values, 0) == 10.0
    assert percentile(values, 50) == 25.0
    assert percentile(values, 90) == pytest.approx(37.0)  # rank 2.7
    assert percentile(values, 100) == 40.0
    assert percentile([], 50) is None


def test_a_distribution_without_values_has_no_statistics() -> None:
    empty = distribution([], missed=3, void=1)
    assert empty == {
        **dict.fromkeys(("min", "p50", "p90", "p95", "p99", "max", "mean")),
        "count": 0,
        "missed": 3,
        "void": 1,
    }


def test_a_distribution_rounds_to_a_tenth_unless_told_otherwise() -> None:
    values = array("d", [0.12345, 0.2])
    assert distribution(values)["mean"] == 0.2
    assert distribution(values, digits=4) == {
        "count": 2,
        "min": 0.1235,
        "p50": 0.1617,
        "p90": 0.1923,
        "p95": 0.1962,
        "p99": 0.1992,
        "max": 0.2,
        "mean": 0.1617,
        "missed": 0,
        "void": 0,
    }
    assert str(distribution([-0.01])["mean"]) == "0.0"


@given(st.lists(st.floats(-1e6, 1e6), min_size=1), st.randoms(use_true_random=False))
def test_no_statistic_depends_on_the_order(values: list[float], shuffler: random.Random) -> None:
    shuffled = values.copy()
    shuffler.shuffle(shuffled)
    assert distribution(shuffled, digits=12) == distribution(values, digits=12)


def test_the_mean_adds_exactly() -> None:
    assert mean([1e16, 1.0, -1e16]) == 1 / 3


def test_histogram_bins_are_where_the_text_puts_them() -> None:
    values = [0.0, 0.0009, 0.001, 0.00102, -0.001, 1.0, float("nan")]
    assert Histogram.of(values).to_dict() == {"-1": 1, "0": 2, "1": 1, "2": 1, "695": 1}
    assert 0.001 * 1.01**694 <= 1.0 < 0.001 * 1.01**695


@given(st.floats(0.001, 1e7), st.sampled_from([1, -1]))
def test_a_value_comes_back_within_half_a_per_cent(size: float, sign: int) -> None:
    value = sign * size
    assert Histogram.of([value]).quantile(50) == pytest.approx(value, rel=0.00501)


@given(st.lists(st.lists(st.floats(-100, 100)), min_size=1, max_size=5))
def test_histograms_of_parts_add_up_to_the_histogram_of_all(parts: list[list[float]]) -> None:
    total = Histogram()
    for part in parts:
        total.merge(Histogram.from_dict(Histogram.of(part).to_dict()))
    assert total == Histogram.of([value for part in parts for value in part])
    assert total.total == sum(len(part) for part in parts)


@given(st.lists(st.floats(0.01, 1e4), min_size=1), st.sampled_from([0.0, 50.0, 99.0, 100.0]))
def test_a_quantile_is_within_half_a_per_cent_of_the_exact_one(values: list[float], q: float) -> None:
    assert Histogram.of(values).quantile(q) == pytest.approx(float(np.percentile(values, q)), rel=0.00501)


def test_an_empty_histogram_has_no_quantile() -> None:
    assert Histogram().quantile(99) is None
    assert Histogram.from_dict({"5": 0}) == Histogram()
    assert middle_ms(0) == 0.0


@pytest.mark.parametrize(
    ("data", "problem"), [({"x": 1}, "'x' is not a bin"), ({"3": -1}, "bin 3 holds -1"), ({"3": 1.5}, "holds 1.5")]
)
def test_what_is_no_histogram_is_refused(data: dict[str, int], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Histogram.from_dict(data)
