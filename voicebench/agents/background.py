"""The reference agent in a process of its own, for tests and demonstrations."""

import json
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

START_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 10.0


class BackgroundServer:
    """``with BackgroundServer(response_delay_ms=200) as agent: ... agent.url``

    ``protocol`` is websocket or audiosocket; other keyword arguments are the agent's options. ``extra`` goes to the
    command line (``--tls-cert`` and the like), and ``prefix`` before it (``taskset -c 1``). The log is readable while
    the process runs, and after it.
    """

    def __init__(
        self,
        sample_rate: int | None = None,
        *,
        protocol: str = "websocket",
        log_path: Path | None = None,
        extra: tuple[str, ...] = (),
        prefix: tuple[str, ...] = (),
        **options: Any,
    ) -> None:
        self.url = ""
        self._directory = tempfile.TemporaryDirectory(prefix="voicebench-agent-")
        self.log_path = log_path or Path(self._directory.name) / "agent.jsonl"
        self._errors = Path(self._directory.name) / "stderr"
        self._command = [*prefix, sys.executable, "-m", "voicebench.agents", "--protocol", protocol, "--port", "0"]
        self._command += [] if sample_rate is None else ["--sample-rate", str(sample_rate)]
        self._command += ["--log", str(self.log_path), *extra, *_flags(options)]
        self.process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        """Start it and wait until it listens. Raises RuntimeError with what it wrote if it does not."""
        with self._errors.open("w") as errors:
            process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=errors, text=True)
        self.process = process
        assert process.stdout is not None
        spoke, _, _ = select.select([process.stdout], [], [], START_TIMEOUT_S)
        first = process.stdout.readline() if spoke else ""  # empty, too, if the process ends
        if not first.startswith("READY "):
            self.__exit__(None, None, None)
            raise RuntimeError(f"the agent did not start: {self.stderr or 'no reason given'}")
        self.url = first.split()[1]
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End it by a signal; returns its exit code. Safe to call again."""
        process = self.process
        if process is None:
            return 0
        if process.poll() is None:
            process.send_signal(number)
        try:
            code = process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        if process.stdout is not None:
            process.stdout.close()
        return code

    @property
    def stderr(self) -> str:
        return self._errors.read_text().strip()

    def log(self) -> list[dict[str, Any]]:
        """The lines of the log so far: calls, and the summary once it has ended."""
        return [json.loads(line) for line in self.log_path.read_text().split("\n")[:-1] if line]

    def call(self, call_id: str, timeout_s: float = 10.0) -> dict[str, Any]:
        """The line of a call. Waits until the call has ended. Raises TimeoutError if it does not."""
        deadline = time.monotonic() + timeout_s
        while True:
            found = next((line for line in self.log() if line.get("call_id") == call_id), None)
            if found is not None:
                return found
            if time.monotonic() > deadline:
                raise TimeoutError(f"call {call_id} is not in the agent's log after {timeout_s:g} s")
            time.sleep(0.01)


def _flags(options: Mapping[str, Any]) -> list[str]:
    return [part for key, value in options.items() for part in ("-o", f"{key}={json.dumps(value)}")]
