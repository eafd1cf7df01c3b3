"""All calls of a process share one pacer, whatever Locust has patched."""

import subprocess
import sys

PROGRAM = """
from gevent import monkey
monkey.patch_all()
import gevent
from voicebench.runner.pacer import shared_pacer
jobs = [gevent.spawn(shared_pacer) for _ in range(5)]
gevent.joinall(jobs)
print(len({id(pacer) for pacer in [shared_pacer(), *(job.get() for job in jobs)]}))
"""


def test_under_gevents_patches_all_greenlets_share_one_pacer() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60)

    assert done.stdout == "1\n", done.stderr
