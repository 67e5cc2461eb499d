#!/bin/sh
# Installs other people's MCP clients below .venv, once, and lets them talk to the hub (see run.py).
set -eu
cd "$(dirname "$0")/../.."

tests/node/install.sh

pinned=tests/interop/requirements-mcp1.txt
target=.venv/interop-mcp1
if ! cmp -s "$pinned" "$target/.installed"; then
    echo "Installing the Python client of the first generation ..." >&2
    .venv/bin/python -m venv --clear "$target"
    "$target/bin/python" -m pip --disable-pip-version-check install --quiet --quiet --require-hashes -r "$pinned"
    cp "$pinned" "$target/.installed"
fi

exec .venv/bin/python tests/interop/run.py
