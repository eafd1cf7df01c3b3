"""``voicebench calibrate``: find out how many calls this machine can drive.

Holds more and more calls with the built-in agent, on another core, until the harness or the agent can no longer keep
time. Nothing else should run meanwhile. Drive as many callers per worker as it says, and one worker per core.
"""

import argparse
import json
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from voicebench.calibrate.decision import COMFORTABLE_LAG_MS, SEND_LAG_LIMIT_MS
from voicebench.cli.options import UsageError, positive_float, positive_int
from voicebench.exits import Exit

if TYPE_CHECKING:
    from voicebench.calibrate.decision import Step, Verdict

HEADER = "calls   core  send lag p50     p99     max   error p50     p99   void   KiB/call   agent's core   late p99"


def add_commands(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add ``calibrate``."""
    calibrate = commands.add_parser(
        "calibrate", parents=[common], help="find out how many calls this machine can drive", description=__doc__
    )
    calibrate.add_argument("--step", type=positive_int, default=50, help="calls to begin with; doubled (default: 50)")
    calibrate.add_argument("--max", type=positive_int, default=2000, help="calls to end with (default: 2000)")
    calibrate.add_argument("--seconds", type=positive_float, default=5.0, help="length of a step (default: 5)")
    calibrate.add_argument("--time", type=positive_float, default=85.0, help="seconds for all of it (default: 85)")
    calibrate.add_argument(
        "--cores", metavar="A,B", help="cores of the callers and of the agent (default: the first two)"
    )
    calibrate.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    calibrate.set_defaults(handler=calibrate_command)


def calibrate_command(args: argparse.Namespace) -> int:
    """Run the ramp and say what it showed; exit code 4 if no step held."""
    from gevent import monkey

    monkey.patch_all()
    from voicebench.calibrate.decision import judge
    from voicebench.calibrate.ramp import Plan, default_cores, ramp

    cores = _cores(args.cores) if args.cores else default_cores()
    plan = Plan(args.step, args.max, args.seconds, args.time, cores)
    if not args.json:
        shared = "; both share one core, so expect half" if cores[0] == cores[1] else ""
        print(f"callers on core {cores[0]}, the built-in agent on core {cores[1]}{shared}; times in ms\n{HEADER}")
    steps = ramp(plan, None if args.json else lambda step: print(row(step), flush=True))
    verdict = judge(steps)
    if args.json:
        print(json.dumps(report(steps, verdict, plan.cores), indent=1))
    else:
        print("\n".join(sentences(verdict)))
    return Exit.OK if verdict.calls else Exit.INVALID


def row(step: "Step") -> str:
    """A line of the table."""
    error = ["--" if value is None else f"{value:.1f}" for value in (step.error_p50_ms, step.error_p99_ms)]
    broke = f"   {step.broke[0]} broke: {step.broke[1]}" if step.broke else ""
    return (
        f"{step.calls:5}  {step.cpu_share:5.0%}  {step.send_lag_p50_ms:12.2f} {step.send_lag_p99_ms:7.2f}"
        f" {step.send_lag_max_ms:7.1f}   {error[0]:>9} {error[1]:>7}   {step.void_turns:4}"
        f"   {step.memory_per_call_kib:8.0f}   {step.agent_cpu_share:12.0%}   {step.agent_late_p99_ms:8.2f}{broke}"
    )


def sentences(verdict: "Verdict") -> list[str]:
    """What the ramp has shown, in words."""
    if verdict.best is None:
        return [
            "",
            f"This machine cannot keep time for the first step: the {verdict.culprit} broke, {verdict.reason}.",
        ]
    best = verdict.best
    lines = [
        "",
        f"One core of this machine drives {verdict.calls} calls with a send lag of at most {SEND_LAG_LIMIT_MS:g} ms "
        f"(one frame) at p99, and {verdict.comfortable_calls or 'none'} with at most {COMFORTABLE_LAG_MS:g} ms.",
        f"At {best.calls} calls: send lag {best.send_lag_p99_ms:.2f} ms at p99, {best.cpu_share:.0%} of the core, "
        f"{best.memory_per_call_kib:.0f} KiB a call.",
    ]
    if best.error_p99_ms is not None:
        lines.append(
            f"Response latency was off by {best.error_p50_ms:.1f} ms at p50 and {best.error_p99_ms:.1f} ms at p99, "
            f"against the agent's own log; {best.void_turns} of {best.turns} turns were void."
        )
    if verdict.culprit == "harness":
        lines.append(f"The harness broke first: {verdict.reason}. For more calls, add a worker on another core.")
    elif verdict.culprit == "agent":
        lines.append(f"The agent broke first: {verdict.reason}. The harness can do more than this shows.")
    else:
        lines.append("Nothing broke: raise --max or --time to find the limit.")
    return lines


def report(steps: "list[Step]", verdict: "Verdict", cores: tuple[int, int]) -> dict[str, Any]:
    """The same for programs."""
    return {
        "calls": verdict.calls,
        "comfortable_calls": verdict.comfortable_calls,
        "broke_first": verdict.culprit,
        "reason": verdict.reason,
        "cores": {"callers": cores[0], "agent": cores[1]},
        "steps": [asdict(step) for step in steps],
    }


def _cores(text: str) -> tuple[int, int]:
    found = [int(part) for part in text.split(",") if part.isascii() and part.isdigit()]
    if len(found) != 2:
        raise UsageError(f"--cores {text}: write two numbers, as in 0,1")
    usable = sorted(os.sched_getaffinity(0))
    if missing := sorted(set(found) - set(usable)):
        raise UsageError(f"--cores {text}: this process cannot use core {missing[0]}, only {usable}")
    return found[0], found[1]
