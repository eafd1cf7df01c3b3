"""Which caller plays which scenario: a deterministic spread by weight."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

# Multiples of the golden ratio, modulo 1, fill the interval as evenly as a sequence can: any run of n picks holds
# each scenario in its share, give or take one or two. A second irrational number spreads where workers start.
_STEP = 0.6180339887498949
_OFFSET = 0.7548776662466927


class Mix:
    """Hands out indices of scenarios in the proportion of their weights.

    ``seed`` (the worker's number) fixes the order; equal seeds give equal orders.
    """

    def __init__(self, weights: Sequence[float], seed: int = 0) -> None:
        self._bounds = list(accumulate(weights))
        self._at = (seed * _OFFSET) % 1.0

    def pick(self) -> int:
        """The index of the next scenario."""
        place = self._at * self._bounds[-1]
        self._at = (self._at + _STEP) % 1.0
        return min(bisect_right(self._bounds, place), len(self._bounds) - 1)
