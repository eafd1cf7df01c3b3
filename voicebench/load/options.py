"""The command-line options of a load run; each is also an environment variable.

Values are checked while the command line is parsed: a bad one ends the process with code 2 and one line, before
workers are forked and before any user starts. They stay text, since Locust sends them to the workers as msgpack.
"""

import argparse
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol, cast

import yaml

from voicebench.adapters import adapter_for
from voicebench.bench import Record, choose_adapter
from voicebench.load.arrivals import Arrivals, ArrivalsError, parse_arrivals
from voicebench.scenario import Scenario, ScenarioError, load_scenario

FORMATS = ("json", "md", "html")
#: Long enough for an agent's answer that is due (5 s), short of the 30 s that Kubernetes grants a pod.
DEFAULT_DRAIN_S = 10.0
#: Calls at once on one worker with open arrivals: what a core can hold, and a little more.
DEFAULT_MAX_ACTIVE = 1000


#: What every load run is held to: the share of turns that the harness may disturb, and how late it may be.
LIMITS = {"max_void_turn_share": 0.05, "max_send_lag_p99_ms": 20.0}


class Parser(Protocol):
    """What is used of Locust's parser."""

    def add_argument(self, *names: str, **settings: Any) -> Any: ...


class OptionError(ValueError):
    """Options that do not go together. The message is one line."""


@dataclass(frozen=True)
class LoadOptions:
    """The parsed options of one run."""

    scenarios: tuple[tuple[Scenario, float], ...]  #: with their weights
    adapter: str  #: empty: as the scenario says
    adapter_options: Mapping[str, Any]
    url: str  #: empty: as the scenario says
    record: Record
    frames: Record
    out: str  #: empty: a new directory under voicebench-results/
    formats: tuple[str, ...]
    drain_s: float
    limits: Mapping[str, float] = field(default_factory=lambda: dict(LIMITS))  #: on the harness: built-in assertions
    arrivals: Arrivals | None = None  #: None: closed, each caller calls again when its call has ended
    max_active: int = DEFAULT_MAX_ACTIVE  #: per worker, with open arrivals

    def limit(self, key: str) -> float:
        """The strictest of the limits ``key`` on the harness: a scenario's own goes before the run's."""
        return min(scenario.assertions.get(key, self.limits[key]) for scenario, _ in self.scenarios)

    @property
    def longest_s(self) -> float:
        """The longest that a call of these scenarios may last."""
        return max(scenario.max_duration_ms for scenario, _ in self.scenarios) / 1000

    def scenario_named(self, name: str) -> Scenario:
        """The scenario of that name. Raises KeyError."""
        return {scenario.name: scenario for scenario, _ in self.scenarios}[name]

    def adapter_for(self, scenario: Scenario) -> tuple[str, dict[str, Any]]:
        """The adapter's name and options for one scenario.

        The command line goes before the scenario. A URL given without an adapter chooses one by its scheme.
        """
        name = self.adapter or (adapter_for(self.url, scenario.adapter.type) if self.url else None)
        url = {"url": self.url} if self.url and name != "mock" else {}
        return choose_adapter(scenario, name, {**url, **self.adapter_options})


def add_arguments(parser: Parser) -> None:
    """Add the options to Locust's command line."""
    parser.add_argument(
        "--scenario",
        action="append",
        type=_checked_scenario,
        metavar="PATH[:WEIGHT]",
        default=[],
        env_var="VOICEBENCH_SCENARIO",
        help="Scenario to play; repeat it, or separate by commas, to mix several by weight.",
    )
    parser.add_argument(
        "--arrivals",
        type=_checked_arrivals,
        metavar="SCHEDULE",
        default="",
        env_var="VOICEBENCH_ARRIVALS",
        help="Begin calls on a schedule, whether or not earlier ones have ended: constant:RATE, poisson:RATE[:SEED], "
        "ramp:FROM-TO:TIME (calls per second), or csv:FILE. Default: a caller calls again when its call has ended.",
    )
    parser.add_argument(
        "--voicebench-max-active",
        type=_checked_count,
        metavar="N",
        default=DEFAULT_MAX_ACTIVE,
        env_var="VOICEBENCH_MAX_ACTIVE",
        include_in_web_ui=False,
        help="With --arrivals: the most calls at once on one worker; one more counts as failed. Default: "
        f"{DEFAULT_MAX_ACTIVE}.",
    )
    parser.add_argument(
        "--voicebench-out",
        type=_checked_out,
        metavar="DIR",
        default="",
        env_var="VOICEBENCH_OUT",
        help="Where reports go. Default: voicebench-results/<scenario>-<time>.",
    )
    parser.add_argument(
        "--record",
        choices=["none", "failed", "all"],
        default="none",
        env_var="VOICEBENCH_RECORD",
        help="Of which calls to keep recordings; they are written where the worker runs.",
    )
    parser.add_argument(
        "--frames",
        choices=["none", "failed", "all"],
        default="none",
        env_var="VOICEBENCH_FRAMES",
        help="Of which calls to keep every frame's clocks, to be measured again; written where the worker runs.",
    )
    parser.add_argument(
        "--adapter",
        metavar="NAME",
        default="",
        env_var="VOICEBENCH_ADAPTER",
        help="Transport, or module:Class. Default: by the scheme of the host, else the scenario's.",
    )
    parser.add_argument(
        "--adapter-option",
        action="append",
        type=_checked_pair,
        metavar="KEY=YAML",
        default=[],
        env_var="VOICEBENCH_ADAPTER_OPTION",
        include_in_web_ui=False,  # may hold secrets
        help="Option of the adapter, for example 'headers={X-Team: voice}'; repeatable.",
    )
    parser.add_argument(
        "--voicebench-formats",
        type=_checked_formats,
        metavar="LIST",
        default=",".join(FORMATS),
        env_var="VOICEBENCH_FORMATS",
        include_in_web_ui=False,
        help=f"Reports to write, of {', '.join(FORMATS)}.",
    )
    parser.add_argument(
        "--voicebench-drain-s",
        type=_checked_seconds,
        metavar="S",
        default=DEFAULT_DRAIN_S,
        env_var="VOICEBENCH_DRAIN_S",
        help="How long calls may still go on when the run ends; then they are cut off and count as truncated.",
    )

    parser.add_argument(
        "--voicebench-max-void-turn-share",
        type=_checked_limit,
        metavar="SHARE",
        default=LIMITS["max_void_turn_share"],
        env_var="VOICEBENCH_MAX_VOID_TURN_SHARE",
        include_in_web_ui=False,
        help="Share of turns that the harness may disturb; beyond it the run is not valid (exit code 4).",
    )
    parser.add_argument(
        "--voicebench-max-send-lag-p99-ms",
        type=_checked_limit,
        metavar="MS",
        default=LIMITS["max_send_lag_p99_ms"],
        env_var="VOICEBENCH_MAX_SEND_LAG_P99_MS",
        include_in_web_ui=False,
        help="How late the harness may send, at the 99th percentile; beyond it the run is not valid (exit code 4).",
    )


def read_options(options: Namespace, host: str | None) -> LoadOptions:
    """The options of a run. Raises OptionError and ScenarioError: the web form's values are unchecked."""
    paths = split_list(options.scenario)
    if not paths:
        raise OptionError("no scenario: give --scenario PATH (or VOICEBENCH_SCENARIO)")
    try:
        pairs = [parse_pair(text) for text in options.adapter_option]
        formats = _checked_formats(options.voicebench_formats)
        drain_s = _checked_seconds(options.voicebench_drain_s)
        limits = {key: _checked_limit(getattr(options, f"voicebench_{key}")) for key in LIMITS}
        max_active = _checked_count(options.voicebench_max_active)
        arrivals = _arrivals(options.arrivals or "")
    except (argparse.ArgumentTypeError, ArrivalsError) as error:
        raise OptionError(str(error)) from None
    for name in ("record", "frames"):
        if getattr(options, name) not in ("none", "failed", "all"):
            raise OptionError(f"{name}: {getattr(options, name)!r} is not one of none, failed, all")
    scenarios = tuple(_weighted(path) for path in paths)
    names = [scenario.name for scenario, _ in scenarios]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise OptionError(f"two scenarios are named {twice!r}; reports tell them apart by name, so rename one")
    for name, where in arrivals.scenarios if arrivals else ():
        if name not in names:
            raise OptionError(f"{where}: no scenario {name!r} in this run; there is {', '.join(names)}")
    return LoadOptions(
        scenarios=scenarios,
        adapter=options.adapter or "",
        adapter_options=dict(pairs),
        url=(host or "").strip(),
        record=cast(Record, options.record),
        frames=cast(Record, options.frames),
        out=options.voicebench_out or "",
        formats=tuple(split_list([formats])),
        drain_s=drain_s,
        limits=limits,
        arrivals=arrivals,
        max_active=max_active,
    )


def split_list(values: Sequence[str] | str) -> list[str]:
    """Values given one by one or separated by commas, as an environment variable or the web form does."""
    joined = [values] if isinstance(values, str) else values
    return [part.strip() for value in joined for part in str(value).split(",") if part.strip()]


def split_weight(text: str) -> tuple[str, float | None]:
    """``PATH:3`` as path and weight; the weight is None if there is none. Raises OptionError."""
    path, colon, weight = text.rpartition(":")
    if not colon or Path(text).is_file():
        return text, None
    try:
        number = float(weight)
    except ValueError:
        return text, None
    if not 0 < number < float("inf"):
        raise OptionError(f"{text}: the weight must be above 0")
    return path, number


def parse_pair(text: str) -> tuple[str, Any]:
    """``KEY=YAML`` as key and value. Raises argparse.ArgumentTypeError."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise argparse.ArgumentTypeError(f"{key!r}: write KEY=VALUE")
    try:
        return key.strip(), yaml.safe_load(value)
    except (ValueError, KeyError, AttributeError, RecursionError):  # of a malformed date or number
        raise argparse.ArgumentTypeError(f"{key}: not valid YAML: a malformed value") from None
    except yaml.YAMLError as error:  # without the value: it may be a secret
        problem = getattr(error, "problem", None) or "cannot be parsed"
        raise argparse.ArgumentTypeError(f"{key}: not valid YAML: {problem}") from None


def _weighted(text: str) -> tuple[Scenario, float]:
    path, weight = split_weight(text)
    scenario = load_scenario(path)
    return scenario, scenario.weight if weight is None else weight


@lru_cache(maxsize=64)  # Locust parses again for each page of its web UI, where an error would end the process
def _checked_scenario(text: str) -> str:
    try:
        for part in split_list(text):
            _weighted(part)
    except (ScenarioError, OptionError) as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


@lru_cache(maxsize=64)
def _checked_out(text: str) -> str:
    path = Path(text)
    if text and path.exists() and not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is no directory")
    return text


def _arrivals(text: str) -> Arrivals | None:
    return parse_arrivals(text) if text.strip() else None


@lru_cache(maxsize=64)
def _checked_arrivals(text: str) -> str:
    try:
        _arrivals(text)
    except ArrivalsError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _checked_pair(text: str) -> str:
    parse_pair(text)
    return text


def _checked_formats(text: str) -> str:
    formats = split_list(text)
    unknown = next((name for name in formats if name not in FORMATS), None)
    if unknown is not None or not formats:
        raise argparse.ArgumentTypeError(f"{unknown or text!r} is no report format; use {', '.join(FORMATS)}")
    return ",".join(formats)


def _checked_limit(value: str | float) -> float:
    try:
        limit = float(value)
    except ValueError:
        limit = -1.0
    if not 0 <= limit < float("inf"):
        raise argparse.ArgumentTypeError(f"{value!r} is no number from 0 on")
    return limit


def _checked_seconds(value: str | float) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{value!r} is no time between 0 and 3600 seconds")
    return seconds


def _checked_count(value: str | int) -> int:
    try:
        number = int(value)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{value!r} is no whole number above 0")
    return number
