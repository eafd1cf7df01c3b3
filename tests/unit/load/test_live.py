"""The live table of the web UI, and how it joins Locust's answer."""

import json

import flask

from tests.unit.load.builders import result, turn
from voicebench.load import web
from voicebench.load.live import LiveTable


def table() -> LiveTable:
    live = LiveTable()
    live.started = 4
    for latency in (700.2, 801.3, 900.0):
        live.add(result("c", turns=(turn(latency), turn(None, id="turn-2", status={"response_latency_ms": "void"}))))
    return live


def test_rows_hold_exact_percentiles_missed_void_and_open_calls() -> None:
    first, second, total = table().rows()
    assert (first["name"], first["calls"], first["p50_ms"]) == ("booking/turn-1", 3, 801.3)
    assert first["p90_ms"] == 880.3
    assert (second["calls"], second["void"], second["p50_ms"]) == (3, 3, None)
    assert (total["name"], total["calls"], total["open"], total["void"]) == ("all calls", 3, 1, 3)


def test_missed_turns_and_failed_calls_count() -> None:
    live = LiveTable()
    live.add(result("a", outcome="failed", turns=(turn(None),)))
    assert [row["missed"] for row in live.rows()] == [1, 1]
    assert live.rows()[-1]["failed"] == 1


class Page:
    """What is used of Locust's web UI."""

    def __init__(self) -> None:
        self.app = flask.Flask("page")
        self.template_args: dict[str, object] = {}

        @self.app.route("/base/stats/requests")
        def stats() -> flask.Response:
            return flask.jsonify({"stats": [1]})

        @self.app.route("/login/stats/requests")
        def closed() -> flask.Response:
            return flask.Response("log in first", status=401)


def test_the_rows_join_the_answer_that_the_page_asks_for_anyway() -> None:
    page = Page()
    web.extend(page, table)
    client = page.app.test_client()
    body = json.loads(client.get("/base/stats/requests").data)
    assert body["stats"] == [1]
    assert [one["key"] for one in body["extended_stats"]] == ["voicebench", "voicebench-workers"]
    assert [len(one["data"]) for one in body["extended_stats"]] == [3, 0]
    assert client.get("/login/stats/requests").data == b"log in first"
    assert page.template_args["extended_tabs"] == [
        {"title": "Voicebench", "key": "voicebench"},
        {"title": "Voicebench workers", "key": "voicebench-workers"},
    ]


def test_each_worker_shows_how_late_it_was_when_it_last_told() -> None:
    live = LiveTable()
    live.keeps_time("w1", 3.14, {"loop_lag_ms": {"p99": 0.26}, "cpu_share": 0.5})
    live.keeps_time("w0", None, None)
    live.keeps_time("w1", 44.44, {"loop_lag_ms": {"p99": 9.0}, "cpu_share": 0.9})
    names = ("name", "send_lag_p99_ms", "loop_lag_p99_ms", "cpu_share")
    assert [tuple(row[name] for name in names) for row in live.worker_rows()] == [
        ("w0", None, None, None),
        ("w1", 44.4, 9.0, 0.9),
    ]
