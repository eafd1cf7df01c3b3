"""The run directory: what is written survives, and what could not be written is told."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.golden.report.handmade import booking, call, handmade_calls, handmade_run
from voicebench.metrics.results import WorkerInfo
from voicebench.report.build import build_report
from voicebench.report.store import ReportError, RunWriter, load
from voicebench.report.write import report_again, write_reports


def stored(directory: Path) -> Path:
    """The handmade run in ``directory``."""
    writer = RunWriter(directory)
    for result in handmade_calls():
        writer.add(result)
    writer.close(handmade_run())
    return directory


def test_what_was_stored_is_read_back(tmp_path: Path) -> None:
    run, results = load([stored(tmp_path)])
    assert results == handmade_calls()
    assert run == replace(
        handmade_run(),
        adapter={"type": "websocket", "url": "ws://***@127.0.0.1:8765/?token=***"},
        command="locust -f locustfiles/voice.py --headless -u 4 --host 'ws://***@127.0.0.1:8765/?token=***'",
    )


def test_each_call_is_in_the_file_before_add_returns(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path)
    for number, result in enumerate(handmade_calls(), start=1):
        writer.add(result)
        assert (tmp_path / "sessions.jsonl").read_bytes().count(b"\n") == number


def test_secrets_are_not_stored(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path, handmade_run())
    writer.add(replace(booking("call-1", 600.0), adapter={"api_key": "abc"}, reason="ws://h/?t=abc"))
    writer.close(handmade_run())
    text = "".join(path.read_text() for path in tmp_path.iterdir())
    assert "abc" not in text
    assert "me:pw" not in text


def test_a_report_made_again_is_the_same_to_the_byte(tmp_path: Path) -> None:
    stored(tmp_path)
    write_reports(tmp_path, build_report(handmade_run(), handmade_calls()), handmade_calls())
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    report_again([tmp_path])
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_directory_that_cannot_be_written_is_known_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ReportError, match=r"^cannot write to .*file/run: Not a directory; choose another --out$"):
        RunWriter(tmp_path / "file" / "run")


def test_a_full_disk_is_known_before_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / f".voicebench-probe.{os.getpid()}").symlink_to("/dev/full")
    with pytest.raises(ReportError, match="No space left on device"):
        RunWriter(tmp_path)


def test_a_disk_that_fills_up_costs_one_warning_and_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sessions.jsonl").symlink_to("/dev/full")
    writer = RunWriter(tmp_path)
    for result in handmade_calls()[:3]:
        writer.add(result)
    assert writer.unwritten == 3
    run = writer.close(handmade_run(notes=()))
    assert run.notes == ("3 of 3 calls could not be stored in sessions.jsonl: No space left on device",)
    assert capsys.readouterr().err.count("\n") == 1
    assert json.loads((tmp_path / "run.json").read_bytes())["notes"] == list(run.notes)


class FillingUp:
    """A file on a disk with room for ``room`` more bytes."""

    def __init__(self, path: Path, room: int) -> None:
        self._file = path.open("r+b", buffering=0)
        self.room = room

    def write(self, data: memoryview) -> int:
        if not self.room:
            raise OSError(28, "No space left on device")
        written = self._file.write(data[: self.room])
        self.room -= written
        return written

    def seek(self, offset: int) -> int:
        return self._file.seek(offset)

    def truncate(self) -> int:
        return self._file.truncate()

    def fileno(self) -> int:
        return self._file.fileno()

    def close(self) -> None:
        self._file.close()


def test_calls_are_stored_in_order_and_whole_once_there_is_room_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = RunWriter(tmp_path)
    disk = FillingUp(tmp_path / "sessions.jsonl", room=4000)  # one line and a part of the next
    monkeypatch.setattr(writer, "_file", disk)
    calls = handmade_calls()[:4]
    for result in calls[:3]:
        writer.add(result)
    held = writer.unwritten
    assert 0 < held < 3
    assert (tmp_path / "sessions.jsonl").read_bytes().count(b"\n") == 3 - held
    assert (tmp_path / "sessions.jsonl").read_bytes().endswith(b"\n")  # no torn line
    disk.room = 1_000_000
    writer.add(calls[3])
    assert writer.unwritten == 0
    assert writer.close(handmade_run(notes=())).notes == ()
    assert load([tmp_path])[1] == calls


def test_a_torn_last_line_is_left_out_and_noted(tmp_path: Path) -> None:
    path = stored(tmp_path) / "sessions.jsonl"
    path.write_bytes(path.read_bytes()[:-40])
    run, results = load([tmp_path])
    assert results == handmade_calls()[:-1]
    assert run.notes[-1].startswith("line 13 of sessions.jsonl cannot be read and is left out: ")


@pytest.mark.parametrize("line", [b"\xff\xfe", b"[]", b"3", b"null", b'{"call_id": 3}', b'{"schema_version": 9}'])
def test_no_line_can_spoil_the_others(tmp_path: Path, line: bytes) -> None:
    path = stored(tmp_path) / "sessions.jsonl"
    path.write_bytes(line + b"\n" + path.read_bytes())
    run, results = load([tmp_path])
    assert results == handmade_calls()
    assert len(run.notes) == 2


def test_a_killed_run_can_be_reported(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path, handmade_run(workers=(), duration_s=0.0))
    for result in handmade_calls()[:5]:
        writer.add(result)
    report = report_again([tmp_path])  # no close: the process is gone
    assert "the run was cut off before its end" in report["run"]["notes"]
    assert (report["run"]["started"], report["run"]["completed"]) == (5, 5)
    assert report["assertions"][0]["key"] == "p90_response_latency_ms"


def test_calls_without_a_description_of_their_run_can_be_reported(tmp_path: Path) -> None:
    (stored(tmp_path) / "run.json").unlink()
    report = report_again([tmp_path])
    assert report["run"]["started"] == 13
    assert [scenario["name"] for scenario in report["scenarios"]] == ["booking", "barge-in"]
    assert "run.json is missing: the run was cut off, and its assertions are unknown" in report["run"]["notes"]


def test_a_second_run_in_the_same_directory_replaces_the_first(tmp_path: Path) -> None:
    report_again([stored(tmp_path)])
    writer = RunWriter(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sessions.jsonl"]
    writer.add(booking("other", 600.0))
    assert [result.call_id for result in load([tmp_path])[1]] == ["other"]


def test_of_two_records_of_one_call_the_better_one_stays(tmp_path: Path) -> None:
    lost = call("call-1", "booking", None, "lost", "worker-1 died")
    for name, result in (("master", lost), ("worker", booking("call-1", 600.0)), ("copy", booking("call-1", 700.0))):
        writer = RunWriter(tmp_path / name)
        writer.add(result)
        writer.close(handmade_run(workers=(WorkerInfo("worker-1", "host-a", 1, 0, 1),), notes=()))
    report = report_again([tmp_path / "master", tmp_path / "worker", tmp_path / "copy"], tmp_path / "merged")
    assert (report["run"]["started"], report["run"]["completed"], report["run"]["lost"]) == (1, 1, 0)
    assert report["summary"]["response_latency_ms"]["max"] == 600.0
    assert report["valid"]


def test_calls_that_no_part_of_a_merged_run_holds_stay_lost(tmp_path: Path) -> None:
    for name, ids in (("one", ["a", "b"]), ("two", ["c"])):
        writer = RunWriter(tmp_path / name)
        for call_id in ids:
            writer.add(replace(booking(call_id, 600.0), worker=name))
        writer.close(handmade_run(workers=(WorkerInfo(name, "", 2, 2, 0),), notes=()))
    run = report_again([tmp_path / "one", tmp_path / "two"], tmp_path / "merged")["run"]
    assert (run["started"], run["completed"], run["lost"], run["unaccounted"]) == (4, 3, 1, 0)


def test_a_merged_run_is_a_run_directory_itself_and_keeps_its_recordings(tmp_path: Path) -> None:
    stored(tmp_path / "one")
    merged = report_again([tmp_path / "one"], tmp_path / "deep" / "merged")
    assert merged["sessions"][0]["recording"]["stereo"] == "../../one/recordings/call-01.stereo.wav"
    again = report_again([tmp_path / "deep" / "merged"])
    assert again == merged


def test_merging_never_drops_calls_that_only_the_target_holds(tmp_path: Path) -> None:
    stored(tmp_path / "one")
    writer = RunWriter(tmp_path / "two")
    writer.add(booking("only here", 600.0))
    writer.close(handmade_run())
    with pytest.raises(ReportError, match="two holds 1 other calls; name it as a source too, or write elsewhere"):
        report_again([tmp_path / "one"], tmp_path / "two")
    assert report_again([tmp_path / "two", tmp_path / "one"])["sessions_total"] == 14


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda run: (run / "sessions.jsonl").unlink(), "sessions.jsonl: no such file; give the directory of a run"),
        (lambda run: (run / "run.json").write_text("{"), "run.json: not the description of a run: "),
        (lambda run: (run / "run.json").write_text("[]"), "run.json: not the description of a run: "),
        (lambda run: (run / "run.json").write_text("{}"), "run.json: not the description of a run: "),
    ],
)
def test_what_cannot_be_read_is_named_in_one_line(tmp_path: Path, spoil: object, message: str) -> None:
    stored(tmp_path)
    assert callable(spoil)
    spoil(tmp_path)
    with pytest.raises(ReportError) as caught:
        load([tmp_path])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_reports_are_replaced_in_one_step_and_a_failure_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = build_report(handmade_run(), handmade_calls())
    (tmp_path / "report.json").write_text("old")
    (tmp_path / f".report.json.{os.getpid()}.tmp").symlink_to("/dev/full")
    with pytest.raises(ReportError, match=r"report\.json: cannot be written: No space left on device"):
        write_reports(tmp_path, report, handmade_calls())
    assert (tmp_path / "report.json").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "report.json", "report.md"]


def test_unknown_formats_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="'pdf' is not a format of reports; use some of json, md, html"):
        write_reports(tmp_path, build_report(handmade_run(), []), [], ["pdf"])


def test_the_report_is_valid_json_whatever_an_adapter_says_of_itself(tmp_path: Path) -> None:
    run = handmade_run(adapter={"type": "mine", "limit": float("inf"), "path": tmp_path})
    write_reports(tmp_path, build_report(run, []), [], ["json"])
    adapter = json.loads((tmp_path / "report.json").read_text())["adapter"]
    assert adapter == {"type": "mine", "limit": None, "path": str(tmp_path)}
