#!/bin/sh
# Installs agents that people use below .venv, once, and connects them to the installed wheel (see real_clients.py).
set -eu
cd "$(dirname "$0")/../.."

tests/node/install.sh tests/clients clients

pinned=tests/clients/requirements-skillsaw.txt
target=.venv/skillsaw
if ! cmp -s "$pinned" "$target/.installed"; then
    .venv/bin/uv venv --quiet --clear "$target"
    .venv/bin/uv pip install --quiet --python "$target/bin/python" --require-hashes -r "$pinned"
    cp "$pinned" "$target/.installed"
fi

exec .venv/bin/python -m pytest -v tests/clients/real_clients.py "$@"
