"""The processes of a benchmark: the C programs, sentinels on both cores, the agent, and the peer's environment."""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from voicebench.agents.background import BackgroundServer

IntArray = npt.NDArray[np.int64]

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "voicebench-bench"
CLIENT_CORE, AGENT_CORE = 0, 1
PEER = "voicebench==0.2.0"

ENDPOINT_MS, DELAY_MS, JITTER_MS, RESPONSE_MS = 200, 150, 100, 500


@dataclass(frozen=True)
class Programs:
    """Paths of the compiled programs; None where there is no compiler (or, for TLS, no OpenSSL)."""

    client: Path | None
    agent: Path | None
    tls_agent: Path | None
    sentinel: Path | None


def build(directory: Path) -> Programs:
    """Compile what can be compiled."""
    compiler = shutil.which("cc")

    def compiled(name: str, source: str, *extra: str) -> Path | None:
        if compiler is None:
            return None
        path = directory / name
        command = [compiler, "-O3", "-march=native", "-o", str(path), str(HERE / "c" / source), *extra]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            print(f"bench: no {name}: {done.stderr.strip().splitlines()[:1]}", file=sys.stderr)
        return path if done.returncode == 0 else None

    return Programs(
        compiled("client", "client.c"),
        compiled("agent", "agent.c"),
        compiled("tls-agent", "agent.c", "-DWITH_TLS", "-lssl", "-lcrypto"),
        compiled("sentinel", "sentinel.c"),
    )


def certificate(directory: Path) -> tuple[Path, Path] | None:
    """A certificate for 127.0.0.1 and its key; None without the openssl command."""
    chain, key = directory / "cert.pem", directory / "key.pem"
    if shutil.which("openssl") is None:
        return None
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    subprocess.run([*command, "-keyout", str(key), "-out", str(chain)], check=True, capture_output=True)
    return chain, key


def peer_python() -> Path:
    """The interpreter of an environment that has the peer, made on first use. Raises RuntimeError if it cannot be."""
    home = CACHE / PEER
    python = home / "bin" / "python"
    if not (home / "complete").exists():
        shutil.rmtree(home, ignore_errors=True)
        for command in (
            [sys.executable, "-m", "venv", str(home)],
            [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", PEER],
        ):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                why = done.stderr.strip().splitlines()
                raise RuntimeError(f"{PEER} cannot be installed: {why[-1] if why else 'no reason given'}")
        (home / "complete").touch()
    return python


def pinned(core: int, realtime: bool) -> list[str]:
    """What goes before a command to run it on one core; ``realtime``: above all other programs of the machine."""
    priority = ["chrt", "-f", "20" if core == AGENT_CORE else "10"] if realtime else []
    return [*priority, "taskset", "-c", str(core)]


@contextmanager
def agent(programs: Programs, log: Path, tls: tuple[Path, Path] | None, realtime: bool) -> Iterator[str]:
    """The agent on its core; gives its URL. The C one if it was built, else the reference agent."""
    program = programs.agent if tls is None else programs.tls_agent
    if program is None:
        options: dict[str, Any] = {
            "endpoint_silence_ms": ENDPOINT_MS,
            "response_delay_ms": DELAY_MS,
            "jitter_ms": JITTER_MS,
        }
        extra = () if tls is None else ("--tls-cert", str(tls[0]), "--tls-key", str(tls[1]))
        prefix = tuple(pinned(AGENT_CORE, realtime))
        with BackgroundServer(log_path=log, extra=extra, prefix=prefix, response_ms=RESPONSE_MS, **options) as server:
            yield server.url
        return
    command = [*pinned(AGENT_CORE, realtime), str(program), str(log)]
    command += [str(option) for option in (ENDPOINT_MS, DELAY_MS, JITTER_MS, RESPONSE_MS)]
    command += [str(path) for path in tls or ()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            spoke, _, _ = select.select([process.stdout], [], [], 10)
            line = process.stdout.readline() if spoke else ""
            if not line.startswith("READY "):
                raise RuntimeError("the agent did not start")
            yield line.split()[1]
        finally:
            process.terminate()
            process.wait(20)


class Sentinels:
    """One on each core while a step runs; ``stalls`` is complete when the block has been left."""

    def __init__(self, programs: Programs, directory: Path) -> None:
        self._command = [str(programs.sentinel)] if programs.sentinel else [sys.executable, str(HERE / "sentinel.py")]
        self._directory = directory
        self._stack = ExitStack()
        self.priority = ""

    def __enter__(self) -> "Sentinels":
        for core in (CLIENT_CORE, AGENT_CORE):
            out = self._stack.enter_context((self._directory / f"sentinel-{core}").open("wb"))
            process = subprocess.Popen([*self._command, str(core)], stdout=out, stderr=subprocess.PIPE, text=True)
            self._stack.callback(_end, process)
            assert process.stderr is not None
            self.priority = process.stderr.readline().strip()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def lateness(self) -> IntArray:
        """When it was late, and when it woke: pairs of CLOCK_MONOTONIC ns, of both cores."""
        parts = [np.fromfile(self._directory / f"sentinel-{core}", dtype=np.int64) for core in (0, 1)]
        return np.concatenate(parts).reshape(-1, 2)


def _end(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGTERM)
    process.wait(10)
    assert process.stderr is not None
    process.stderr.close()


def run_client(command: Sequence[str], timeout_s: float, cwd: Path, path: Path) -> str:
    """Run a client to its end; returns why it failed, or an empty text. ``path`` is where Python finds it."""
    environment = {**os.environ, "PYTHONPATH": str(path)}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=cwd, env=environment)
    try:
        _, errors = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return f"did not end within {timeout_s:g} s"
    lines = errors.strip().splitlines()
    return "" if process.returncode == 0 else (lines[-1] if lines else f"exit code {process.returncode}")


def truths(log: Path) -> tuple[dict[str, list[dict[str, Any]]], dict[str, Any]]:
    """The agent's log: turns by call id, and its last line."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    calls = {line["call_id"]: line["turns"] for line in lines if "call_id" in line}
    return calls, next((line for line in lines if "calls" in line), {})


def steal_s() -> float:
    """Processor time that the hypervisor gave to others, on both cores, since the machine started."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return int(fields[8]) / os.sysconf("SC_CLK_TCK")


def describe() -> dict[str, Any]:
    """The machine."""
    models = [line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if
              line.startswith("model name")]  # fmt: skip
    return {
        "cpu": models[0] if models else "unknown",
        "cores": os.cpu_count(),
        "kernel": os.uname().release,
        "python": sys.version.split()[0],
        "at": time.strftime("%Y-%m-%d %H:%M", time.gmtime()) + " UTC",
    }
