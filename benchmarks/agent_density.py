"""How many calls the reference agent holds on one core.

Every call sends 50 frames a second and gets as many: the agent's greeting lasts the whole run and cannot be
interrupted. The agent runs on one core, the callers (this process) on another. Each received frame carries the
kernel's time stamp, and the agent's log says when the greeting was due. Frame k is due 20 ms after frame k - 1 was,
or after it came if that was a frame late or more: the agent then moves the rest back, as it must not send bursts.
The lateness includes the sending and the loopback.

Machines stall, virtual ones above all. A sentinel on the agent's core sleeps 1 ms at a time and notes when it
overslept by more than 4 ms; the columns "on time" leave out frames due within 30 ms of that.

    python benchmarks/agent_density.py 100 300 500 --seconds 10
"""

import argparse
import os
import resource
import select
import socket
import subprocess
import sys
import time
from array import array
from typing import Any

import numpy as np
import numpy.typing as npt

from voicebench.agents.background import BackgroundServer
from voicebench.audio.synth import silence, speech
from voicebench.clock.kernel import ANCILLARY_BYTES, NS, KernelClock
from voicebench.clock.timer import TimerFd
from voicebench.clock.wheel import Slot, Wheel
from voicebench.wire.rfc6455 import Opcode, encode_close, encode_frame, whole_binary

FRAME_NS = 20_000_000
SLOTS = 40
MARGIN_NS = 30_000_000
MASK = b"mask"
SENTINEL = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
end = time.monotonic_ns() + int(float(sys.argv[2]) * 1e9)
last = time.monotonic_ns()
while last < end:
    time.sleep(0.001)
    now = time.monotonic_ns()
    if now - last > 5_000_000:
        print(last, now)
    last = now
"""


class Caller:
    """One call: sends the shared frames in a loop, and notes when frames arrive."""

    def __init__(self, host: str, port: int, number: int, clock: KernelClock) -> None:
        self.call_id = f"caller-{number}"
        self.arrivals = array("q")
        self.position = number * 7  # so that not everybody speaks at once
        self.joined = 0  # frames that were read behind another one
        self.slot: Slot | None = None
        self.sock = socket.create_connection((host, port), 10)
        self.sock.sendall(
            f"GET / HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
            f"X-Call-Id: {self.call_id}\r\n\r\n".encode()
        )
        response = b""
        while not response.endswith(b"\r\n\r\n"):
            response += self.sock.recv(1)
        if not response.startswith(b"HTTP/1.1 101"):
            raise RuntimeError(f"the agent refused the call: {response.decode(errors='replace')}")
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.setblocking(False)
        clock.enable(self.sock)


class Load:
    """All callers, driven by one wheel and one epoll."""

    def __init__(self, url: str, count: int, frames: list[bytes]) -> None:
        host, port = url.removeprefix("ws://").rsplit(":", 1)
        self.frames = frames
        self.clock = KernelClock()
        self.callers = [Caller(host, int(port), number, self.clock) for number in range(count)]
        self.wheel: Wheel[Caller] = Wheel(FRAME_NS, SLOTS, time.monotonic_ns())
        self.buffer = bytearray(1 << 16)
        self.epoll = select.epoll()
        self.by_fd = {caller.sock.fileno(): caller for caller in self.callers}
        for caller in self.callers:
            self.epoll.register(caller.sock, select.EPOLLIN)
            self.wheel.add(caller, time.monotonic_ns())

    def run(self, seconds: float) -> list[int]:
        """Returns how late each send was, in ns."""
        late: list[int] = []
        end = time.monotonic_ns() + int(seconds * NS)
        with TimerFd() as timer:
            while (now := time.monotonic_ns()) < end:
                while (popped := self.wheel.pop_due(time.monotonic_ns())) is not None:
                    self._send(popped, late)
                for fd, _ in self.epoll.poll(0, 64):
                    self._read(self.by_fd[fd])
                due = self.wheel.next_due_ns(now)
                timer.arm_at(due if due is not None else end)
                select.select([timer], [], [], 1)
                timer.clear()
                self.clock.refresh()
        for caller in self.callers:
            caller.sock.send(encode_close(1000, mask=MASK))
        return late

    def _send(self, popped: tuple[int, tuple[Caller, ...]], late: list[int]) -> None:
        due, callers = popped
        for caller in callers:
            caller.sock.send(self.frames[caller.position % len(self.frames)])
            caller.position += 1
            late.append(time.monotonic_ns() - due)

    def _read(self, caller: Caller) -> None:
        size, ancillary, _, _ = caller.sock.recvmsg_into((self.buffer,), ANCILLARY_BYTES)
        arrived = self.clock.arrival_ns(ancillary, time.monotonic_ns()) if ancillary else 0
        frames = 1 if whole_binary(self.buffer, size) else size // 644
        caller.joined += frames - 1
        caller.arrivals.extend([arrived] * frames)


def lateness_ms(
    load: Load, truth: dict[str, dict[str, Any]]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """When each received frame was due (ns), and how late it arrived (ms)."""
    due, late = array("d"), array("d")
    for caller in load.callers:
        expected = truth[caller.call_id]["greeting"]["reply_due_ns"]
        for arrived in caller.arrivals:
            if not arrived:  # the first frames of a run have no stamp
                expected += FRAME_NS
                continue
            expected = min(expected, arrived)  # nothing is sent early: it was moved back less than it seemed
            behind = arrived - expected
            due.append(expected)
            late.append(behind / 1e6)
            expected = (arrived if behind >= FRAME_NS else expected) + FRAME_NS
    return np.asarray(due), np.asarray(late)


def measure(count: int, seconds: float, agent_core: int) -> str:
    pcm = np.concatenate([speech(1000, 16000), silence(1000, 16000)]).astype("<i2").tobytes()
    frames = [encode_frame(Opcode.BINARY, pcm[i : i + 640], mask=MASK) for i in range(0, len(pcm), 640)]
    prefix = ("taskset", "-c", str(agent_core))
    with BackgroundServer(prefix=prefix, greeting_ms=(seconds + 5) * 1000, interruptible=False) as agent:
        sentinel = subprocess.Popen(
            [sys.executable, "-c", SENTINEL, str(agent_core), str(seconds)], stdout=subprocess.PIPE, text=True
        )
        load = Load(agent.url, count, frames)
        before = _cpu_s(agent)
        began = time.monotonic()
        send_late = load.run(seconds)
        cpu = (_cpu_s(agent) - before) / (time.monotonic() - began)
        stalls = [tuple(map(int, line.split())) for line in sentinel.communicate()[0].splitlines()]
        for caller in load.callers:
            caller.sock.close()
        agent.stop()
        truth = {line["call_id"]: line for line in agent.log() if "call_id" in line}
    due, late = lateness_ms(load, truth)
    on_time = np.ones(len(due), dtype=bool)
    for start, end in stalls:
        on_time &= (due < start - MARGIN_NS) | (due > end + MARGIN_NS)
    row = [f"{count:5d}", f"{len(late):7d}", f"{cpu:5.0%}"]
    row += [f"{value:6.2f}" for value in (*np.percentile(late, [50, 99]), late.max())]
    row += [f"{on_time.mean():7.0%}"]
    row += [f"{value:6.2f}" for value in (*np.percentile(late[on_time], [50, 99]), late[on_time].max())]
    row += [f"{value:6.2f}" for value in np.percentile(np.array(send_late) / 1e6, [50, 99])]
    return " | ".join(row)


def _cpu_s(agent: BackgroundServer) -> float:
    assert agent.process is not None
    with open(f"/proc/{agent.process.pid}/stat") as stat:  # noqa: PTH123
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "calls", type=int, nargs="*", default=[100, 300, 500], help="how many calls (default: 100 300 500)"
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="length of each run (default: 10)")
    parser.add_argument("--agent-core", type=int, default=1, help="core of the agent (default: 1)")
    parser.add_argument("--caller-core", type=int, default=0, help="core of the callers (default: 0)")
    args = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    os.sched_setaffinity(0, {args.caller_core})
    print("lateness of the agent's frames in ms; behind 'on time' without the machine's own stalls")
    print(
        "calls |  frames |   CPU |    p50 |    p99 |    max | on time |    p50 |    p99 |    max | send p50 |   p99"
    )
    for count in args.calls:
        print(measure(count, args.seconds, args.agent_core), flush=True)


if __name__ == "__main__":
    main()
