"""Makes src/narrows/models/data/field-kinds.json: which kinds of value a config field of a name holds.

    python -m scripts.make_field_kinds

Read are the configs that the repository carries: the catalogue, and the tests' configs of transformers' own classes and
of quantized checkpoints. Under the names of one or two kinds, joined by a space, stand the fields that hold no other in
any of them; null says nothing. A test holds the file against them.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from narrows.models.kinds import holds_fields

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "src" / "narrows" / "models" / "data"
TARGET = DATA / "field-kinds.json"
TESTS = [ROOT / "tests" / "data" / f"{name}.jsonl.gz" for name in ("oracle", "oracle-more", "odd_configs", "quantized")]
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


def made() -> str:
    """The file's text: names by their kinds."""
    seen: dict[str, set[str]] = {}
    for path in (DATA / "catalogue.jsonl", *TESTS):
        for config in configs(path):
            for name, kind in fields(config):
                seen.setdefault(name, set()).add(kind)
    kept: dict[str, list[str]] = {}
    for name in sorted(seen):
        if len(seen[name]) <= 2:
            kept.setdefault(" ".join(sorted(seen[name])), []).append(name)
    return json.dumps(dict(sorted(kept.items())), indent=0) + "\n"


if __name__ == "__main__":
    TARGET.write_text(made())
