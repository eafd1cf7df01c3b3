"""What the documents say agrees with the code."""

import re
import shlex
import tomllib
from argparse import ArgumentParser
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

import pytest
from pydantic import BaseModel

from voicebench.adapters import Adapter
from voicebench.adapters.audiosocket import AudioSocketAdapter
from voicebench.adapters.websocket import WebSocketAdapter
from voicebench.agents.reference import ReferenceOptions
from voicebench.bench import run_benchmark
from voicebench.cli import build_parser
from voicebench.exits import Exit
from voicebench.load.options import add_arguments
from voicebench.metrics.results import TURN_METRICS
from voicebench.scenario import parse_scenario
from voicebench.scenario.assertions import DISTRIBUTIONS, FIGURES, STATISTICS
from voicebench.scenario.models import (
    AdapterSpec,
    AudioSpec,
    Defaults,
    Direction,
    JitterBuffer,
    Network,
    Scenario,
    StartRule,
    Turn,
)
from voicebench.vad import VadConfig

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")


def doc(name: str) -> str:
    return (ROOT / "docs" / name).read_text("utf-8")


def table_after(text: str, heading: str) -> dict[str, list[str]]:
    """The first table behind a heading: the first cell's code words (or text) to the other cells."""
    body = text.split(heading, 1)[1]
    found = re.search(r"(?:^\|.*\n)+", body, re.MULTILINE)
    assert found is not None, heading
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in found.group().splitlines()]
    return {row[0].strip("`"): row[1:] for row in rows[2:]}


def keys(model: type[BaseModel]) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}


@pytest.mark.parametrize(
    ("heading", "model"),
    [
        ("## The scenario", Scenario),
        ("## A turn", Turn),
        ("### audio", AudioSpec),
        ("### start", StartRule),
        ("## adapter", AdapterSpec),
        ("## vad", VadConfig),
        ("## playout", JitterBuffer),
        ("## network", Network),
        ("### caller, agent", Direction),
    ],
)
def test_every_key_of_a_scenario_is_documented_and_no_other(heading: str, model: type[BaseModel]) -> None:
    assert table_after(doc("scenarios.md"), f"\n{heading}\n").keys() == keys(model)


@pytest.mark.parametrize(
    ("heading", "model"),
    [("## The scenario", Scenario), ("## A turn", Turn), ("### audio", AudioSpec), ("## vad", VadConfig)],
)
def test_documented_defaults_are_those_of_the_models(heading: str, model: type[BaseModel]) -> None:
    for name, (default, *_) in table_after(doc("scenarios.md"), f"\n{heading}\n").items():
        fields = {field.alias or key: field for key, field in model.model_fields.items()}
        if isinstance(fields[name].default, int | float):
            assert float(default) == fields[name].default, name


def test_the_defaults_block_is_documented() -> None:
    assert "`defaults` takes " + " and ".join(f"`{key}`" for key in Defaults.model_fields) in doc("scenarios.md")


def test_every_assertion_is_documented() -> None:
    text = doc("scenarios.md").split("## assert", 1)[1]
    words = set(re.findall(r"`(\w+)`", text))

    assert {*STATISTICS, *DISTRIBUTIONS, *FIGURES, "max_wer"} <= words


def test_options_of_the_adapters_are_documented() -> None:
    text = doc("adapters.md")
    for adapter in (WebSocketAdapter, AudioSocketAdapter):
        names = set(adapter.__init__.__annotations__) - {"options", "return"}
        documented = table_after(text, f"\n## {adapter.name}\n").keys()
        assert {name for cell in documented for name in re.split("`, `", cell)} == names
    assert table_after(text, "\n## mock\n").keys() == keys(ReferenceOptions)


def test_options_of_load_runs_are_documented() -> None:
    parser = _Recorder()
    add_arguments(parser)

    documented = {
        re.split(r"[ `]", name)[0]: cells[0].strip("`")
        for name, cells in table_after(doc("load.md"), "\n## Options\n").items()
    }
    assert documented == parser.variables


class _Recorder:
    """Stands for Locust's parser: keeps each option's environment variable."""

    def __init__(self) -> None:
        self.variables: dict[str, str] = {}

    def add_argument(self, *names: str, **settings: object) -> object:
        self.variables[names[0]] = str(settings["env_var"])
        return None


def test_the_exit_codes_of_the_readme_are_those_of_the_code() -> None:
    source = (ROOT / "voicebench/exits.py").read_text("utf-8")
    meanings = dict(re.findall(r"^    \w+ = (\d)  #: (.*)$", source, re.MULTILINE))

    assert {code: cells[0] for code, cells in table_after(README, "\n## Exit codes\n").items()} == meanings
    assert set(map(int, meanings)) == set(map(int, Exit))


def test_metrics_of_a_turn_are_documented() -> None:
    metrics = table_after(doc("metrics.md"), "\n## A turn\n").keys()

    assert set(TURN_METRICS) - {"noise"} <= metrics
    assert {"false_barge_in", "spurious_response"} <= metrics  # together they are "noise"


def test_the_adapter_of_the_readme_works() -> None:
    code = README.split("<!-- test: adapter -->", 1)[1].split("```python\n", 1)[1].split("```", 1)[0]
    module = ModuleType("readme_adapter")
    exec(code, module.__dict__)
    link: type[Adapter] = module.EchoLink

    class Echo(link):  # type: ignore[misc, valid-type]
        supports_virtual_clock = True

    scenario = parse_scenario({"name": "echo", "turns": [{"audio": {"synth": "speech"}}]})
    globals()["Echo"] = Echo
    try:
        bench = run_benchmark(scenario, f"{__name__}:Echo", {"room": "kitchen"})
    finally:
        del globals()["Echo"]

    metrics = bench.results[0].metrics
    assert metrics is not None
    assert metrics.agent_speech_ms == pytest.approx(metrics.user_speech_ms, abs=10)
    assert len(code.splitlines()) < 30


def test_the_scenario_of_the_readme_is_valid(tmp_path: Path) -> None:
    import numpy as np
    import yaml

    from voicebench.audio.files import write_wav

    for name in ("question.wav", "interruption.wav"):
        write_wav(tmp_path / name, np.full(1600, 1000, dtype=np.int16), 16000)
    text = README.split("```yaml\n", 1)[1].split("```", 1)[0]

    scenario = parse_scenario(yaml.safe_load(text), tmp_path)

    assert [turn.expect for turn in scenario.turns] == ["respond", "stop"]


def commands(text: str) -> Iterable[list[str]]:
    """Every ``voicebench ...`` line in a block of code."""
    for block in re.findall(r"```\n(.*?)```", text, re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("voicebench "):
                yield shlex.split(line, comments=True)[1:]


@pytest.mark.parametrize("name", ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))])
def test_commands_of_the_documents_parse(name: str) -> None:
    parser: ArgumentParser = build_parser()

    for arguments in commands((ROOT / name).read_text("utf-8")):
        parser.parse_args(arguments)


@pytest.mark.parametrize("name", ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))])
def test_links_of_the_documents_lead_somewhere(name: str) -> None:
    path = ROOT / name

    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text("utf-8")):
        assert (path.parent / target).exists(), f"{name} links to {target}"


def test_the_changelog_knows_the_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    from voicebench import __version__

    assert "version" in project["dynamic"]
    assert __version__ in (ROOT / "CHANGELOG.md").read_text("utf-8")
