"""Whether a long run stays flat."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from benchmarks.soak import Sample, grown, main

SAMPLE = Sample(10.0, 100.0, 0.1, 1.0, 5.0, 0.1, 0, 10)


def samples(rss_mib: Sequence[float], lag_ms: Sequence[float]) -> list[Sample]:
    return [replace(SAMPLE, rss_mib=rss, loop_lag_p50_ms=lag) for rss, lag in zip(rss_mib, lag_ms, strict=True)]


def test_what_grows_over_the_last_third_is_told() -> None:
    flat = [1.0] * 6
    assert grown(samples([50, 90, 100, 100, 100, 101], flat)) == []  # it may grow while the first calls come
    assert grown(samples([100, 100, 100, 200, 108, 108], flat)) == []
    assert grown(samples([100] * 4 + [170, 180], flat)) == ["memory grew from 100.0 to 175.0 MiB"]
    assert grown(samples([100] * 6, [1, 1, 1, 1, 4, 5])) == ["loop lag p50 grew from 1.00 to 4.50 ms"]
    assert grown(samples([100] * 6, [0.2, 0.2, 0.2, 0.2, 0.6, 0.7])) == []
    assert grown([SAMPLE]) == ["too few samples to tell"]


@pytest.mark.slow
def test_twenty_callers_stay_flat_over_three_minutes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--calls", "20", "--minutes", "3", "--every", "5"]) == 0, capsys.readouterr().out
