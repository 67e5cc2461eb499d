"""`make bench`: every benchmark, one after the other; `make bench ARGS=doors` runs one of them.

Each is a module with its own options: `python -m bench.doors --help`. `make bench-check` runs their short forms.
"""

import subprocess
import sys

from bench import check

BENCHES = (*check.BENCHES, "hostile", "audit", "limits", "abuse", "backup", "verify")
"""The last six have no short form to compare, so they are in no check: what others wait for is wall time, what the
chain of the audit trail costs is a ratio already, what limits cost is too little to show in a call, a backup is
compared with programs that do less, and what checksums of pages cost is less than can be told from noise."""


def main() -> int:
    chosen = sys.argv[1:] or BENCHES
    if unknown := sorted({*chosen} - {*BENCHES}):
        print(f"no such benchmark: {', '.join(unknown)}. There are: {', '.join(BENCHES)}.", file=sys.stderr)
        return 2
    failed = 0
    for name in chosen:
        print(f"\n== bench.{name} ==", flush=True)
        failed += subprocess.run([sys.executable, "-m", f"bench.{name}"], check=False).returncode != 0
    return min(failed, 1)


if __name__ == "__main__":
    raise SystemExit(main())
