"""What a run is: its description for reports, and the directory it writes to."""

import platform
import random
import shlex
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypedDict

from voicebench.adapters import create_adapter
from voicebench.bench import describe_scenario, slug
from voicebench.load.arrivals import Plan
from voicebench.load.options import LoadOptions, OptionError
from voicebench.metrics.results import RunInfo
from voicebench.report.redact import redact_command
from voicebench.scenario import Scenario
from voicebench.version import __version__

RESULTS_DIR = Path("voicebench-results")


class RunTicket(TypedDict):
    """What the master hands its workers with the order to spawn users, among Locust's own options."""

    id: str
    created_at: str
    directory: str
    seed: int  # of open arrivals
    seats: list[int]  # the numbers of the workers that are there


def describe_run(run_id: str, created_at: str, options: LoadOptions, plan: Plan | None = None) -> RunInfo:
    """The description of a run that begins. Raises AdapterError if an adapter cannot be made."""
    scenarios = [scenario for scenario, _ in options.scenarios]
    adapters = [create_adapter(*options.adapter_for(scenario)).describe() for scenario in scenarios]
    return RunInfo(
        id=run_id,
        created_at=created_at,
        duration_s=0.0,
        command=redact_command(shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])),
        arrivals="open" if options.arrivals else "closed",
        schedule=str(plan) if plan else "",
        clock="real",
        adapter=adapters[0],
        scenarios=tuple(describe_scenario(scenario) for scenario in scenarios),
        workers=(),
        voicebench_version=__version__,
        python=platform.python_version(),
        limits=options.limits,
    )


def plan_of(ticket: RunTicket, options: LoadOptions) -> Plan | None:
    """The run's schedule of calls, the same for everybody who holds the ticket; None with closed arrivals."""
    return Plan(options.arrivals, ticket["seed"], tuple(ticket["seats"])) if options.arrivals else None


def new_ticket(options: LoadOptions, used: Sequence[Path], seats: Sequence[int]) -> RunTicket:
    """Name a new run and its directory; one that an earlier run of this process has ``used`` is not used again."""
    now = datetime.now(UTC)
    name = f"{run_slug([scenario for scenario, _ in options.scenarios])}-{now:%Y%m%d-%H%M%S}"
    base = Path(options.out) if options.out else RESULTS_DIR / name
    directory, number = base, 2
    while directory in used or (not options.out and directory.exists()):
        directory, number = base.with_name(f"{base.name}-{number}"), number + 1
    return {
        "id": f"{name}-{now.microsecond:06d}",
        "created_at": now.isoformat(timespec="seconds"),
        "directory": str(directory.absolute()),
        "seed": random.randrange(1_000_000),
        "seats": sorted(seats),
    }


def prove_writable(options: LoadOptions) -> None:
    """Make sure, before the run, that its reports can be written. Raises OptionError."""
    directory = Path(options.out) if options.out else RESULTS_DIR
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory) as probe:
            probe.write(b"\0" * 4096)
    except OSError as error:
        raise OptionError(f"cannot write to {directory}: {error.strerror}; choose another --voicebench-out") from None


def run_slug(scenarios: Sequence[Scenario]) -> str:
    """The scenarios' names as a part of a file name."""
    return slug("-".join(scenario.name for scenario in scenarios))[:60].strip("-")
