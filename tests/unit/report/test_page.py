"""The page, the console table and Markdown: what they show, and what they must never do."""

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from tests.golden.report.handmade import (
    answered,
    booking,
    call,
    handmade_calls,
    handmade_run,
    interrupted,
    measured,
    missed,
    scenario,
)
from voicebench.metrics.results import RunInfo, SessionResult, WorkerInfo
from voicebench.report.build import build_report
from voicebench.report.console import render_console
from voicebench.report.html import render_html, shown_calls
from voicebench.report.markdown import render_markdown
from voicebench.report.speech import speech_timeline

EVIL = "<script>alert('x')</script>\"><img src=x onerror=alert(1)>"


class Page(HTMLParser):
    """Collects the tags and attributes of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def attributes(self, *names: str) -> list[str]:
        return [value or "" for _, attrs in self.tags for name, value in attrs.items() if name in names]


def page_of(run: RunInfo, calls: list[SessionResult]) -> str:
    return render_html(build_report(run, calls), calls)


def small_run(calls: list[SessionResult], **more: Any) -> RunInfo:
    worker = WorkerInfo("worker-1", "", len(calls), len(calls), 0)
    return handmade_run(**{"workers": (worker,), "scenarios": handmade_run().scenarios[:1], "notes": (), **more})


def test_nothing_that_a_call_carries_can_run_as_script() -> None:
    turn = answered(EVIL, 0.5, 2.5, 600.0, transcript=EVIL, notes=(EVIL,))
    silent = missed(EVIL, 4.0, 5.0, EVIL)
    recording = {"stereo": EVIL, "user": "javascript:alert(1)", EVIL: "a.wav"}
    calls = [
        call(EVIL, EVIL, measured((turn, silent), ((3.1, 4.0),)), worker=EVIL, recording=recording),
        call("two", EVIL, None, "failed", EVIL, worker=EVIL),
    ]
    evil = scenario(EVIL, [EVIL], ["respond"], {"max_response_latency_ms": 1.0})
    workers = (WorkerInfo(EVIL, EVIL, 2, 2, 0), WorkerInfo("idle", EVIL, 0, 0, 0))
    adapter = {"type": EVIL, "url": EVIL}
    run = handmade_run(
        id=EVIL, scenarios=(evil, evil), workers=workers, notes=(EVIL,), command=EVIL, adapter=adapter, python=EVIL
    )
    page = Page(page_of(run, calls))
    assert {"script", "img", "iframe", "object", "embed"}.isdisjoint(tag for tag, _ in page.tags)
    assert not [name for _, attrs in page.tags for name in attrs if name.startswith("on")]
    assert all(link.startswith("./") for link in page.attributes("href", "src"))


def test_the_page_asks_nothing_of_any_other_place() -> None:
    page = page_of(handmade_run(), handmade_calls())
    assert not re.findall(r"@import|url\((?!#)|<link|<script|https?://(?!www\.w3\.org)", page)
    policy = Page(page).attributes("content")[0]
    assert policy.startswith("default-src 'none';")
    assert "script-src" not in policy


def test_recordings_are_linked_with_quoted_relative_paths() -> None:
    calls = [booking("call-1", 600.0, recording={"stereo": "recordings/a b#1.wav", "user": "../w/u.wav"})]
    links = Page(page_of(small_run(calls), calls)).attributes("href", "src")
    assert links == ["./recordings/a%20b%231.wav", "./recordings/a%20b%231.wav", "./../w/u.wav"]


def test_every_drawing_is_well_formed() -> None:
    drawings = re.findall(r"<svg.*?</svg>", page_of(handmade_run(), handmade_calls()), re.DOTALL)
    assert len(drawings) == 1 + 2 + 11  # the hatches, two plots, and each of the eleven calls that were measured
    for drawing in drawings:
        ElementTree.fromstring(drawing)


def test_up_to_20_calls_are_all_shown_in_their_order() -> None:
    calls = [booking(f"call-{number}", 600.0) for number in range(20)]
    assert shown_calls(calls) == calls


def test_of_more_calls_the_failed_ones_come_first_and_then_the_slowest() -> None:
    good = [booking(f"good-{number}", 500.0 + number) for number in range(100)]
    bad = [call(f"bad-{number}", "booking", measured((missed("ask", 0.5, 2.5),), ())) for number in range(3)]
    refused = [call(f"refused-{number}", "booking", None, "failed", "refused") for number in range(50)]
    shown = [item.call_id for item in shown_calls([*good, *refused, *bad])]
    assert len(shown) == 30
    assert shown[:3] == ["bad-0", "bad-1", "bad-2"]
    assert shown[3:8] == [f"refused-{number}" for number in range(5)]
    assert shown[8:11] == ["good-99", "good-98", "good-97"]


def texts(drawing: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(drawing).iter("text")]


def test_the_speech_timeline_annotates_latency_stop_and_failures() -> None:
    metrics = interrupted("call", 380.0, True, False).metrics
    assert metrics is not None
    drawing = speech_timeline(metrics, "a call")
    assert {"✓ ask", "✓ cut-in", "✓ cough", "650 ms", "stop 380 ms"} <= set(texts(drawing))
    assert drawing.count('class="clear"') == 1
    assert drawing.count('class="overlap"') == 2  # the cut-in until the agent stopped, and the cough

    deaf = interrupted("call", None, False, True).metrics
    assert deaf is not None
    assert {"✕ cut-in", "did not stop", "✕ cough", "false barge-in"} <= set(texts(speech_timeline(deaf, "a call")))


def test_the_speech_timeline_hatches_talk_over() -> None:
    talk_over = measured((answered("ask", 0.5, 2.5, -300.0),), ((2.2, 5.0),))
    drawing = speech_timeline(talk_over, "a call")
    assert drawing.count('class="talk-over"') == 1
    assert "-300 ms" in texts(drawing)


def test_lanes_are_drawn_to_scale() -> None:
    metrics = measured((answered("ask", 0.0, 9.0, 600.0),), ())  # half of the call's 18 s
    bars = [item.attrib for item in ElementTree.fromstring(speech_timeline(metrics, "x")).iter("rect")]
    lane = next(bar for bar in bars if bar["class"] == "lane")
    spoken = next(bar for bar in bars if bar["class"] == "speech-caller")
    assert float(spoken["width"]) == pytest.approx(float(lane["width"]) / 2, abs=0.1)


def test_a_plot_of_one_value_and_of_none_can_be_drawn() -> None:
    for calls in ([call("one", "booking", measured((answered("ask", 0.5, 2.5, 0.0),), ()))], []):
        assert "</html>" in page_of(small_run(calls), calls)


def test_what_lies_beyond_the_axis_is_counted() -> None:
    calls = [booking(f"call-{number}", 600.0) for number in range(200)] + [booking("slow", 60_000.0)]
    assert "→ 1 beyond, up to 60,000 ms" in page_of(small_run(calls), calls)


def test_the_console_fits_100_columns() -> None:
    long_name = "a-turn-with-a-name-that-somebody-made-far-too-long-for-any-table-" * 3
    calls = [
        *handmade_calls(),
        call("x" * 32, "booking", measured((missed(long_name, 1.0, 2.0, "a long note " * 30),), ())),
    ]
    for shown in (calls, calls[-1:]):
        lines = render_console(build_report(handmade_run(), shown), color=False).splitlines()
        assert max(map(len, lines)) <= 100


def test_the_console_is_coloured_only_when_asked() -> None:
    report = build_report(handmade_run(), handmade_calls())
    assert "\x1b" not in render_console(report, color=False)
    assert "\x1b[1;31mFAIL\x1b[0m  barge-in: min_barge_in_success_rate" in render_console(report, color=True)


class Terminal:
    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None:
        pass


def test_a_terminal_gets_colour_unless_its_user_forbids_it(monkeypatch: pytest.MonkeyPatch) -> None:
    report = build_report(handmade_run(), handmade_calls())
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b" not in render_console(report)
    monkeypatch.setattr("sys.stdout", Terminal())
    assert "\x1b" in render_console(report)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in render_console(report)


def test_what_an_agent_says_cannot_steer_the_terminal() -> None:
    calls = [call("call-1", "booking", None, "failed", "bye\x1b[2J\r\x07\nnow")]
    shown = render_console(build_report(small_run(calls), calls), color=False)
    assert "bye [2J now" in shown


def test_markdown_shows_markup_as_text() -> None:
    calls = [call("a|b", "booking", None, "failed", "<b>*bold*</b> _x_ a_b\n# no heading")]
    shown = render_markdown(build_report(small_run(calls), calls))
    assert "| 1 | failed | &lt;b&gt;\\*bold\\*&lt;/b&gt; \\_x\\_ a_b \\# no heading |" in shown


def test_a_void_turn_is_neither_passed_nor_failed_anywhere() -> None:
    calls = [item for item in handmade_calls() if item.call_id == "call-07"]
    report = build_report(small_run(calls), calls)
    assert report["failed_turns"] == []
    assert re.search(r"\| ask \| respond \|.* \| void \| void: 4 frames were sent late \|", render_markdown(report))
    assert "○ ask" in render_html(report, calls)


def test_the_same_calls_give_the_same_page() -> None:
    first, second = (page_of(handmade_run(), handmade_calls()) for _ in range(2))
    other = page_of(replace(handmade_run(), created_at="2026-01-01T00:00:00+00:00"), handmade_calls())
    assert first == second
    assert other.replace("2026-01-01T00:00:00", "2025-10-09T08:53:20") == first
