"""The spread of scenarios over callers."""

from collections import Counter

import pytest

from voicebench.load.mix import Mix


@pytest.mark.parametrize("seed", range(8))
def test_any_hundred_picks_hold_each_scenario_in_its_share(seed: int) -> None:
    mix = Mix([3, 1], seed)
    picks = [mix.pick() for _ in range(1000)]
    for start in range(900):
        assert abs(Counter(picks[start : start + 100])[0] - 75) <= 3


def test_a_few_picks_already_hold_all_scenarios() -> None:
    mix = Mix([1, 1, 1])
    assert {mix.pick() for _ in range(5)} == {0, 1, 2}


def test_equal_seeds_give_equal_orders_and_different_ones_do_not() -> None:
    def order(seed: int) -> list[int]:
        mix = Mix([2, 1, 1], seed)
        return [mix.pick() for _ in range(50)]

    assert order(3) == order(3)
    assert order(0) != order(1)


def test_one_scenario_is_always_picked() -> None:
    mix = Mix([0.25])
    assert {mix.pick() for _ in range(100)} == {0}
