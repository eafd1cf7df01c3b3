"""Exit codes of every command and of Locust runs.

The README's table is made from these docstrings, so that the two cannot differ.
"""

from enum import IntEnum


class Exit(IntEnum):
    """What the process tells the shell."""

    OK = 0  #: every assertion held
    ASSERTION = 1  #: an assertion failed
    USAGE = 2  #: usage or scenario error
    UNREACHABLE = 3  #: the agent could not be reached, or the adapter could not load
    INVALID = 4  #: the measurement is not valid: calls lost, harness lag over its limit, no call completed
