"""The Locust user: one caller, who holds one call after the other."""

import gevent
from locust import User, constant, task

from voicebench.load import plugin

#: How long a caller waits after a call that failed, so that a dead agent is not rung up in a tight loop.
BACK_OFF_S = 1.0


class VoiceUser(User):
    """Plays the scenarios of ``--scenario`` by their weights, one call per task, with a pause of a second between.

    Derive from it to set another ``wait_time``. Importing this module is all that a locustfile needs to do: it adds
    the options, and the reports at the end.
    """

    abstract = True
    wait_time = constant(1)

    @task
    def call(self) -> None:
        """Hold one call. Its turns appear as requests when it has ended."""
        result = plugin.of(self.environment).worker.play()
        if result.outcome == "failed":
            gevent.sleep(BACK_OFF_S)


plugin.install()
