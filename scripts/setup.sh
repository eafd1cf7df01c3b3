#!/usr/bin/env bash
# Makes .venv with the pinned, hashed requirements and this project in editable form. `make` calls it when needed.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
venv=.venv

die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

command -v "$python" >/dev/null || die "$python not found; install Python 3.11 or newer, or name one: make PYTHON=/path/to/python"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  die "$("$python" --version) is too old; voicebench needs Python 3.11 or newer: make PYTHON=/path/to/python"

if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then  # not made yet, or not to the end
  if ! "$python" -c 'import ensurepip' 2>/dev/null; then  # Debian ships ensurepip in a package of its own
    package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
      echo "setup: installing Debian's $package"
      { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$package"; } >/dev/null ||
        die "apt-get could not install $package; install it, then run make again"
    else
      die "$python cannot make virtual environments; run: sudo apt-get install $package"
    fi
  fi
  echo "setup: making $venv with $("$python" --version)"
  "$python" -m venv --clear "$venv" || die "cannot make $venv; is the disk full, or the folder read-only?"
fi

pip() { "$venv/bin/python" -m pip --disable-pip-version-check --no-input "$@"; }

echo "setup: installing requirements-dev.txt"
pip install -qq --require-hashes -r requirements-dev.txt
pip install -qq --no-deps --no-build-isolation --editable .
