"""The spool: a run directory that survives its process."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.load.builders import MemorySpool, result, run_info
from voicebench.load.courier import Courier
from voicebench.load.spool import Spool, spool_directory
from voicebench.metrics.serialise import to_dict
from voicebench.report.store import load


def test_what_a_killed_worker_spooled_reads_as_a_run_with_its_open_calls_lost(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "run-1" / "w0", run_info())
    courier = Courier("run-1", "w0", "h", lambda kind, data: None, lambda: 0.0, spool)
    courier.started("a", "booking", 1.0)
    courier.started("b", "booking", 2.0)
    courier.recorded(to_dict(result("a")))
    run, results = load([tmp_path / "run-1" / "w0"])
    assert {one.call_id: one.outcome for one in results} == {"a": "completed", "b": "lost"}
    assert run.id == "run-1"


def test_a_spool_holds_no_secret(tmp_path: Path) -> None:
    run = replace(run_info(), command="locust --adapter-option 'headers={X-Pin: s3cr3t}'")
    courier = Courier("run-1", "w0", "h", lambda kind, data: None, lambda: 0.0, Spool(tmp_path, run))
    one = result("a", metadata={"token": "s3cr3t"}, reason="agent hung up: close code 4001 (Bearer s3cr3t)")
    courier.recorded(to_dict(one))
    written = [path.read_text() for path in tmp_path.iterdir()]
    assert len(written) == 2
    assert "s3cr3t" not in "".join(written)


def test_lines_are_read_back_where_they_were_written(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "w0", run_info())
    refs = [spool.append({"n": number, "text": "ü" * number}) for number in range(5)]
    assert [len(ref) for ref in refs] == [2] * 5
    assert spool.read(refs[3]) == '{"n":3,"text":"üüü"}'.encode()


def test_an_unwritable_spool_warns_once_and_keeps_lines_in_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    spool = Spool(tmp_path / "file" / "w0", run_info())
    refs = [spool.append({"n": number}) for number in range(3)]
    assert [spool.read(ref) for ref in refs] == [b'{"n":0}', b'{"n":1}', b'{"n":2}']
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert str(tmp_path / "file") in error


def test_a_full_disk_in_mid_run_leaves_no_torn_line_and_earlier_lines_readable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool(tmp_path / "w0", run_info())
    first = spool.append({"n": 1})
    monkeypatch.setattr("os.pwrite", lambda fd, data, at: 3)
    second = spool.append({"n": 2})
    third = spool.append({"n": 3})
    assert [spool.read(ref) for ref in (first, second, third)] == [b'{"n":1}', b'{"n":2}', b'{"n":3}']
    assert spool.path.read_bytes() == b'{"n":1}\n'
    assert capsys.readouterr().err.count("No space left") == 1


def test_closing_with_delete_removes_the_spool_and_its_empty_run(tmp_path: Path) -> None:
    first, second = (Spool(tmp_path / "run-1" / name, run_info()) for name in ("w0", "w1"))
    first.close(delete=True)
    assert sorted(path.name for path in (tmp_path / "run-1").iterdir()) == ["w1"]
    second.close(delete=True)
    second.close(delete=True)
    assert list(tmp_path.iterdir()) == []


def test_the_spool_directory_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOICEBENCH_SPOOL_DIR", "/data/spool")
    assert spool_directory() == (Path("/data/spool"), True)
    monkeypatch.delenv("VOICEBENCH_SPOOL_DIR")
    directory, asked = spool_directory()
    assert (directory.name, asked) == ("voicebench-spool", False)


def test_the_tests_own_spool_keeps_to_the_interface() -> None:
    spool = MemorySpool()
    assert spool.read(spool.append({"n": 1})) == b'{"n":1}'
