"""Whether memory and lag stay flat: many callers for a long time against the reference agent.

All callers live in this process, the agent in another. A caller holds one call after the other, with a pause of a
second; ended calls are measured as in a load run, and forgotten. Every ten seconds the memory of the process and the
lag of its event loop are noted. Flat means: in the last third of the run memory is not more than 5 % and 10 MiB above
that of the third before, and the median lag not more than twice and 1 ms. Medians are compared, since other programs
stall a machine now and then: they move p99, which is only printed, while work that grows moves every tick. Exits with
1 if something grew.

    python -m benchmarks.soak --calls 100 --minutes 60
"""

import argparse
import itertools
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import gevent

from voicebench.adapters import create_adapter
from voicebench.agents.background import BackgroundServer
from voicebench.metrics.session import measure
from voicebench.metrics.summary import Summary
from voicebench.runner.pacer import shared_pacer
from voicebench.runner.session import Call
from voicebench.scenario import parse_scenario

PAUSE_S = 1.0
SPREAD_S = 10.0
SCENARIO = parse_scenario(
    {
        "name": "soak",
        "tail_ms": 1000,
        "turns": [{"audio": {"synth": "speech", "duration_ms": 1500}, "start": {"delay_ms": 500}} for _ in range(5)],
    }
)


@dataclass(frozen=True)
class Sample:
    """The process after so many seconds: its memory, and how its event loop fared since the sample before."""

    t_s: float
    rss_mib: float
    loop_lag_p50_ms: float
    loop_lag_p99_ms: float
    loop_lag_max_ms: float
    cpu_share: float
    collections: int
    calls: int  #: ended so far


class Callers:
    """Hold calls until told to stop."""

    def __init__(self, url: str, count: int) -> None:
        self.ended = 0
        self.summary = Summary()
        self._url = url
        self._stopping = False
        self._jobs = [gevent.spawn_later(SPREAD_S * n / count, self._call) for n in range(count)]

    def stop(self) -> None:
        """End after the calls that go on."""
        self._stopping = True
        gevent.joinall(self._jobs, raise_error=True)

    def _call(self) -> None:
        while not self._stopping:
            record = Call(SCENARIO, create_adapter("websocket", {"url": self._url})).run()
            self.summary.add(shared_pacer().analyst.apply(measure, (record,)))
            self.ended += 1
            del record
            gevent.sleep(PAUSE_S)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print a line per sample, and say whether everything is flat."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=100, help="callers at once (default 100)")
    parser.add_argument("--minutes", type=float, default=60.0, help="how long (default 60)")
    parser.add_argument("--every", type=float, default=10.0, help="seconds between samples (default 10)")
    parser.add_argument("--out", type=Path, help="where to write the samples as JSON")
    chosen = parser.parse_args(arguments)
    with BackgroundServer(jitter_ms=100, response_ms=1500) as agent:
        callers = Callers(agent.url, chosen.calls)
        samples = watch(callers, chosen.minutes * 60, chosen.every)
        callers.stop()
    figures = callers.summary.close()
    problems = grown(samples)
    if chosen.out is not None:
        chosen.out.parent.mkdir(parents=True, exist_ok=True)
        report = {
            "calls_at_once": chosen.calls,
            "samples": [asdict(sample) for sample in samples],
            "problems": problems,
        }
        chosen.out.write_text(json.dumps({**report, "summary": figures}, indent=1) + "\n")
    print(
        f"soak: {callers.ended} calls ended ({figures['failed_sessions']} failed), void turns "
        f"{figures['void_turn_share'] or 0:.2%}, send lag p99 {figures['send_lag_p99_ms']} ms"
    )
    print("soak: " + ("; ".join(problems) if problems else "memory and lag are flat"))
    return 1 if problems or figures["failed_sessions"] else 0


def watch(callers: Callers, duration_s: float, every_s: float) -> list[Sample]:
    """Sample until ``duration_s`` are over; prints each sample."""
    health = shared_pacer().health
    began, mark = time.monotonic(), health.mark()
    samples: list[Sample] = []
    for number in itertools.count(1):
        gevent.sleep(max(0.0, began + number * every_s - time.monotonic()))
        before, mark = mark, health.mark()
        loop = shared_pacer().analyst.apply(health.between, (before, mark))
        lags = loop.lag_p50_ms, loop.lag_p99_ms, loop.lag_max_ms
        t_s = round(time.monotonic() - began, 1)
        sample = Sample(t_s, rss_mib(), *lags, loop.cpu_share, loop.collections, callers.ended)
        samples.append(sample)
        print(
            f"{t_s:7.0f} s  {sample.rss_mib:7.1f} MiB  loop lag p50/p99/max "
            f"{lags[0]:.2f}/{lags[1]:.2f}/{lags[2]:.1f} ms  CPU {sample.cpu_share:.0%}  {sample.calls} calls ended",
            flush=True,
        )
        if t_s >= duration_s:
            return samples
    raise AssertionError


def grown(samples: Sequence[Sample]) -> list[str]:
    """What is not flat, one line each."""
    third = len(samples) // 3
    if not third:
        return ["too few samples to tell"]
    middle, last = samples[-2 * third : -third], samples[-third:]
    problems = []
    memory = [median(sample.rss_mib for sample in part) for part in (middle, last)]
    if memory[1] > memory[0] * 1.05 and memory[1] > memory[0] + 10:
        problems.append(f"memory grew from {memory[0]:.1f} to {memory[1]:.1f} MiB")
    lag = [median(sample.loop_lag_p50_ms for sample in part) for part in (middle, last)]
    if lag[1] > lag[0] * 2 and lag[1] > lag[0] + 1:
        problems.append(f"loop lag p50 grew from {lag[0]:.2f} to {lag[1]:.2f} ms")
    return problems


def rss_mib() -> float:
    """Memory that this process has in use."""
    status = Path("/proc/self/status").read_text()
    kib = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:"))
    return round(int(kib) / 1024, 1)


if __name__ == "__main__":
    sys.exit(main())
