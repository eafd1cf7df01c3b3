"""The validation matrix over sockets, and its command."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from voicebench.exits import Exit
from voicebench.validation import ROWS, validate


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "voicebench", "validate-harness", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


def test_the_harness_sees_defects_of_delivery_over_websockets() -> None:
    rows = ROWS[:10]  # those of timing: one batch
    matrix = validate("websocket", 1, rows, attempts=2)
    if not matrix.valid:
        pytest.skip(f"this machine was too busy to measure: {matrix.problems[0]}")
    assert matrix.problems == ()
    assert [each.row for each in matrix.rows] == list(rows)


@pytest.mark.slow
def test_the_command_measures_the_whole_matrix(tmp_path: Path) -> None:
    out = tmp_path / "matrix.json"
    done = run("--transport", "websocket", "--runs", "5", "--out", str(out))
    assert done.returncode == Exit.OK, done.stdout + done.stderr
    assert "websocket: every defect moves its own metrics, and leaves the others" in done.stdout
    (matrix,) = json.loads(out.read_text())
    assert [row["defect"] for row in matrix["rows"]] == [row.name for row in ROWS]


def test_the_harness_sees_the_modes_of_tv12_over_audiosocket_tv14() -> None:
    matrix = validate("audiosocket", 1, ROWS[:4], attempts=2)
    if not matrix.valid:
        pytest.skip(f"this machine was too busy to measure: {matrix.problems[0]}")
    assert matrix.problems == ()
    assert [each.row.name for each in matrix.rows] == ["paced", "burst", "gappy", "deaf"]


def test_the_command_refuses_a_file_in_no_directory(tmp_path: Path) -> None:
    done = run("--transport", "mock", "--out", str(tmp_path / "nowhere" / "matrix.json"))
    assert done.returncode == Exit.USAGE
    assert "there is no directory" in done.stderr
