"""What is kept of a call is all of it: the same metrics come out of it again (TV16)."""

import json
import zipfile
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.metrics.builders import agent_call, call, heard, stream
from voicebench.metrics.session import measure
from voicebench.runner.evidence import EvidenceError, read_evidence, write_evidence
from voicebench.runner.health import LoopHealth
from voicebench.runner.record import CallEvent, Packets, SessionRecord

TURNS: list[dict[str, Any]] = [{"expect": "respond", "text": "hello"}, {"expect": "stop"}]
RICH = replace(
    agent_call(
        [*stream(0.0, 1.0), (2.1, 1.5, -20.0), *stream(3.6, 4.2)],
        [(1.2, 2.0), (3.0, 3.5)],
        TURNS,
        clears=[3.2],
        playout={"jitter_buffer_ms": 60, "max_ms": 1000},
        connected_s=-0.0123456789,
        lag_s={7: 0.00123, 400: float("nan")},
        transcripts=[heard("hello, thére", 2.05)],
        vad={"refine": "sample", "agent": {"threshold_db": -50}},
    ),
    events=(CallEvent(4.0, "message x", "“quoted”"),),
    metadata={"team": "voice", "number": 3},
    loop=LoopHealth(0.1, 0.2, 0.3, 4, 0.5),
)
UNCONNECTED = replace(
    call(TURNS, [], duration_s=0.0, connect_ms=None, outcome="failed", reason="refused"), connected_s=None
)


def written(record: SessionRecord, directory: Path) -> Path:
    return directory / write_evidence(record, directory)


def same(one: Any, other: Any) -> bool:
    return np.array_equal(one, other, equal_nan=True) and one.dtype == other.dtype


@pytest.mark.parametrize("record", [RICH, UNCONNECTED], ids=["rich", "never connected"])
def test_a_record_comes_back_bit_for_bit(record: SessionRecord, tmp_path: Path) -> None:
    back = read_evidence(written(record, tmp_path))

    arrays = ("user_track", "agent_track", "sent")
    for name in arrays:
        assert same(getattr(back, name), getattr(record, name)), name
    for field in fields(Packets):
        assert same(getattr(back.packets, field.name), getattr(record.packets, field.name)), field.name
    for field in fields(SessionRecord):
        if field.name not in (*arrays, "packets"):
            assert getattr(back, field.name) == getattr(record, field.name), field.name


@pytest.mark.parametrize("record", [RICH, UNCONNECTED], ids=["rich", "never connected"])
def test_every_metric_comes_out_again_exactly(record: SessionRecord, tmp_path: Path) -> None:
    assert measure(read_evidence(written(record, tmp_path))) == measure(record)


def test_the_file_is_named_by_the_call_wherever_its_id_points(tmp_path: Path) -> None:
    assert write_evidence(replace(RICH, call_id="../a call/7"), tmp_path) == "frames/.._a_call_7.npz"
    assert [path.name for path in (tmp_path / "frames").iterdir()] == [".._a_call_7.npz"]


def test_options_of_the_adapter_are_not_kept_since_they_hold_secrets(tmp_path: Path) -> None:
    scenario = RICH.scenario.model_copy(
        update={"adapter": RICH.scenario.adapter.model_copy(update={"options": {"headers": {"Key": "s3cret"}}})}
    )
    path = written(replace(RICH, scenario=scenario), tmp_path)

    with zipfile.ZipFile(path) as file:
        assert not any(b"s3cret" in file.read(name) for name in file.namelist())


def test_anybody_can_read_it_with_numpy(tmp_path: Path) -> None:
    with np.load(written(RICH, tmp_path), allow_pickle=False) as entries:
        about = json.loads(entries["about"].tobytes())
        assert entries["caller_due"].tolist()[:3] == [0.0, 0.02, 0.04]
        assert len(entries["agent_arrived"]) == len(RICH.packets)
    assert (about["call_id"], about["scenario"]["turns"][1]["expect"]) == ("call-1", "stop")


def test_every_entry_is_documented(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "docs" / "records.md").read_text("utf-8").split("## The evidence", 1)[1]
    with np.load(written(RICH, tmp_path), allow_pickle=False) as entries:
        names = {*entries.files, *json.loads(entries["about"].tobytes())}

    assert {name for name in names if f"`{name}`" not in text} == set()


def test_a_call_of_ten_seconds_takes_less_than_a_recording(tmp_path: Path) -> None:
    assert written(RICH, tmp_path).stat().st_size < RICH.user_track.nbytes / 2


def test_what_is_no_evidence_is_refused_in_one_line(tmp_path: Path) -> None:
    text = tmp_path / "text.npz"
    text.write_text("hello")
    other = tmp_path / "other.npz"
    np.savez(other, x=np.zeros(3))
    torn = tmp_path / "torn.npz"
    torn.write_bytes(written(RICH, tmp_path).read_bytes()[:-400])

    for path, why in (
        (text, "no zip"),
        (other, "about"),
        (torn, "no zip"),
        (tmp_path / "none.npz", "cannot be read"),
    ):
        with pytest.raises(EvidenceError, match=why) as caught:
            read_evidence(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_later_format_is_refused(tmp_path: Path) -> None:
    path = written(RICH, tmp_path)
    with np.load(path) as entries:
        arrays = dict(entries)
    about = {**json.loads(arrays["about"].tobytes()), "schema_version": 2}
    np.savez(path, **{**arrays, "about": np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)})

    with pytest.raises(EvidenceError, match="schema_version 2 is not 1"):
        read_evidence(path)


def test_nothing_is_left_behind_if_it_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(OSError, match="No space"):
        write_evidence(RICH, tmp_path)

    assert list((tmp_path / "frames").iterdir()) == []
