"""The options: checked while the command line is parsed, and again when a run begins."""

import argparse
from argparse import Namespace
from pathlib import Path

import pytest

from voicebench.load.arrivals import Poisson
from voicebench.load.options import (
    LoadOptions,
    OptionError,
    add_arguments,
    parse_pair,
    read_options,
    split_list,
    split_weight,
)
from voicebench.scenario import ScenarioError

SCENARIO = """
name: {name}
max_duration_ms: {longest}
weight: 2
{adapter}
turns:
  - audio: {{synth: speech}}
"""


def write(directory: Path, name: str = "one", longest: int = 20000, adapter: str = "") -> str:
    path = directory / f"{name}.yaml"
    path.write_text(SCENARIO.format(name=name, longest=longest, adapter=adapter))
    return str(path)


class Parser(argparse.ArgumentParser):
    """Stands in for Locust's, whose extra settings argparse does not know."""

    def add_argument(self, *names: str, **settings: object) -> argparse.Action:
        for extra in ("env_var", "include_in_web_ui"):
            settings.pop(extra, None)
        return super().add_argument(*names, **settings)  # type: ignore[arg-type]


def parse(*arguments: str) -> Namespace:
    parser = Parser(prog="locust")
    add_arguments(parser)
    return parser.parse_args(arguments)


def options(*arguments: str, host: str | None = None) -> LoadOptions:
    return read_options(parse(*arguments), host)


def test_scenarios_come_with_their_weights(tmp_path: Path) -> None:
    one, two = write(tmp_path), write(tmp_path, "two", 45000)
    read = options("--scenario", one, "--scenario", f"{two}:0.5")
    assert [(scenario.name, weight) for scenario, weight in read.scenarios] == [("one", 2.0), ("two", 0.5)]
    assert read.longest_s == 45.0


def test_one_value_may_hold_several_scenarios_as_an_environment_variable_does(tmp_path: Path) -> None:
    read = options("--scenario", f"{write(tmp_path)}:3, {write(tmp_path, 'two')}")
    assert [weight for _, weight in read.scenarios] == [3.0, 2.0]


def test_a_bad_scenario_ends_the_process_with_code_2_and_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("name: bad\nturns: []\n")
    with pytest.raises(SystemExit) as error:
        parse("--scenario", str(path))
    assert error.value.code == 2
    assert f"{path}:2: turns: a scenario needs at least one turn" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--adapter-option", "url"], "'url': write KEY=VALUE"),
        (["--adapter-option", "headers={a"], "headers: not valid YAML"),
        (["--voicebench-formats", "json,pdf"], "'pdf' is no report format"),
        (["--voicebench-drain-s", "-1"], "is no time between 0 and 3600 seconds"),
        (["--voicebench-drain-s", "soon"], "is no time between 0 and 3600 seconds"),
        (["--record", "some"], "invalid choice: 'some'"),
        (["--arrivals", "5"], "'5' is no schedule of calls"),
        (["--arrivals", "csv:/nowhere"], "/nowhere: cannot be read"),
        (["--voicebench-max-active", "0"], "'0' is no whole number above 0"),
        (["--voicebench-out", __file__], "is no directory"),
    ],
)
def test_a_bad_option_ends_the_process_with_code_2(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as error:
        parse(*arguments)
    assert error.value.code == 2
    assert text in capsys.readouterr().err


def test_arrivals_are_closed_unless_there_is_a_schedule(tmp_path: Path) -> None:
    path = write(tmp_path)
    assert options("--scenario", path).arrivals is None
    read = options("--scenario", path, "--arrivals", "poisson:2", "--voicebench-max-active", "30")
    assert (read.arrivals, read.max_active) == (Poisson(2), 30)


def test_a_schedule_names_scenarios_of_the_run(tmp_path: Path) -> None:
    listed = tmp_path / "calls.csv"
    listed.write_text("0,one\n1,two\n")
    arguments = ["--scenario", write(tmp_path), "--arrivals", f"csv:{listed}"]
    with pytest.raises(OptionError) as error:
        options(*arguments)
    assert str(error.value) == f"{listed}:2: no scenario 'two' in this run; there is one"
    read = options(*arguments, "--scenario", write(tmp_path, "two"))
    assert read.scenario_named("two").name == "two"


def test_a_bad_adapter_option_does_not_show_its_value() -> None:
    with pytest.raises(argparse.ArgumentTypeError) as error:
        parse_pair("headers={Authorization: Bearer s3cret")
    assert "s3cret" not in str(error.value)


def test_a_scenario_that_was_good_once_does_not_end_the_process_when_locust_parses_again(tmp_path: Path) -> None:
    path = write(tmp_path)
    parse("--scenario", path)
    Path(path).write_text("broken: [")
    parse("--scenario", path)
    with pytest.raises(ScenarioError):
        read_options(parse("--scenario", path), None)


def test_every_value_travels_to_the_workers(tmp_path: Path) -> None:
    parsed = vars(parse("--scenario", write(tmp_path), "--adapter-option", "a=1", "--voicebench-drain-s", "3"))
    msgpack = pytest.importorskip("msgpack")  # what Locust packs its messages with
    assert msgpack.loads(msgpack.dumps(parsed)) == parsed


def test_no_scenario_says_what_to_do() -> None:
    with pytest.raises(OptionError, match="give --scenario PATH"):
        options()


def test_two_scenarios_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="two scenarios are named 'one'"):
        options("--scenario", write(tmp_path), "--scenario", write(tmp_path))


@pytest.mark.parametrize(
    ("arguments", "host", "adapter", "expected"),
    [
        ([], None, "", ("mock", {})),
        ([], "ws://h:1", "", ("websocket", {"url": "ws://h:1"})),
        (["--adapter", "mock"], "ws://h:1", "", ("mock", {})),
        ([], None, "adapter: {type: websocket, options: {url: 'ws://x:2'}}", ("websocket", {"url": "ws://x:2"})),
        ([], "ws://h:1", "adapter: {type: websocket, options: {url: 'ws://x:2'}}", ("websocket", {"url": "ws://h:1"})),
        (["--adapter-option", "tls_ca=x"], "ws://h:1", "", ("websocket", {"url": "ws://h:1", "tls_ca": "x"})),
        (["--adapter", "my.module:Mine"], "x://h", "", ("my.module:Mine", {"url": "x://h"})),
    ],
)  # fmt: skip
def test_the_host_is_the_agents_url_and_the_command_line_goes_before_the_scenario(
    tmp_path: Path, arguments: list[str], host: str | None, adapter: str, expected: tuple[str, dict[str, object]]
) -> None:
    read = options("--scenario", write(tmp_path, adapter=adapter), *arguments, host=host)
    assert read.adapter_for(read.scenarios[0][0]) == expected


def test_a_weight_must_be_above_zero(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="must be above 0"):
        split_weight("booking.yaml:0")
    assert split_weight("a:b.yaml") == ("a:b.yaml", None)
    odd = tmp_path / "take:2"
    odd.write_text("")
    assert split_weight(str(odd)) == (str(odd), None)


def test_lists_come_as_values_or_separated_by_commas() -> None:
    assert split_list(["a, b", "c"]) == split_list("a,b,,c") == ["a", "b", "c"]


def test_the_limits_on_the_harness_have_defaults_and_can_be_set(tmp_path: Path) -> None:
    one = write(tmp_path)
    assert options("--scenario", one).limits == {"max_void_turn_share": 0.05, "max_send_lag_p99_ms": 20.0}
    set_ = options(
        "--scenario", one, "--voicebench-max-void-turn-share", "0.2", "--voicebench-max-send-lag-p99-ms", "50"
    )
    assert set_.limits == {"max_void_turn_share": 0.2, "max_send_lag_p99_ms": 50.0}


def test_a_worker_warns_at_the_strictest_limit_and_a_scenarios_own_goes_before_the_runs(tmp_path: Path) -> None:
    def limit(*own_ms: float | None) -> float:
        paths = []
        for number, value in enumerate(own_ms):
            own = "" if value is None else f"assert: {{max_send_lag_p99_ms: {value}}}"
            paths += ["--scenario", write(tmp_path, f"own-{number}", adapter=own)]
        return options(*paths).limit("max_send_lag_p99_ms")

    assert (limit(None), limit(50), limit(50, None), limit(50, 10)) == (20, 50, 20, 10)


@pytest.mark.parametrize("value", ["-1", "inf", "nan", "many"])
def test_a_limit_is_a_number_from_0_on(value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as error:
        parse("--scenario", write(tmp_path), "--voicebench-max-send-lag-p99-ms", value)
    assert error.value.code == 2
    assert "is no number from 0 on" in capsys.readouterr().err
