"""What people read: report.json, report.md, report.html, the console table, and the run directory behind them."""

from voicebench.report.build import build_report, exit_code
from voicebench.report.console import render_console
from voicebench.report.store import ReportError, RunWriter, load
from voicebench.report.write import FORMATS, report_again, write_reports

__all__ = [
    "FORMATS",
    "ReportError",
    "RunWriter",
    "build_report",
    "exit_code",
    "load",
    "render_console",
    "report_again",
    "write_reports",
]
