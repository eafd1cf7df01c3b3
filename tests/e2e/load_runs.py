"""Locust as a user starts it: processes of their own, free ports, and an end to every wait."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).parents[2]
VOICE = ROOT / "locustfiles" / "voice.py"

#: Half a second of speech, an answer, a tail.
SCENARIO = """
name: {name}
tail_ms: {tail_ms}
max_duration_ms: 15000
turns:
  - audio: {{synth: speech, duration_ms: 500}}
    start: {{delay_ms: 200}}
"""


def write_scenario(directory: Path, name: str = "short", tail_ms: int = 1000) -> Path:
    """A call takes a second more than its tail."""
    path = directory / f"{name}.yaml"
    path.write_text(SCENARIO.format(name=name, tail_ms=tail_ms))
    return path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(condition: Callable[[], Any], what: str, timeout_s: float = 20.0) -> Any:
    """The first true value of ``condition``; fails if there is none in time."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"{what}: not within {timeout_s} s")


class Locust:
    """One ``locust`` command in a session of its own, with its reports in ``out``."""

    def __init__(self, directory: Path, *arguments: str, name: str = "locust", locustfile: Path = VOICE) -> None:
        self.directory = directory
        self.out = directory / "out"
        self._log = directory / f"{name}.log"
        self._command = [sys.executable, "-m", "locust", "-f", str(locustfile), "--only-summary", *arguments]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        environment = {**os.environ, "VOICEBENCH_SPOOL_DIR": str(self.directory / "spool")}
        environment.pop("VOICEBENCH_SCENARIO", None)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                cwd=self.directory,
                env=environment,
                start_new_session=True,
            )
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:
                break
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                continue
        if error is not None:
            print(self.log)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def children(self) -> list[int]:
        """The worker processes of ``--processes``."""
        return [int(pid) for pid in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()]

    def wait(self, timeout_s: float = 40.0) -> int:
        """The exit code."""
        return self.process.wait(timeout_s)

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def signal_all(self, number: int) -> None:
        """What a terminal does at Ctrl-C: master and workers get the signal."""
        os.killpg(self.pid, number)

    def wait_for_sessions(self, count: int = 1, out: Path | None = None) -> None:
        """Wait until that many calls have arrived at the master."""
        file = (out or self.out) / "sessions.jsonl"

        def arrived() -> bool:
            assert self.process.poll() is None, f"locust ended early:\n{self.log}"
            return file.exists() and file.read_bytes().count(b"\n") >= count

        wait_for(arrived, f"{count} calls in {file}", 30)


#: The machine that runs the tests may be busy with others: what it does to the calls is not these tests' business.
ANY_LAG = ["--voicebench-max-void-turn-share", "1", "--voicebench-max-send-lag-p99-ms", "60000"]


def load_arguments(directory: Path, scenario: Path, url: str, *more: str) -> list[str]:
    """What all runs have in common."""
    out = ["--voicebench-out", str(directory / "out"), "--voicebench-drain-s", "1"]
    return ["--scenario", str(scenario), "--host", url, *out, *ANY_LAG, *more]


def processes(count: int) -> list[str]:
    """So many workers on a port of their own."""
    port = str(free_port())
    return ["--processes", str(count), "--master-port", port, "--master-bind-port", port]


def balanced_report(out: Path) -> dict[str, Any]:
    """The report, once it has been made sure that every call that was started is in it, and in the stored lines."""
    report: dict[str, Any] = json.loads((out / "report.json").read_text())
    run = report["run"]
    assert run["started"] == run["completed"] + run["truncated"] + run["failed"] + run["lost"]
    assert run["started"] == sum(worker["started"] for worker in report["workers"])
    lines = [json.loads(line) for line in (out / "sessions.jsonl").read_text().splitlines()]
    assert len({line["call_id"] for line in lines}) == len(lines) == run["started"]
    assert (out / "report.md").stat().st_size > 0
    assert (out / "report.html").stat().st_size > 0
    return report


def http(url: str, form: Mapping[str, str] | None = None, timeout_s: float = 40.0) -> str:
    """GET, or POST a form; an empty text while nobody answers."""
    data = None if form is None else urllib.parse.urlencode(form).encode()
    try:
        with urllib.request.urlopen(url, data, timeout=timeout_s) as response:
            text: str = response.read().decode()
            return text
    except urllib.error.URLError:
        return ""


def wait_for_workers(base: str, count: int) -> None:
    """Wait until the web UI at ``base`` has so many workers that are ready."""

    def ready() -> bool:
        workers: list[dict[str, str]] = json.loads(http(f"{base}/stats/requests") or "{}").get("workers", [])
        return [worker["state"] for worker in workers].count("ready") == count

    wait_for(ready, f"{count} ready workers")
