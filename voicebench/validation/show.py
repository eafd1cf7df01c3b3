"""The matrix for people and for programs."""

from typing import Any

from voicebench.validation.matrix import Matrix
from voicebench.validation.rows import METRICS, PACED, shown


def table(matrix: Matrix) -> str:
    """The matrix as text: medians, and a ``*`` at what a row is to move."""
    titles = [("defect", ""), *((metric.name, metric.unit) for metric in METRICS.values())]
    rows = [[title for title, _ in titles], [unit for _, unit in titles]]
    for each in matrix.rows:
        marked = (shown(key, each.value(key)) + "*" * (key in each.row.own) for key in METRICS)
        rows.append([each.row.name, *marked])
    widths = [max(len(row[i].rstrip("*")) for row in rows) for i in range(len(titles))]
    lines = []
    for first, *cells in rows:
        aligned = (
            cell.rjust(width + cell.endswith("*")).ljust(width + 1)
            for cell, width in zip(cells, widths[1:], strict=True)
        )
        lines.append("  ".join([first.ljust(widths[0]), *aligned]).rstrip())
    return "\n".join(lines)


def ranges(matrix: Matrix) -> str:
    """Median and range of what each row is to move, a line for each row (TV17)."""
    lines = []
    for each in matrix.rows:
        parts = []
        for key in each.row.own:
            known = each.values[key]
            span = f" ({shown(key, min(known))} to {shown(key, max(known))})" if known else ""
            parts.append(f"{METRICS[key].name} {shown(key, each.value(key))}{span} {METRICS[key].unit}")
        lines.append(f"  {each.row.name}: {', '.join(parts)}")
    return "\n".join(lines)


def to_dict(matrix: Matrix) -> dict[str, Any]:
    """The matrix as JSON data: median, min, max and n of every metric of every row (TV15)."""
    return {
        "transport": matrix.transport,
        "runs": matrix.runs,
        "passed": matrix.passed,
        "problems": [str(problem) for problem in matrix.problems],
        "rows": [
            {
                "defect": each.row.name,
                "options": {**PACED, **each.row.options},
                "own": sorted(each.row.own),
                "median": {
                    key: {
                        "median": each.value(key),
                        "min": min(known, default=None),
                        "max": max(known, default=None),
                        "n": len(known),
                    }
                    for key, known in each.values.items()
                },
            }
            for each in matrix.rows
        ],
    }
