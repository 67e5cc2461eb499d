#!/bin/sh
# The MCP conformance suite against the hub, for both revisions. Fails if a scenario that a revision requires fails;
# the others (extensions that Kho does not have, drafts) are only shown.
set -eu
cd "$(dirname "$0")/../.."

tests/node/install.sh
PATH=$PWD/.venv/node/node_modules/.bin:$PATH
work=$(mktemp -d)

.venv/bin/python tests/conformance/server.py "$work/home" >"$work/url" 2>"$work/server.log" &
server=$!
trap 'kill "$server" 2>/dev/null || :; wait "$server" 2>/dev/null || :; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

patience=300
until [ -s "$work/url" ]; do
    patience=$((patience - 1))
    if [ "$patience" -eq 0 ] || ! kill -0 "$server" 2>/dev/null; then
        cat "$work/server.log" >&2
        echo "The server did not start." >&2
        exit 1
    fi
    sleep 0.1
done

failed=0
for revision in 2025-11-25 2026-07-28; do
    echo "MCP $revision"
    if conformance server --url "$(cat "$work/url")" --requirements "$revision" --timeout 30000 >"$work/out" 2>&1; then
        sed '1,/^=== SUMMARY ===$/d' "$work/out"
        echo "All scenarios that $revision requires pass."
    else
        cat "$work/out"
        echo "Not all scenarios that $revision requires pass."
        failed=1
    fi
    echo
done
exit $failed
