"""Puts what the program prints today into README.md and README.ko.md; `check` says whether it stands there already.

A `<!-- run -->` comment marks a block whose command is run; `head=N` keeps its first N lines.

    python scripts/readme.py [check]
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILES = ("README.md", "README.ko.md")
BLOCK = re.compile(r"<!-- run(?: head=(\d+))? -->\n```console\n\$ (narrows [^\n]*)\n.*?```\n", re.DOTALL)


def output(command: str) -> list[str]:
    """Lines that a command prints without a terminal."""
    from narrows.cli.main import main
    from narrows.report.i18n import use_language

    buffer = io.StringIO()
    os.environ["NARROWS_LANG"] = "en"
    with contextlib.redirect_stdout(buffer), contextlib.suppress(SystemExit):
        main(shlex.split(command)[1:])
    use_language("en")
    return [line.rstrip() for line in buffer.getvalue().strip("\n").split("\n")]


def renewed(text: str) -> str:
    """The page with every marked block run again."""

    def block(match: re.Match[str]) -> str:
        lines = output(match[2])
        mark = "<!-- run -->"
        if match[1]:
            mark, lines = f"<!-- run head={match[1]} -->", [*lines[: int(match[1])], "…"]
        return "\n".join([mark, "```console", f"$ {match[2]}", *lines, "```", ""])

    return BLOCK.sub(block, text)


def main(check: bool) -> int:
    """Renew the pages, or say which of them are out of date."""
    stale = []
    for name in FILES:
        path = ROOT / name
        text = path.read_text("utf-8")
        if renewed(text) != text:
            stale.append(name)
            if not check:
                path.write_text(renewed(text), "utf-8")
    print(f"out of date: {', '.join(stale)}" if stale and check else f"renewed: {', '.join(stale) or 'nothing'}")
    return 1 if stale and check else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] == ["check"]))
