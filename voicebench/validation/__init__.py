"""Does the tool see what it is there to see? The reference agent with each of its defects, measured (TV13, TV14).

A *row* is the reference agent with one defect. Each has to move its own metrics, and to leave the others near those
of its *base*, which is the row without that defect. What it cannot help moving besides is listed with it, so that
nothing moves unseen. Every row is called by one who listens to the greeting and by one who talks over it.
"""

from voicebench.validation.matrix import TRANSPORTS, Matrix, Measured, Problem, Transport, check, validate
from voicebench.validation.rows import METRICS, ROWS, Limit, Row
from voicebench.validation.show import ranges, table, to_dict

__all__ = [
    "METRICS",
    "ROWS",
    "TRANSPORTS",
    "Limit",
    "Matrix",
    "Measured",
    "Problem",
    "Row",
    "Transport",
    "check",
    "ranges",
    "table",
    "to_dict",
    "validate",
]
