#!/usr/bin/env bash
# Writes requirements.txt and requirements-dev.txt anew from pyproject.toml: newest versions, with hashes.
set -euo pipefail
cd "$(dirname "$0")/.."

tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
# The files must hold on any machine, so what this one adds to the package index is left out.
export PIP_CONFIG_FILE=/dev/null PIP_DISABLE_PIP_VERSION_CHECK=1
unset PIP_FIND_LINKS PIP_EXTRA_INDEX_URL PIP_INDEX_URL PIP_CONSTRAINT

"${PYTHON:-python3}" -m venv "$tools"
"$tools/bin/pip" install --quiet 'pip-tools>=7.5,<8'

compile() { # output, further arguments...
  local output=$1; shift
  "$tools/bin/pip-compile" --quiet --upgrade --no-header --generate-hashes --allow-unsafe --strip-extras \
    --no-emit-index-url --no-emit-find-links --no-emit-options --build-deps-for editable \
    --output-file "$tools/out.txt" "$@" pyproject.toml
  { echo '# Made by `make lock` from pyproject.toml. Do not edit.'; cat "$tools/out.txt"; } >"$output"
  rm "$tools/out.txt"
}

compile requirements.txt
compile requirements-dev.txt --constraint requirements.txt --extra dev
