"""The clients that the density benchmark compares: each a program of its own that runs on one core.

Every one is called with the agent's URL, a number of calls, a length in seconds, and a path OUT, and writes

    OUT.json      what it counted: ``start_ns``, ``end_ns`` (the stretch in which all calls were up), ``cpu_s`` in it,
                  ``waited_s`` for the core while ready to run, ``rss_before_kib``, ``rss_after_kib``, ``started``,
                  ``failed``, ``stamps`` (kernel or wakeup)
    OUT.sent      per caller frame: due, sent; sent is -1 if the frame was skipped
    OUT.received  per agent frame: arrived, and the agent's stamp (when it sent the frame)
    OUT.turns     per turn: call number, end of the caller's speech, measured latency (-1: none), whether it is void

The last three are int64 in native order, row after row; times are CLOCK_MONOTONIC nanoseconds. Calls tell the agent
their number in the header ``X-Call-Id``.
"""
