"""The validation matrix on the virtual clock: and with a metric broken on purpose (TV13)."""

import dataclasses
from typing import Any

import pytest

from voicebench.adapters import AdapterError
from voicebench.metrics import delivery, signal
from voicebench.metrics.results import BargeIn, Continuity, Playout
from voicebench.validation import METRICS, ROWS, Limit, Matrix, check, ranges, table, to_dict, validate
from voicebench.validation import matrix as matrix_module


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return validate("mock", 1)


def test_every_defect_moves_its_own_metrics_and_leaves_the_others(matrix: Matrix) -> None:
    assert matrix.problems == ()
    assert matrix.passed
    assert matrix.valid
    assert [each.row for each in matrix.rows] == list(ROWS)


def test_the_rows_that_tvbench_published_are_reproduced_within_a_frame(matrix: Matrix) -> None:
    value = {each.row.name: each.value for each in matrix.rows}
    assert value["paced"]("opening") == pytest.approx(421, abs=21)
    assert value["paced"]("burst") == 2
    assert value["paced"]("ratio") == pytest.approx(1.0, abs=0.01)
    assert value["paced"]("hole") == pytest.approx(21, abs=20)
    assert value["burst"]("burst") == 300
    assert value["gappy"]("hole") == pytest.approx(520, abs=20)
    assert value["deaf"]("cut") == pytest.approx(4974, abs=20)


def test_the_bursting_agent_has_the_better_hole(matrix: Matrix) -> None:
    paced, burst = matrix.rows[0], matrix.rows[1]
    assert (paced.value("hole"), burst.value("hole")) == (20, 0)


#: Each breaks one metric: the function to replace, what by, and the defect that nobody sees any more.
BROKEN: dict[str, tuple[Any, str, Any, str]] = {
    "worst burst": (delivery, "worst_burst_frames", lambda _arrived: 2, "burst"),
    "longest hole": (delivery, "continuity", lambda *_: Continuity(worst_gap_ms=20.0), "gappy"),
    "backlog": (delivery, "playout", lambda *_: Playout(backlog_growth_ms=0.0), "fast"),
    "cut": (delivery, "barge_in", lambda *_: BargeIn("turn-1", "ok", cut_ms=97.0), "deaf"),
    "clicks": (matrix_module, "sound", None, "crackle"),
}


@pytest.mark.parametrize("metric", BROKEN)
def test_a_metric_that_is_broken_on_purpose_is_noticed(metric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, name, broken, defect = BROKEN[metric]
    if broken is None:
        whole = signal.sound
        monkeypatch.setattr(module, name, lambda *a: dataclasses.replace(whole(*a), clicks_per_s=0.0))
    else:
        monkeypatch.setattr(module, name, broken)
    row = next(row for row in ROWS if row.name == defect)
    result = validate("mock", 1, [ROWS[0], row])
    assert not result.passed
    assert any(f"gone blind to {defect!r}: {metric} is" in str(problem) for problem in result.problems)


def test_a_defect_that_moves_what_is_anothers_is_named() -> None:
    both = dataclasses.replace(ROWS[0], name="gappy", options={"gap_ms": 500, "quiet_db": 15}, own=ROWS[2].own)
    (problem,) = (line for line in validate("mock", 1, [ROWS[0], both]).problems if "level" in str(line))
    assert str(problem) == "'gappy' moved another's metric: level is -35.0, should be near -20.0 dBFS as of 'paced'"


def test_what_the_harness_disturbed_is_not_held_against_a_defect() -> None:
    (paced,) = validate("mock", 1, [ROWS[0]]).rows
    gone = dataclasses.replace(paced, values={**paced.values, "cut": ()}, void=frozenset({"cut"}))
    assert list(map(str, check([gone]))) == ["paced: could not be measured, since this machine was too busy: cut"]


def test_limits_print_themselves_and_hold() -> None:
    assert str(Limit(low=1500, times_base=3)) == "over 1500 and over 3 times its base"
    assert Limit(low=1500, times_base=3).holds(1600, 500)
    assert not Limit(low=1500, times_base=3).holds(1600, 600)
    assert not Limit(low=20).holds(20, None)
    assert not Limit(low=20).holds(None, None)
    assert Limit(absent=True).holds(None, 400)
    assert not Limit(absent=True).holds(0.0, 400)


def test_the_table_marks_what_each_row_is_to_move(matrix: Matrix) -> None:
    lines = table(matrix).splitlines()
    assert len(lines) == 2 + len(ROWS)
    burst = next(line for line in lines if line.startswith("burst"))
    assert "300*" in burst
    assert burst.count("*") == 2
    assert "gappy: longest hole 520 (520 to 520) ms" in ranges(matrix)


def test_the_figures_travel_as_json(matrix: Matrix) -> None:
    data = to_dict(matrix)
    assert (data["transport"], data["runs"], data["passed"]) == ("mock", 1, True)
    gappy = next(row for row in data["rows"] if row["defect"] == "gappy")
    assert gappy["median"].keys() == METRICS.keys()
    assert gappy["median"]["hole"] == {"median": 520, "min": 520, "max": 520, "n": 1}
    assert gappy["options"]["gap_ms"] == 500


def test_an_agent_that_does_not_start_says_so() -> None:
    bad = dataclasses.replace(ROWS[0], options={"no_such_option": 1})
    with pytest.raises(AdapterError, match="no_such_option"):
        validate("mock", 1, [bad])
