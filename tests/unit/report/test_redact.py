"""Secrets never appear in what people read."""

import json

import pytest

from tests.golden.report.handmade import booking, call, handmade_run
from voicebench.report.build import build_report
from voicebench.report.console import render_console
from voicebench.report.html import render_html
from voicebench.report.markdown import render_markdown
from voicebench.report.redact import is_secret_name, redact, redact_command, redact_text, redact_url


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("wss://me:pw@host:8765/path?token=x&room=y#frag", "wss://***@host:8765/path?token=***&room=***"),
        ("ws://host/path", "ws://host/path"),
        ("ws://host?s3cr3t", "ws://host?***"),
        ("ws://me@[::1]:80/", "ws://***@[::1]:80/"),
        ("ws://[broken", "***"),
    ],
)
def test_urls_keep_the_place_and_lose_the_secret(url: str, shown: str) -> None:
    assert redact_url(url) == shown


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("api_key", True),
        ("X-Api-Key", True),
        ("authToken", True),
        ("Authorization", True),
        ("client_secret", True),
        ("DB_PASSWORD", True),
        ("keyboard", False),
        ("key", False),
        ("max_tokens", False),
        ("author", False),
        ("monkey", False),
    ],
)
def test_names_of_secrets(name: str, secret: bool) -> None:
    assert is_secret_name(name) is secret


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("voicebench run a.yaml --token abc -n 3", "voicebench run a.yaml --token '***' -n 3"),
        ("voicebench run --api-key=abc a.yaml", "voicebench run '--api-key=***' a.yaml"),
        ("API_KEY=abc voicebench run", "'API_KEY=***' voicebench run"),
        ("voicebench run -o 'headers={Authorization: Bearer abc}'", "voicebench run -o 'headers=***'"),
        ("voicebench run -o token=abc", "voicebench run -o 'token=***'"),
        ("voicebench run '-oheaders={X-Pin: abc}'", "voicebench run '-oheaders=***'"),
        ("voicebench run '--option=headers={X-Pin: abc}'", "voicebench run '--option=headers=***'"),
        ("locust '--adapter-option=headers={X-Pin: abc}' -u 5", "locust '--adapter-option=headers=***' -u 5"),
        ("voicebench run -o 'register_headers={X-Pin: abc}'", "voicebench run -o 'register_headers=***'"),
        ("voicebench run -o 'register_body={pin: abc}'", "voicebench run -o 'register_body=***'"),
        ("voicebench run -o 'start_message={hello: abc}'", "voicebench run -o 'start_message=***'"),
        (
            "locust --adapter-option=gap_ms=5 --host=ws://h/?k=abc",
            "locust --adapter-option=gap_ms=5 '--host=ws://h/?k=***'",
        ),
        ("voicebench run --url ws://me:abc@host/", "voicebench run --url 'ws://***@host/'"),
        ("voicebench run -H 'Authorization: Bearer abc'", "voicebench run -H 'Authorization: Bearer ***'"),
        ("voicebench run a.yaml -n 3 --out 'my reports'", "voicebench run a.yaml -n 3 --out 'my reports'"),
        ("voicebench run 'unbalanced --token=abc", "voicebench run 'unbalanced --token=***"),
    ],
)
def test_command_lines(command: str, shown: str) -> None:
    assert redact_command(command) == shown


def test_sentences_lose_secrets_and_keep_their_sense() -> None:
    assert redact_text("HTTP 401 from wss://h/?k=abc: bad token") == "HTTP 401 from wss://h/?k=***: bad token"
    assert redact_text("sent 'Authorization: Bearer abc.def'") == "sent 'Authorization: Bearer ***'"
    assert redact_text('{"password": "abc def"}') == '{"password": ***}'
    assert redact_text("scenario: 3 turns at 12:30") == "scenario: 3 turns at 12:30"


def test_mappings_are_searched_at_any_depth() -> None:
    config = {
        "url": "ws://me:abc@host/",
        "headers": {"X-Anything": "abc"},
        "start_message": {"auth": {"token": "abc"}, "items": [{"secret": "abc"}, 5], "language": "en"},
        "connect_timeout_s": 10,
        "token": None,
    }
    assert redact(config) == {
        "url": "ws://***@host/",
        "headers": {"X-Anything": "***"},
        "start_message": {"auth": {"token": "***"}, "items": [{"secret": "***"}, 5], "language": "en"},
        "connect_timeout_s": 10,
        "token": None,
    }


def test_no_report_shows_a_secret_wherever_it_came_from() -> None:
    secret = "s3cr3t-v4lue"
    run = handmade_run(
        adapter={"type": "websocket", "config": {"url": f"wss://u:{secret}@h/?t={secret}", "api_key": secret}},
        command=f"locust --host wss://h/?t={secret} --token {secret}",
        notes=(f"worker-1 was told token={secret}",),
        workers=(),
    )
    broken = call("call-2", "booking", None, "failed", f"cannot connect to wss://h/?t={secret}: refused")
    calls = [booking("call-1", 600.0), broken]
    report = build_report(run, calls)
    for shown in (json.dumps(report), render_markdown(report), render_console(report), render_html(report, calls)):
        assert secret not in shown
