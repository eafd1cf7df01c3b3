"""Many callers, one report.

    locust -f locustfiles/voice.py --headless -u 50 -r 10 -t 2m --processes 2 \\
        --host ws://127.0.0.1:8765 --scenario scenarios/booking.yaml

``--host`` is the agent's address; ``locust -f locustfiles/voice.py --help`` lists the options. Without ``--headless``
the same file serves Locust's web UI. How it works is in ``voicebench.load``.
"""

from voicebench.load.user import VoiceUser


class Caller(VoiceUser):
    """Holds one call after the other, with a pause of a second."""
