"""Makes src/narrows/models/data/field-kinds.json: which kinds of value a config field of a name holds.

    python -m scripts.make_field_kinds [MORE.jsonl.gz ...]

Read are the configs that the repository carries — the catalogue, and the tests' configs of transformers' own classes
and of quantized checkpoints — and of further files the rows' `config`. Under the names of one or two kinds, joined by a
space, stand the fields that hold no other in any of them; null says nothing.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from narrows.models.kinds import holds_fields

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "src" / "narrows" / "models" / "data"
TESTS = [ROOT / "tests" / "data" / f"{name}.jsonl.gz" for name in ("oracle", "odd_configs", "quantized")]
KINDS = {dict: "object", list: "list", str: "text", bool: "flag", int: "number", float: "number"}


def configs(path: Path) -> Iterator[dict[str, Any]]:
    """The configs of a file of rows."""
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    for line in text.splitlines():
        found = json.loads(line).get("config")
        if isinstance(found, dict):
            yield found


def fields(config: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Name and kind of every field, also of objects of fields inside."""
    for name, value in config.items():
        if value is not None and name.isidentifier():
            yield name, KINDS[type(value)]
        if isinstance(value, dict) and holds_fields(name):
            yield from fields(value)


def main(more: list[Path]) -> None:
    """Collect the kinds by name, write the names by their kinds."""
    seen: dict[str, set[str]] = {}
    for path in (DATA / "catalogue.jsonl", *TESTS, *more):
        for config in configs(path):
            for name, kind in fields(config):
                seen.setdefault(name, set()).add(kind)
    kept: dict[str, list[str]] = {}
    for name in sorted(seen):
        if len(seen[name]) <= 2:
            kept.setdefault(" ".join(sorted(seen[name])), []).append(name)
    (DATA / "field-kinds.json").write_text(json.dumps(dict(sorted(kept.items())), indent=0) + "\n")


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
