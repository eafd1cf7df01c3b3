"""Statistics over the values of one metric (VB17).

Conventions
-----------
- Values are floats in the metric's own unit, in any order: no result depends on the order.
- A statistic of no values is None, never 0.

Metrics
-------
percentile    linear interpolation between the two nearest ranks (VB17; "type 7" of Hyndman and Fan 1996)
mean          the correctly rounded sum, divided by the count
distribution  count, min, p50, p90, p95, p99, max, mean, and how many values are missing and why
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np


def percentile(values: Sequence[float], q: float) -> float | None:
    """The ``q``-th percentile (0-100) by linear interpolation, or None without values (VB17)."""
    if not len(values):
        return None
    return float(np.percentile(np.asarray(values, dtype=np.float64), q))


def mean(values: Sequence[float]) -> float | None:
    """The arithmetic mean, or None without values. Exact sums make it the same in any order."""
    if not len(values):
        return None
    return math.fsum(values) / len(values)


def distribution(values: Sequence[float], *, missed: int = 0, void: int = 0, digits: int = 1) -> dict[str, Any]:
    """The block that the summary holds per metric: statistics rounded to ``digits`` decimals.

    ``missed`` and ``void`` say how many values are not there because the agent did not deliver, and because the
    harness disturbed the measurement.
    """

    def rounded(value: float | None) -> float | None:
        return None if value is None else round(value, digits) + 0.0  # never -0.0

    empty = not len(values)
    return {
        "count": len(values),
        "min": None if empty else rounded(min(values)),
        "p50": rounded(percentile(values, 50)),
        "p90": rounded(percentile(values, 90)),
        "p95": rounded(percentile(values, 95)),
        "p99": rounded(percentile(values, 99)),
        "max": None if empty else rounded(max(values)),
        "mean": rounded(mean(values)),
        "missed": missed,
        "void": void,
    }
