"""Schedules of open arrivals: their rate, their randomness, their file, and how workers share them."""

import math
from collections import Counter
from itertools import islice, takewhile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voicebench.load.arrivals import Arrivals, ArrivalsError, Constant, Plan, Poisson, Ramp, parse_arrivals, read_csv


def times_before(arrivals: Arrivals, seconds: float, seed: int = 1) -> list[float]:
    return list(takewhile(lambda at_s: at_s < seconds, arrivals.times(seed)))


def test_a_constant_rate_is_evenly_spaced_from_the_start() -> None:
    assert list(islice(Constant(4).times(0), 5)) == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert len(times_before(Constant(5), 8)) == 40


@pytest.mark.parametrize("rate", [0.5, 7, 33.3, 500])
def test_a_constant_rate_is_kept_within_one_per_cent_over_twenty_seconds(rate: float) -> None:
    assert len(times_before(Constant(rate), 20)) == pytest.approx(20 * rate, rel=0.01)


def test_gaps_of_a_poisson_process_are_exponential_and_follow_from_the_seed() -> None:
    times = list(islice(Poisson(50).times(7), 20_000))
    gaps = sorted(b - a for a, b in zip([0.0, *times], times, strict=False))
    mean = math.fsum(gaps) / len(gaps)
    variance = math.fsum((gap - mean) ** 2 for gap in gaps) / len(gaps)
    assert mean == pytest.approx(0.02, rel=0.02)
    assert variance == pytest.approx(0.02**2, rel=0.05)
    # Kolmogorov and Smirnov: the largest distance to 1 - exp(-50 t) stays under the bound of 1 % for 20,000 values.
    distance = max(abs((n + 0.5) / len(gaps) - (1 - math.exp(-50 * gap))) for n, gap in enumerate(gaps))
    assert distance < 1.63 / math.sqrt(len(gaps))
    assert times == list(islice(Poisson(50).times(7), 20_000))
    assert times != list(islice(Poisson(50).times(8), 20_000))
    assert times == list(islice(Poisson(50, seed=7).times(8), 20_000))


def test_a_ramp_rises_evenly_and_then_stays() -> None:
    ramp = Ramp(1, 20, 60)
    times = times_before(ramp, 120)
    per_ten_s = Counter(int(at_s // 10) for at_s in times)
    # The rate is 1 + 19 t / 60: its integral over the first ten seconds is 25.8, over the sixth 184.2.
    assert per_ten_s[0] == pytest.approx(25.8, abs=1)
    assert per_ten_s[5] == pytest.approx(184.2, abs=1)
    assert [per_ten_s[ten] for ten in range(6, 12)] == pytest.approx([200] * 6, abs=1)
    assert times == sorted(times)


def test_a_ramp_may_fall_to_nothing() -> None:
    times = list(Ramp(10, 0, 4).times(0))
    assert len(times) == 21  # 10 * 4 / 2, the last of them at the very end
    assert (times[0], times[-1]) == (0.0, 4.0)
    assert times == sorted(times)


def test_a_ramp_without_a_slope_is_constant() -> None:
    assert list(islice(Ramp(4, 4, 1).times(0), 9)) == list(islice(Constant(4).times(0), 9))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("constant:1", "1 call a second, evenly spaced"),
        ("constant:2.5", "2.5 calls a second, evenly spaced"),
        ("poisson:5", "5 calls a second on average, at random (Poisson), seed 3"),
        ("poisson:5:42", "5 calls a second on average, at random (Poisson), seed 42"),
        ("ramp:1-20:60s", "1 to 20 calls a second over 60 s, then constant"),
        ("ramp:0-0.5:2m", "0 to 0.5 calls a second over 120 s, then constant"),
    ],
)
def test_a_schedule_explains_itself(text: str, words: str) -> None:
    assert str(Plan(parse_arrivals(text), 3, (0,))) == words


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("5", "'5' is no schedule of calls; write constant:RATE, poisson:RATE"),
        ("constant", "is no schedule"),
        ("konstant:5", "is no schedule"),
        ("constant:0", "'0' is no rate; write calls per second"),
        ("constant:-1", "is no rate"),
        ("constant:nan", "is no rate"),
        ("constant:inf", "is no rate"),
        ("constant:fast", "'fast' is no rate"),
        ("poisson:5:x", "'x' is no seed"),
        ("ramp:1-20", "is no schedule"),
        ("ramp:0-0:5s", "one of its rates is above 0"),
        ("ramp:1-2:0s", "takes some time"),
        ("csv:/nowhere.csv", "/nowhere.csv: cannot be read: No such file or directory"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(text: str, why: str) -> None:
    with pytest.raises(ArrivalsError) as error:
        parse_arrivals(text)
    assert why in str(error.value)
    assert "\n" not in str(error.value)


def csv_file(directory: Path, text: str) -> Path:
    path = directory / "calls.csv"
    path.write_text(text)
    return path


def test_a_file_lists_times_and_perhaps_scenarios(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "time_s, scenario\n0\n0.5, booking\n\n0.5,cancel\n12.25,booking\n")
    listed = read_csv(path)
    plan = Plan(listed, 1, (0,))
    assert [(arrival.at_s, arrival.scenario) for arrival in plan.share(0)] == [
        (0.0, ""),
        (0.5, "booking"),
        (0.5, "cancel"),
        (12.25, "booking"),
    ]
    assert dict(listed.scenarios) == {"booking": f"{path}:3", "cancel": f"{path}:5"}
    assert str(plan) == f"4 calls over 12.25 s, as {path} lists them"


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("0\nsoon\n", 2, "'soon' is no time in seconds"),
        ("time\n-1\n", 2, "'-1' is no time"),
        ("0\ninf\n", 2, "'inf' is no time"),
        ("1\n\n0.5\n", 3, "0.5 is before 1 of the line above; sort the file"),
        ("0,booking,now\n", 1, "3 columns"),
        ("time\n", 1, "no call is listed"),
        ("", 1, "no call is listed"),
    ],
)
def test_a_bad_file_is_refused_with_its_line(tmp_path: Path, text: str, line: int, why: str) -> None:
    path = csv_file(tmp_path, text)
    with pytest.raises(ArrivalsError) as error:
        read_csv(path)
    assert str(error.value).startswith(f"{path}:{line}: ")
    assert why in str(error.value)


@given(st.sets(st.integers(0, 50), min_size=1, max_size=9), st.integers(0, 2**32), st.floats(0.1, 100))
def test_shares_of_workers_are_the_whole_schedule_and_nothing_twice(
    workers: set[int], seed: int, rate: float
) -> None:
    plan = Plan(Poisson(rate), seed, tuple(sorted(workers)))
    whole = list(islice(Poisson(rate).times(seed), 90))
    shares = [list(islice(plan.share(worker), 90)) for worker in plan.workers]
    merged = sorted(arrival for share in shares for arrival in share)
    assert [arrival.at_s for arrival in merged[:90]] == whole
    assert [arrival.number for arrival in merged[:90]] == list(range(90))


def test_a_worker_that_came_later_has_no_share() -> None:
    plan = Plan(Constant(10), 0, (0, 2))
    assert list(plan.share(1)) == []
    assert [arrival.at_s for arrival in islice(plan.share(2), 3)] == [0.1, 0.3, 0.5]
    assert [plan.due(worker, 1.05) for worker in (0, 1, 2)] == [6, 0, 5]
