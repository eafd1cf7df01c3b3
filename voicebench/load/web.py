"""Two tabs in Locust's web UI: the live figures of each turn, and how well each worker keeps time.

It adds to the answer of ``/stats/requests``, which the page asks for anyway: no route of its own, and nothing to see
for whoever is not logged in.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from flask import Response, request

from voicebench.load.live import LiveTable

KEY, WORKERS_KEY = "voicebench", "voicebench-workers"
_TITLES = {KEY: "Voicebench", WORKERS_KEY: "Voicebench workers"}
_COLUMNS = {
    "name": "Turn",
    "calls": "# Calls",
    "p50_ms": "Response p50 (ms)",
    "p90_ms": "Response p90 (ms)",
    "missed": "# Missed",
    "void": "# Void",
    "failed": "# Failed",
    "open": "# Open or lost",
}

_WORKER_COLUMNS = {
    "name": "Worker",
    "send_lag_p99_ms": "Send lag p99, last 10 s (ms)",
    "loop_lag_p99_ms": "Loop lag p99 (ms)",
    "cpu_share": "CPU (1 is a core)",
}


def extend(web_ui: Any, table: Callable[[], LiveTable]) -> None:
    """Add the tabs to a web UI that has not started yet."""
    tabs = [{"title": title, "key": key} for key, title in _TITLES.items()]
    tables = [{"key": KEY, "structure": _structure(_COLUMNS)}]
    tables += [{"key": WORKERS_KEY, "structure": _structure(_WORKER_COLUMNS)}]
    web_ui.template_args.update(
        extended_tabs=[*web_ui.template_args.get("extended_tabs", []), *tabs],
        extended_tables=[*web_ui.template_args.get("extended_tables", []), *tables],
    )

    @web_ui.app.after_request  # type: ignore[untyped-decorator]
    def add_rows(response: Response) -> Response:
        if request.path.endswith("/stats/requests") and response.status_code == 200 and response.is_json:
            body = json.loads(response.get_data())
            rows = {KEY: table().rows(), WORKERS_KEY: table().worker_rows()}
            ours = [{"key": key, "data": data} for key, data in rows.items()]
            response.set_data(json.dumps({**body, "extended_stats": [*body.get("extended_stats", []), *ours]}))
        return response


def _structure(columns: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "title": title} for key, title in columns.items()]  # its rounding would show None as 0
