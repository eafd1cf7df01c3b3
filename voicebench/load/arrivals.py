"""When calls begin that do not wait for each other: open arrivals, their grammar, and how workers share them.

Pure, but for reading the file that ``csv:FILE`` names.

Conventions
-----------
- Times are seconds from the start of the run, and never decrease. Rates are calls per second over the whole run.
- A schedule follows from its text and a seed alone, so that every worker can work it out by itself.
- Worker ``i`` of the ``n`` that are there at the start begins the arrivals numbered ``i``, ``i + n``, ``i + 2n``, ...
  A worker that joins later begins none.

Grammar
-------
constant:RATE          evenly spaced, the first at 0
poisson:RATE[:SEED]    gaps are independent and exponential, as of many callers who do not know of each other
ramp:FROM-TO:TIME      the rate rises or falls evenly from one to the other, then stays; TIME in s, or as 90s, 5m, 1h
csv:FILE               one time in seconds a line; a second column may name the scenario; a header is allowed
"""

import csv
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count, islice, takewhile
from pathlib import Path
from random import Random
from typing import NamedTuple

MAX_RATE = 10_000.0
_UNITS_S = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_GRAMMAR = "constant:RATE, poisson:RATE, ramp:FROM-TO:TIME, or csv:FILE"


class ArrivalsError(ValueError):
    """A schedule that makes no sense. The message is one line that says where."""


class Arrival(NamedTuple):
    """One call that is to begin. ``scenario`` is empty if the mix of the run decides."""

    number: int
    at_s: float
    scenario: str = ""


class Arrivals(ABC):
    """A schedule of calls. ``str`` of it explains it."""

    #: Whether the seed matters.
    is_random = False

    @abstractmethod
    def times(self, seed: int) -> Iterator[float]:
        """When calls begin, in s; equal seeds give equal times. May never end."""

    def scenario(self, number: int) -> str:
        """The scenario of an arrival, empty if the schedule does not say."""
        return ""

    @property
    def scenarios(self) -> Iterable[tuple[str, str]]:
        """Each scenario that the schedule names, and where it does so first."""
        return ()


@dataclass(frozen=True)
class Constant(Arrivals):
    """``rate`` calls per second, evenly spaced."""

    rate: float

    def times(self, seed: int) -> Iterator[float]:
        return (number / self.rate for number in count())

    def __str__(self) -> str:
        return f"{_calls(self.rate)} a second, evenly spaced"


@dataclass(frozen=True)
class Poisson(Arrivals):
    """``rate`` calls per second on average, each independent of the others. A seed of its own beats the run's."""

    rate: float
    seed: int | None = None
    is_random = True

    def times(self, seed: int) -> Iterator[float]:
        random = Random(seed if self.seed is None else self.seed)
        now = 0.0
        while True:
            now += random.expovariate(self.rate)
            yield now

    def __str__(self) -> str:
        return f"{_calls(self.rate)} a second on average, at random (Poisson)"


@dataclass(frozen=True)
class Ramp(Arrivals):
    """From ``first`` to ``last`` calls per second over ``time_s``, then constant; over if that is 0."""

    first: float
    last: float
    time_s: float

    def times(self, seed: int) -> Iterator[float]:
        # By t, first * t + slope * t^2 / 2 calls have begun; solved for t, in the form that survives a slope of 0.
        slope = (self.last - self.first) / self.time_s
        ramped = (self.first + self.last) / 2 * self.time_s
        for number in count():
            if number <= ramped:
                root = self.first + math.sqrt(max(0.0, self.first**2 + 2 * slope * number))
                yield 2 * number / root if number else 0.0
            elif self.last:
                yield self.time_s + (number - ramped) / self.last
            else:
                return

    def __str__(self) -> str:
        return f"{self.first:g} to {_calls(self.last)} a second over {self.time_s:g} s, then constant"


@dataclass(frozen=True)
class Listed(Arrivals):
    """The times that a file lists; ``named`` holds the scenario of each, or nothing."""

    source: str
    listed: tuple[float, ...]
    named: tuple[str, ...]
    lines: tuple[int, ...]

    def times(self, seed: int) -> Iterator[float]:
        return iter(self.listed)

    def scenario(self, number: int) -> str:
        return self.named[number]

    @property
    def scenarios(self) -> Iterable[tuple[str, str]]:
        first: dict[str, str] = {}
        for name, line in zip(self.named, self.lines, strict=True):
            if name:
                first.setdefault(name, f"{self.source}:{line}")
        return first.items()

    def __str__(self) -> str:
        calls = len(self.listed)
        return f"{calls:,} call{'' if calls == 1 else 's'} over {self.listed[-1]:g} s, as {self.source} lists them"


@dataclass(frozen=True)
class Plan:
    """The arrivals of one run, and the numbers of the workers that share them."""

    arrivals: Arrivals
    seed: int
    workers: tuple[int, ...]

    def share(self, worker: int) -> Iterator[Arrival]:
        """What this worker is to begin; nothing if it was not there at the start."""
        if worker not in self.workers:
            return iter(())
        arrivals = self.arrivals
        everything = (Arrival(n, at_s, arrivals.scenario(n)) for n, at_s in enumerate(arrivals.times(self.seed)))
        return islice(everything, self.workers.index(worker), None, len(self.workers))

    def due(self, worker: int, by_s: float) -> int:
        """How many calls this worker was to begin within the first ``by_s`` of the run."""
        return sum(1 for _ in takewhile(lambda arrival: arrival.at_s < by_s, self.share(worker)))

    def __str__(self) -> str:
        seed = self.arrivals.seed if isinstance(self.arrivals, Poisson) else None
        return f"{self.arrivals}" + (
            f", seed {self.seed if seed is None else seed}" if self.arrivals.is_random else ""
        )


def parse_arrivals(text: str) -> Arrivals:
    """A schedule from its text. Raises ArrivalsError."""
    kind, _, rest = text.strip().partition(":")
    if kind == "csv" and rest:
        return read_csv(Path(rest))
    if kind == "constant" and rest:
        return Constant(_rate(rest))
    if kind == "poisson" and rest:
        rate, colon, seed = rest.partition(":")
        if colon and not re.fullmatch(r"\d{1,18}", seed):
            raise ArrivalsError(f"{text}: {seed!r} is no seed; write a whole number")
        return Poisson(_rate(rate), int(seed) if colon else None)
    ramp = re.fullmatch(r"ramp:([^-:]+)-([^-:]+):([\d.]+)([smh]?)", text.strip())
    if ramp:
        first, last = _rate(ramp[1], zero=True), _rate(ramp[2], zero=True)
        time_s = _number(ramp[3]) * _UNITS_S[ramp[4]]
        if not 0 < time_s < math.inf or not first + last:
            raise ArrivalsError(f"{text}: a ramp takes some time, and one of its rates is above 0")
        return Ramp(first, last, time_s)
    raise ArrivalsError(f"{text!r} is no schedule of calls; write {_GRAMMAR}")


def read_csv(path: Path) -> Listed:
    """The schedule that a file lists. Raises ArrivalsError, with file and line."""
    try:
        rows = list(csv.reader(path.read_text("utf-8-sig").splitlines()))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ArrivalsError(f"{path}: cannot be read: {why}") from None
    times: list[float] = []
    named: list[str] = []
    lines: list[int] = []
    for line, row in enumerate(rows, 1):
        cells = [cell.strip() for cell in row]
        if not any(cells) or (line == 1 and math.isnan(_number(cells[0]))):  # an empty line, or the header
            continue
        at_s = _number(cells[0])
        if not 0 <= at_s < math.inf:
            raise ArrivalsError(f"{path}:{line}: {cells[0]!r} is no time in seconds from the start of the run")
        if times and at_s < times[-1]:
            raise ArrivalsError(f"{path}:{line}: {at_s:g} is before {times[-1]:g} of the line above; sort the file")
        if len(cells) > 2:
            raise ArrivalsError(f"{path}:{line}: {len(cells)} columns; write the time, and perhaps a scenario")
        times.append(at_s)
        named.append(cells[1] if len(cells) > 1 else "")
        lines.append(line)
    if not times:
        raise ArrivalsError(f"{path}:{max(1, len(rows))}: no call is listed")
    return Listed(str(path), tuple(times), tuple(named), tuple(lines))


def _rate(text: str, zero: bool = False) -> float:
    rate = _number(text)
    if not (0 < rate <= MAX_RATE or (zero and rate == 0)):
        raise ArrivalsError(f"{text!r} is no rate; write calls per second, up to {MAX_RATE:g}")
    return rate


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _calls(rate: float) -> str:
    return f"{rate:g} call{'' if rate == 1 else 's'}"
