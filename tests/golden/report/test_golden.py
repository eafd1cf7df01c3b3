"""The reports of the handmade run, byte for byte. After a change that is meant: ``pytest --update-golden``."""

import json
from pathlib import Path

import pytest

from tests.golden.report.handmade import PROCESS, booking, handmade_calls, handmade_run
from voicebench.metrics.results import RunInfo, SessionResult, WorkerInfo
from voicebench.report.build import build_report
from voicebench.report.console import render_console
from voicebench.report.write import write_reports

HERE = Path(__file__).parent


def single_run() -> tuple[RunInfo, list[SessionResult]]:
    """One call of one scenario, as ``voicebench run`` makes it."""
    run = handmade_run(
        scenarios=handmade_run().scenarios[:1],
        workers=(WorkerInfo("local", "", 1, 1, 0, PROCESS),),
        notes=(),
        limits={},
        duration_s=18.0,
    )
    return run, [booking("call-01", 600.0, worker="local")]


def many_run() -> tuple[RunInfo, list[SessionResult]]:
    return handmade_run(), handmade_calls()


RUNS = {"many": many_run, "single": single_run}


@pytest.mark.parametrize("name", sorted(RUNS))
def test_the_reports_of_the_handmade_run_are_as_they_were(
    name: str, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    run, calls = RUNS[name]()
    report = build_report(run, calls)
    write_reports(tmp_path, report, calls)
    (tmp_path / "console.txt").write_text(render_console(report, ["out/report.html"], color=False), "utf-8")

    for path in sorted(tmp_path.iterdir()):
        golden = HERE / name / path.name
        if pytestconfig.getoption("--update-golden"):
            golden.parent.mkdir(exist_ok=True)
            golden.write_bytes(path.read_bytes())
        assert path.read_text("utf-8") == golden.read_text("utf-8"), f"{golden} differs"


def test_the_order_in_which_workers_report_changes_no_figure() -> None:
    forward, backward = (build_report(handmade_run(), calls) for calls in (handmade_calls(), handmade_calls()[::-1]))
    for name in (
        "run",
        "summary",
        "assertions",
        "by_scenario",
        "by_turn",
        "harness",
        "timeline",
        "workers",
        "failures",
    ):
        assert json.dumps(forward[name]) == json.dumps(backward[name]), name
