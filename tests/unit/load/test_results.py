"""From a record to a result on a worker: what is kept, and that nothing is lost on the way."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.unit.metrics.builders import agent_call, stream
from voicebench.bench import Record
from voicebench.load.results import measured
from voicebench.metrics import measure
from voicebench.runner.evidence import read_evidence

FINE = agent_call(stream(2.0, 3.0), [(0.5, 1.5)])
SILENT = agent_call((), [(0.5, 1.5)])


def test_nothing_is_kept_unless_asked_for(tmp_path: Path) -> None:
    result = measured(FINE, "w1", ("none", "none"), tmp_path, scheduled_at=5.0)

    assert result == replace(measure(FINE, worker="w1"), scheduled_at=5.0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("keep", "fine", "silent"), [("all", True, True), ("failed", False, True)])
def test_evidence_is_kept_of_all_calls_or_of_those_that_failed(
    keep: Record, fine: bool, silent: bool, tmp_path: Path
) -> None:
    results = [measured(record, "w1", ("none", keep), tmp_path) for record in (FINE, SILENT)]

    assert [result.frames is not None for result in results] == [fine, silent]
    assert results[1].frames is not None
    assert measure(read_evidence(tmp_path / results[1].frames)).metrics == results[1].metrics


def test_a_call_that_cannot_be_measured_is_recorded_and_leaves_its_evidence(tmp_path: Path) -> None:
    broken = replace(FINE, windows=(*FINE.windows, *FINE.windows))
    result = measured(broken, "w1", ("all", "all"), tmp_path, scheduled_at=5.0)

    assert (result.outcome, result.metrics, result.scheduled_at) == ("failed", None, 5.0)
    assert result.reason.startswith("measurement error: ValueError: record of call call-1: 2 turns played of 1")
    assert result.frames == "frames/call-1.npz"


def test_a_full_disk_costs_the_evidence_and_not_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    result = measured(FINE, "w1", ("none", "all"), tmp_path)

    assert result == measure(FINE, worker="w1")
    assert "evidence of call call-1: [Errno 28] No space left on device" in capsys.readouterr().err
