"""Makes tests/data/logs/quotes.jsonl from a table of engines' memory records.

    python scripts/make_logs.py engine-memory-records.jsonl

Each row of the table quotes a few words of a public log (`quote`, `source`) beside the values of that run. Kept are
rows whose quote is a log line: the words, where they stand, and the values of the row that the words themselves say.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

OUT = Path(__file__).parent.parent / "tests" / "data" / "logs" / "quotes.jsonl"
FIELDS = (
    *("kv_tokens", "kv_cache_gib", "weights_gib", "gpu_blocks", "max_model_len", "max_concurrency", "total_gpu_gib"),
    *("non_torch_gib", "gpu_memory_utilization", "mem_fraction_static", "needed_gib", "estimated_max_len"),
    "weights_load_s",
)
PARAPHRASES = ("tm-037", "tm-039", "tm-126", "tm-187", "tm-209")
"""Rows that retell a log in other words; so do those with a table row (`|`)."""
ONE_POOL = ("tm-067",)
"""A quote of one of two pools."""
RETOLD = {"tm-036": "weights_gib", "tm-127": "gpu_memory_utilization", "tm-146": "kv_cache_gib"}
"""A value that the quote gives in other words, or cut off."""


def said(field: str, quote: str, value: float) -> bool:
    """Whether the quote writes the value; a size also in MiB, the KV cache also as two equal pools (K and V)."""
    numbers = [float(n.replace(",", "").rstrip(".")) for n in re.findall(r"-?\d[\d,]*\.?\d*", quote)]
    written = [value]
    if field.endswith("_gib"):
        written.append(value * 1024)
    if field == "kv_cache_gib":
        written.append(value / 2)
    tolerance = 0.0 if isinstance(value, int) else 0.002
    return any(abs(n - v) <= tolerance * max(0.1, abs(v)) for n in numbers for v in written)


def main() -> None:
    """Reads the table, writes the fixture."""
    rows = [json.loads(line) for line in Path(sys.argv[1]).read_text("utf-8").splitlines()]
    kept = []
    for row in rows:
        expected = {
            f: row[f]
            for f in FIELDS
            if row[f] is not None and RETOLD.get(row["id"]) != f and said(f, row["quote"], row[f])
        }
        retold = row["id"] in PARAPHRASES + ONE_POOL or " | " in row["quote"]
        if expected and not retold and row["source"].startswith("https://"):
            kept.append({"id": row["id"], "source": row["source"], "text": row["quote"], "expected": expected})
    OUT.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in kept), "utf-8")
    print(f"{len(kept)} of {len(rows)}")


if __name__ == "__main__":
    main()
