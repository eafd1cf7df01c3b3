"""The benchmark's rows for people: a line in the terminal, Markdown tables, and a plot."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from voicebench.report import svg

HEADER = (
    "client   calls   CPU waited on time | send lag p50    p99    max |  raw p99 | arrival p50    p99 |"
    " response p50   p99 | void skip | KiB/call | broke"
)
MARKS = re.compile(r"(<!-- bench -->\n).*?(<!-- /bench -->)", re.DOTALL)
COLOURS = {"ours": "#1f6feb", "ours-tls": "#8250df", "naive": "#bc4c00", "peer": "#cf222e", "c": "#1a7f37"}
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #444 } .head { font-weight: 600 }
.grid { stroke: #ddd } .limit { stroke: #cf222e; stroke-dasharray: 4 3 }
path { fill: none; stroke-width: 2 }
""" + "".join(
    f".{name} {{ stroke: {colour} }} .{name}-dot {{ fill: {colour} }}\n" for name, colour in COLOURS.items()
)


def line(row: dict[str, Any]) -> str:
    """A row in the terminal."""
    if "send_lag_ms" not in row:
        return f"{row['client']:8} {row['calls']:5}  -- {row['broke']}"
    lag, raw = _figures(row["send_lag_ms"], "on_time"), _figures(row["send_lag_ms"], "raw")
    arrival, error = _figures(row["arrival_error_ms"], "on_time"), _figures(row["response_error_ms"], "on_time")
    return (
        f"{row['client']:8} {row['calls']:5}  {row['cpu']:4.0%}  {row['waited']:5.0%} {row['machine_on_time']:7.0%} |"
        f"       {lag[0]:6} {lag[1]:>6} {lag[2]:>6} |   {raw[1]:>6} |      {arrival[0]:>6} {arrival[1]:>6} |"
        f"       {error[0]:>6} {error[1]:>5} | {row['void_turns']['on_time']:4} {row['skipped_frames']:4} |"
        f"    {row['memory_per_call_kib']:5} | {row['broke']}"
    )


def write(report: dict[str, Any], out: Path, into: Path | None) -> None:
    """Write bench.md and bench.svg into ``out``, and the tables into a file that has the marks."""
    text = markdown(report)
    (out / "bench.md").write_text(f"# Benchmark\n\n{text}")
    (out / "bench.svg").write_text(plot(report))
    print(text)
    if into is not None:
        old = into.read_text()
        if not MARKS.search(old):
            raise SystemExit(f"{into}: no marks <!-- bench --> and <!-- /bench --> to put the tables between")
        into.write_text(MARKS.sub(lambda found: f"{found[1]}{text}{found[2]}", old))


def markdown(report: dict[str, Any]) -> str:
    """What came out, and all rows."""
    about = report["machine"]
    rows = [row for row in report["rows"] if "send_lag_ms" in row]
    missing = [row for row in report["rows"] if "send_lag_ms" not in row]
    lines = [
        f"{about['cpu']}, {about['cores']} cores, Linux {about['kernel']}, Python {about['python']}, {about['at']};"
        f" {report['seconds']:g} s a step.",
        "",
        "| client | calls a core | at 1 ms | CPU | send lag p99 | arrival error p99 | response error p99"
        " | memory a call |",
        "|---|---|---|---|---|---|---|---|",
        *(_verdict(name, label, rows) for name, label in report["labels"].items() if _rows_of(rows, name)),
        "",
        "*Calls a core* is the largest step with a send lag of at most 10 ms at p99 and the core not full, *at 1 ms*"
        " that with at most 1 ms; the other columns are those of the former. All figures are in ms, for the time in"
        " which the machine itself was on time. *Waited* is the time for which the client was ready to run and had no"
        " core: other programs were running beside it, which spoils the figures.",
        "",
        "| client | calls | CPU | waited | machine on time | send lag p50 / p99 / max | raw p99"
        " | arrival error p50 / p99 | response error p50 / p99 | raw p99 | void turns (raw) | skipped frames"
        " | broke |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
        *(_row(row, report["labels"]) for row in rows),
        "",
        *(f"- {report['labels'][row['client']]}, {row['calls']} calls: {row['broke']}." for row in missing),
    ]
    return "\n".join(lines).rstrip() + "\n"


def holds(rows: Sequence[dict[str, Any]], limit_ms: float = 10.0) -> dict[str, Any] | None:
    """The largest step that held with so much lag at most."""
    good = [row for row in rows if not row["broke"] and row["send_lag_ms"]["on_time"]["p99"] <= limit_ms]
    return max(good, key=lambda row: int(row["calls"]), default=None)


def _rows_of(rows: Sequence[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["client"] == name]


def _verdict(name: str, label: str, rows: Sequence[dict[str, Any]]) -> str:
    mine = _rows_of(rows, name)
    best, exact = holds(mine), holds(mine, 1.0)
    if best is None:
        return f"| {label} | under {mine[0]['calls']} | | | | | | |"
    lag, arrival = _figures(best["send_lag_ms"], "on_time")[1], _figures(best["arrival_error_ms"], "on_time")[1]
    error = _figures(best["response_error_ms"], "on_time")[1]
    least = exact["calls"] if exact else f"under {mine[0]['calls']}"
    memory = f"{best['memory_per_call_kib']} KiB"
    return f"| {label} | {best['calls']} | {least} | {best['cpu']:.0%} | {lag} | {arrival} | {error} | {memory} |"


def _row(row: dict[str, Any], labels: dict[str, str]) -> str:
    lag, raw = _figures(row["send_lag_ms"], "on_time"), _figures(row["send_lag_ms"], "raw")
    arrival, error = _figures(row["arrival_error_ms"], "on_time"), _figures(row["response_error_ms"], "on_time")
    void = row["void_turns"]
    return (
        f"| {labels[row['client']]} | {row['calls']} | {row['cpu']:.0%} | {row['waited']:.0%} |"
        f" {row['machine_on_time']:.0%} |"
        f" {' / '.join(lag)} | {raw[1]} | {' / '.join(arrival[:2])} | {' / '.join(error[:2])} |"
        f" {_figures(row['response_error_ms'], 'raw')[1]} | {void['on_time']} ({void['raw']}) of {row['turns']} |"
        f" {row['skipped_frames']} | {row['broke']} |"
    )


def _figures(both: dict[str, Any] | None, which: str) -> tuple[str, str, str]:
    found = both and both[which]
    if not found:
        return "--", "--", "--"
    p50, p99, top = (f"{found[name]:.{3 if found[name] < 0.1 else 2 if found[name] < 10 else 0}f}" for name in (
        "p50", "p99", "max"))  # fmt: skip
    return p50, p99, top


def plot(report: dict[str, Any]) -> str:
    """Send lag and processor time against the number of calls."""
    rows = [row for row in report["rows"] if "send_lag_ms" in row]
    most = max((row["calls"] for row in rows), default=100)
    names = [name for name in report["labels"] if _rows_of(rows, name)]
    panels = _panel(rows, names, most, 20, "send lag p99, ms", [0.01, 0.1, 1, 10, 100, 1000], _lag, True)
    panels += _panel(rows, names, most, 480, "share of the core", [0, 0.25, 0.5, 0.75, 1.0], _cpu, False)
    legend = ""
    for place, name in enumerate(names):
        x = 60 + 180 * place
        legend += svg.rect(x, 316, 10, 10, f"{name}-dot") + svg.text(x + 16, 325, report["labels"][name])
    label = "Send lag and processor time against the number of calls"
    drawing = svg.drawing(960, 340, svg.tag("style", STYLE) + panels + legend, label)
    return drawing.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1) + "\n"


def _lag(row: dict[str, Any]) -> float | None:
    found = row["send_lag_ms"]["on_time"]
    return found and max(float(found["p99"]), 0.01)


def _cpu(row: dict[str, Any]) -> float | None:
    return float(row["cpu"])


def _panel(
    rows: Sequence[dict[str, Any]],
    names: Sequence[str],
    most: int,
    left: float,
    head: str,
    ticks: Sequence[float],
    value: Any,
    logarithmic: bool,
) -> str:
    from math import log10

    def place(number: float) -> float:
        return log10(number) if logarithmic else number

    x = svg.Axis(0, most, left + 40, left + 440)
    y = svg.Axis(place(ticks[0]), place(ticks[-1]), 270, 40)
    drawn = svg.text(left, 22, head, "head")
    for tick in ticks:
        drawn += svg.line(left + 40, y(place(tick)), left + 440, y(place(tick)), "grid")
        drawn += svg.text(left + 34, y(place(tick)) + 4, f"{tick:g}", anchor="end")
    for tick in x.ticks(5):
        drawn += svg.text(x(tick), 288, f"{tick:g}", anchor="middle")
    drawn += svg.text(left + 440, 304, "calls", anchor="end")
    if logarithmic:
        drawn += svg.line(left + 40, y(1), left + 440, y(1), "limit", "the limit of 10 ms")
    for name in names:
        points = [(x(row["calls"]), y(place(value(row)))) for row in _rows_of(rows, name) if value(row) is not None]
        if points:
            drawn += svg.path(points, name)
            drawn += "".join(svg.rect(px - 3, py - 3, 6, 6, f"{name}-dot") for px, py in points)
    return drawn
