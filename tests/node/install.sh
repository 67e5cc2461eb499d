#!/bin/sh
# install.sh [FOLDER [NAME]] installs what FOLDER/package-lock.json pins into .venv/NAME, once; without them, what stands
# here into .venv/node. The Node 22 that some tools need comes along as a package, so any Node that brings npm can start
# this. To move to other versions: edit package.json, then run beside it
#   npm install --package-lock-only --ignore-scripts
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
from=$(cd "$root/${1:-tests/node}" && pwd)
target=$root/.venv/${2:-node}

if cmp -s "$from/package-lock.json" "$target/.installed"; then
    exit 0
fi
if ! command -v npm >/dev/null; then
    echo "This needs Node 20 or newer with npm." >&2
    exit 1
fi
echo "Installing the Node tools ..." >&2
mkdir -p "$target"
cp "$from/package.json" "$from/package-lock.json" "$from/.npmrc" "$target"
cd "$target"
npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
# Packages for several platforms bring a program of this name, and npm 10 ends up with none of them.
ln -sf "$(ls "$PWD"/node_modules/node-*/bin/node 2>/dev/null || command -v node)" node_modules/.bin/node
cp package-lock.json .installed
