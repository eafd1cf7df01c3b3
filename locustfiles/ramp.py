"""Find out how many calls an agent can hold: add callers in steps, and look at each step's latency.

    locust -f locustfiles/ramp.py --headless -u 100 -r 10 -t 5m \\
        --host ws://127.0.0.1:8765 --scenario scenarios/booking.yaml

``-u`` is the last step's number of callers, ``-r`` how fast each step is climbed, ``-t`` how long the ramp takes.
"""

from locust import LoadTestShape

from voicebench.load.user import VoiceUser

STEPS = 5


class Caller(VoiceUser):
    """Holds one call after the other, with a pause of a second."""


class Ramp(LoadTestShape):
    """Steps of equal height and length."""

    use_common_options = True

    def tick(self) -> tuple[int, float] | None:
        """The callers wanted now, and the rate at which to add them."""
        assert self.runner is not None
        options = self.runner.environment.parsed_options
        assert options is not None
        run_time_s = options.run_time or 300
        step = int(self.get_run_time() / run_time_s * STEPS) + 1  # type: ignore[no-untyped-call]
        if step > STEPS:
            return None
        return round((options.num_users or 1) * step / STEPS), options.spawn_rate or 1
