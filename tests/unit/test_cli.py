"""The command's manners: parsing, exit codes, one-line errors. Nothing here holds a call."""

import json
import wave
from pathlib import Path

import numpy as np
import pytest
import soundfile

from voicebench.cli import build_parser, main
from voicebench.cli.options import UsageError, key_values
from voicebench.scenario import load_scenario

SCENARIO = """
name: hello
turns:
  - audio: {synth: speech}
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "hello.yaml"
    path.write_text(SCENARIO)
    return path


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "COMMAND"),
        (["rnu"], "invalid choice: 'rnu'"),
        (["run"], "scenario"),
        (["run", "x.yaml", "-n", "0"], "'0' is not a whole number of at least 1"),
        (["run", "x.yaml", "--format", "json,pdf"], "use one or several of json, md, html"),
        (["run", "x.yaml", "--record", "some"], "invalid choice: 'some'"),
        (["synth", "x.wav", "--duration-ms", "-5"], "'-5' is not a number above 0"),
        (["agent", "--sample-rate", "high"], "'high' is not a whole number"),
    ],
)
def test_a_usage_error_is_one_line_and_exits_2(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)

    error = capsys.readouterr().err
    assert exit_.value.code == 2
    assert complaint in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["run", "x.yaml", "--no-write", "--record", "all"], "--no-write leaves no place"),
        (["agent", "--tls-cert", "cert.pem"], "--tls-cert and --tls-key go together"),
        (["agent", "--port", "70000"], "--port 70000: must be between 0 and 65535"),
        (["agent", "-o", "respnse_ms=1"], "unknown option 'respnse_ms'; did you mean 'response_ms'?"),
        (["agent", "--tls-cert", "a.pem", "--tls-key", "b.pem"], "--tls-cert a.pem, --tls-key b.pem: No such file"),
        (["agent", "--host", "203.0.113.1"], "cannot serve on 203.0.113.1 port 8765: "),
        (["synth", "x.wav", "--level-db", "3"], "--level-db 3: must be at most 0 dBFS"),
        (["synth", "x.wav", "--sample-rate", "4000"], "--sample-rate 4000: must be between 8000 and 96000"),
        (["synth", "missing/x.wav"], "missing/x.wav: cannot be written: No such file or directory"),
        (["example", "nothing"], "no example 'nothing'; use one of "),
        (["example", "-O", "x.yaml"], "name the example to save"),
        (["report", "missing"], "missing: no such directory"),
        (["merge", "out", "missing"], "missing: no such directory"),
    ],
)
def test_a_senseless_argument_is_one_line_and_exits_2(
    arguments: list[str],
    complaint: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)

    code = main(arguments)

    error = capsys.readouterr().err
    assert code == 2
    assert error.startswith("voicebench: ")
    assert complaint in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no such directory"):
        main(["--debug", "report", str(tmp_path / "missing")])
    with pytest.raises(ValueError, match="no such directory"):
        main(["report", "--debug", str(tmp_path / "missing")])


def test_the_old_name_of_the_agent_still_parses() -> None:
    args = build_parser().parse_args(["mock-server", "--port", "9000", "-o", "response_delay_ms=250"])

    assert (args.host, args.port, args.protocol) == ("127.0.0.1", 9000, "websocket")
    assert key_values(args.options) == {"response_delay_ms": 250}


def test_option_values_are_yaml_and_the_last_one_counts() -> None:
    options = key_values(["url=ws://a", "headers={X-Team: voice}", "retries=3", "url=ws://b?x=1"])

    assert options == {"url": "ws://b?x=1", "headers": {"X-Team": "voice"}, "retries": 3}


@pytest.mark.parametrize(
    ("text", "complaint"), [("url", "'url': write KEY=VALUE"), ("headers={", "headers: not valid YAML")]
)
def test_an_option_that_is_no_pair_is_explained(text: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        key_values([text])


@pytest.mark.parametrize("value", ["!!bool maybe", "!!timestamp soon", "2020-99-99", "!!int x"])
def test_a_malformed_value_of_an_option_is_explained_without_it(value: str) -> None:
    with pytest.raises(UsageError) as caught:
        key_values([f"pin={value}"])
    assert str(caught.value) == "-o pin: not valid YAML: a malformed value"


def test_validate_reports_every_file(scenario: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(SCENARIO.replace("synth: speech", "synth: shout"))

    code = main(["validate", str(bad), str(scenario), str(tmp_path / "none.yaml")])

    output = capsys.readouterr()
    assert code == 2
    assert output.out == f"OK    {scenario}: hello (1 turn, adapter mock)\n"
    problems = output.err.splitlines()
    assert problems[0].startswith(f"ERROR {bad}:4: turns[0].audio.synth: 'shout'")
    assert problems[1] == f"ERROR {tmp_path / 'none.yaml'}: no such file"


def test_audio_that_breaks_off_in_its_middle_is_a_users_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = tmp_path / "s.yaml"
    scenario.write_text("name: s\nturns: [{audio: {file: a.flac}}]\n")
    soundfile.write(tmp_path / "a.flac", np.random.default_rng(0).uniform(-0.5, 0.5, 16000), 16000)
    whole = (tmp_path / "a.flac").read_bytes()
    (tmp_path / "a.flac").write_bytes(whole[: len(whole) // 2])
    assert main(["validate", str(scenario)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"ERROR {scenario}: {tmp_path / 'a.flac'}: cannot be read as audio: ")
    assert error.count("\n") == 1


def test_validate_of_good_files_exits_0(scenario: Path) -> None:
    assert main(["validate", str(scenario), str(scenario)]) == 0


def test_every_example_is_listed_saved_and_valid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["example"])
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]

    for name in names:
        saved = tmp_path / f"{name}.yaml"
        assert main(["example", name, "-O", str(saved)]) == 0
        load_scenario(saved)
        capsys.readouterr()
        main(["example", name])
        assert capsys.readouterr().out == saved.read_text()
    assert {"mock-conversation", "websocket"} <= set(names)


def test_schema_lets_authors_leave_out_what_has_a_default(capsys: pytest.CaptureFixture[str]) -> None:
    main(["schema"])

    schema = json.loads(capsys.readouterr().out)
    assert schema["required"] == ["name", "turns"]
    assert schema["$defs"]["Turn"]["required"] == ["audio"]
    assert "assert" in schema["properties"]


def test_synth_writes_the_length_and_the_level_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "tone.wav"

    code = main(["synth", str(path), "--kind", "tone", "--duration-ms", "250", "--sample-rate", "8000"])

    with wave.open(str(path)) as file:
        assert code == 0
        assert (file.getframerate(), file.getnchannels(), file.getnframes()) == (8000, 1, 2000)
