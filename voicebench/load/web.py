"""A tab in Locust's web UI with the live figures of each turn.

It adds to the answer of ``/stats/requests``, which the page asks for anyway: no route of its own, and nothing to see
for whoever is not logged in.
"""

import json
from collections.abc import Callable
from typing import Any

from flask import Response, request

from voicebench.load.live import LiveTable

KEY = "voicebench"
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


def extend(web_ui: Any, table: Callable[[], LiveTable]) -> None:
    """Add the tab to a web UI that has not started yet."""
    structure = [{"key": key, "title": title} for key, title in _COLUMNS.items()]  # its rounding would show None as 0
    web_ui.template_args.update(
        extended_tabs=[*web_ui.template_args.get("extended_tabs", []), {"title": "Voicebench", "key": KEY}],
        extended_tables=[
            *web_ui.template_args.get("extended_tables", []),
            {"key": KEY, "structure": structure},
        ],
    )

    @web_ui.app.after_request  # type: ignore[untyped-decorator]
    def add_rows(response: Response) -> Response:
        if request.path.endswith("/stats/requests") and response.status_code == 200 and response.is_json:
            body = json.loads(response.get_data())
            extended = [*body.get("extended_stats", []), {"key": KEY, "data": table().rows()}]
            response.set_data(json.dumps({**body, "extended_stats": extended}))
        return response
