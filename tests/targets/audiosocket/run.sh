#!/usr/bin/env bash
# Calls asterisk-ai-voice-agent over AudioSocket: one caller, then ten at once. Needs make setup, and Python 3.11.
#
#   run.sh [PORT]      PORT (default 9092), PORT + 1 and PORT + 2 have to be free
#
# The first time it installs the agent (0.5 GB) in ${VOICEBENCH_TARGETS_HOME:-~/.cache/voicebench-targets}/audiosocket.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
venv=${VOICEBENCH_TARGETS_HOME:-$HOME/.cache/voicebench-targets}/audiosocket
port=${1:-9092}

if [ ! -e "$venv/.installed" ]; then
  "${PYTHON:-python3.11}" -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$here/requirements.txt"
  cp "$here/requirements.txt" "$venv/.installed"
fi

log=$(mktemp)
nice -n 10 "$venv/bin/python" "$here/agent.py" "$port" >"$log" 2>&1 & # Piper takes every core that it can get
agent=$!
trap 'kill "$agent" 2>/dev/null; rm -f "$log"' EXIT
until grep -q READY "$log"; do
  kill -0 "$agent" 2>/dev/null || { cat "$log" >&2; exit 1; }
  sleep 0.2
done

url=audiosocket://127.0.0.1:$port
register=register_url=http://127.0.0.1:$((port + 1))/register
out=$root/reports/target-audiosocket
failed=0
"$root/.venv/bin/voicebench" run "$here/call.yaml" --url "$url" -o "$register" --record all --out "$out-1" || failed=$?
cd "$root"
VOICEBENCH_SCENARIO=$here/call.yaml .venv/bin/locust -f locustfiles/voice.py --headless -u 10 -r 5 -t 20s \
  --host "$url" --adapter-option "$register" --voicebench-drain-s 30 --voicebench-out "$out-10" || failed=$?
exit "$failed"
