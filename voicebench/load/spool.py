"""The worker's own record of a run: it outlives a lost message, a lost link and a lost master.

A spool is a run directory like any other: ``sessions.jsonl`` and ``run.json``, so that ``voicebench report`` and
``voicebench merge`` read it. Each call has two lines: as lost when it begins, and its result when it has ended;
readers keep the better one.
"""

import contextlib
import errno
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from voicebench.load.messages import json_line
from voicebench.metrics.results import RunInfo
from voicebench.metrics.serialise import run_to_dict
from voicebench.report.store import RUN_FILE, SESSIONS_FILE, run_without_secrets

SPOOL_DIR_VARIABLE = "VOICEBENCH_SPOOL_DIR"

#: Where a spooled line is: its place in the file, or, if the file would not take it, the line itself.
Ref = tuple[int, int] | bytes


def spool_directory() -> tuple[Path, bool]:
    """Where spools go, and whether somebody asked for that place (then they are kept after the run)."""
    asked = os.environ.get(SPOOL_DIR_VARIABLE, "")
    return (Path(asked), True) if asked else (Path(tempfile.gettempdir()) / "voicebench-spool", False)


class Spool:
    """An append-only file of lines. A disk that refuses costs one warning; lines then stay in memory."""

    def __init__(self, directory: Path, run: RunInfo) -> None:
        self.path = directory / SESSIONS_FILE
        self._fd: int | None = None
        self._size = 0
        self._refused = False
        try:
            directory.mkdir(parents=True, exist_ok=True)
            (directory / RUN_FILE).write_bytes(json_line({"ended": False, **run_to_dict(run_without_secrets(run))}))
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        except OSError as error:
            self._refuse(error)

    def append(self, value: Any) -> Ref:
        """Append ``value`` as one line; unless the disk refuses, it is in the file before this returns."""
        line = json_line(value)
        if self._fd is None or self._refused:
            return line
        try:
            if os.pwrite(self._fd, line + b"\n", self._size) < len(line) + 1:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self._size)  # no torn line
            self._refuse(error)
            return line
        ref = (self._size, len(line))
        self._size += len(line) + 1
        return ref

    def read(self, ref: Ref) -> bytes:
        """The line at ``ref``. Raises OSError if the file no longer has it."""
        if isinstance(ref, bytes):
            return ref
        if self._fd is None:
            raise OSError(errno.EBADF, "the spool is closed", str(self.path))
        at, length = ref
        line = os.pread(self._fd, length, at)
        if len(line) < length:
            raise OSError(errno.EIO, "the spool was cut short", str(self.path))
        return line

    def close(self, delete: bool = False) -> None:
        """Close the file; with ``delete`` also remove the spool. Safe to call twice."""
        if self._fd is None:
            return
        os.close(self._fd)
        self._fd = None
        if delete:
            with contextlib.suppress(OSError):
                self.path.unlink()
                (self.path.parent / RUN_FILE).unlink()
                self.path.parent.rmdir()
                self.path.parent.parent.rmdir()  # the run's, once its last worker is done

    def _refuse(self, error: OSError) -> None:
        self._refused = True
        problem = error.strerror or str(error)
        print(f"voicebench: spool {self.path}: {problem}; keeping results in memory instead", file=sys.stderr)
