"""What `commands.json` should hold. `make commands` writes it."""

import json

from kho import entrypoint
from kho.doors import cli


def table() -> str:
    return json.dumps(cli.table(entrypoint.program("kho")), indent=1, ensure_ascii=False, sort_keys=True) + "\n"


if __name__ == "__main__":
    cli.TABLE.write_text(table(), "utf-8")
