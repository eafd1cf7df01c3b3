"""A histogram of milliseconds that many calls can share: log-spaced bins that add up exactly.

Conventions
-----------
- Bin ``0`` holds every value nearer to zero than 0.001 ms. Bin ``k > 0`` holds the values from
  ``0.001 * 1.01 ** (k - 1)`` up to (not including) ``0.001 * 1.01 ** k`` ms, so that a bin is 1 % wide and a value
  read back from it is at most 0.5 % off. Bin ``-k`` holds the negatives of bin ``k``.
- In JSON a histogram is an object from the bin (a string) to its count; empty bins are left out.
- NaN is not counted.

Counts are whole numbers, so the sum over calls is the same in any order and from any number of workers.

Sources
-------
The idea of bins of constant relative width is HdrHistogram's; the layout above is ours and complete.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

#: Values nearer to zero than this count as zero.
SMALLEST_MS = 0.001
#: Upper by lower edge of a bin.
RATIO = 1.01


@dataclass
class Histogram:
    """Counts per bin; see the module's conventions."""

    counts: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, values_ms: npt.ArrayLike) -> "Histogram":
        """Count an array of values in ms, of any shape; NaN is left out."""
        values = np.asarray(values_ms, dtype=np.float64).ravel()
        values = values[~np.isnan(values)]
        size = np.maximum(np.abs(values), SMALLEST_MS)
        index = np.floor(np.log(size / SMALLEST_MS) / np.log(RATIO)).astype(np.int64) + 1
        index[np.abs(values) < SMALLEST_MS] = 0
        bins, counts = np.unique(np.where(values < 0, -index, index), return_counts=True)
        return cls(dict(zip(bins.tolist(), counts.tolist(), strict=True)))

    @classmethod
    def from_dict(cls, data: Mapping[str, int]) -> "Histogram":
        """The inverse of ``to_dict``. Raises ValueError for what is no histogram."""
        validate(data)
        return cls({int(key): count for key, count in data.items() if count})

    def to_dict(self) -> dict[str, int]:
        """The bins in ascending order, as JSON holds them."""
        return {str(index): self.counts[index] for index in sorted(self.counts)}

    def merge(self, other: "Histogram") -> None:
        """Add the counts of another histogram to this one."""
        for index, count in other.counts.items():
            self.counts[index] = self.counts.get(index, 0) + count

    @property
    def total(self) -> int:
        """How many values were counted."""
        return sum(self.counts.values())

    def quantile(self, q: float) -> float | None:
        """The ``q``-th percentile (0-100) in ms, interpolated as in ``stats.percentile``; None if empty."""
        if not self.counts:
            return None
        bins = np.array(sorted(self.counts))
        upto = np.cumsum([self.counts[index] for index in bins.tolist()])
        rank = q / 100 * (self.total - 1)
        low, high = (int(np.searchsorted(upto, at, side="right")) for at in (np.floor(rank), np.ceil(rank)))
        below, above = middle_ms(int(bins[low])), middle_ms(int(bins[high]))
        return below + (above - below) * (rank - float(np.floor(rank)))


def middle_ms(index: int) -> float:
    """The value that stands for a bin: the geometric middle of its edges, 0 for bin 0."""
    if index == 0:
        return 0.0
    size = SMALLEST_MS * RATIO ** (abs(index) - 0.5)
    return float(np.copysign(size, index))


def validate(data: Mapping[str, int]) -> None:
    """Raise ValueError unless ``data`` maps bins (strings of whole numbers) to counts."""
    for key, count in data.items():
        if not isinstance(key, str) or not key.removeprefix("-").isdecimal():
            raise ValueError(f"histogram: {key!r} is not a bin; bins are whole numbers in quotes")
        if not isinstance(count, int) or count < 0:
            raise ValueError(f"histogram: bin {key} holds {count!r}; a count is a whole number, and not negative")
