"""Makes tests/data/gguf-checks.json: sizes of published GGUF files, with the shapes of their models.

    python -m scripts.import_gguf_checks FILE

FILE is a list of rows: model, type, either bits per weight as llama.cpp's README states them or a published size in
GiB, the model's dimensions (of Llama 3.1 8B where there are none), the source. Figures only.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parent.parent / "tests" / "data" / "gguf-checks.json"


def config_of(dims: dict[str, Any]) -> dict[str, Any]:
    """The config of a row's model."""
    kind = "qwen2" if "bias" in dims else "qwen3_moe" if "E" in dims else "qwen3" if "qk_norm" in dims else "llama"
    config = {
        "model_type": kind,
        "vocab_size": dims["V"],
        "hidden_size": dims["h"],
        "num_hidden_layers": dims["L"],
        "num_attention_heads": dims["H"],
        "num_key_value_heads": dims["KV"],
        "head_dim": dims["hd"],
        "intermediate_size": dims["I"],
        "tie_word_embeddings": dims.get("tied", False),
        "max_position_embeddings": 4096,
        "torch_dtype": "bfloat16",
    }
    if "E" in dims:
        config |= {"num_experts": dims["E"], "num_experts_per_tok": 8, "moe_intermediate_size": dims["Imoe"]}
    return config


LLAMA = {"V": 128256, "h": 4096, "L": 32, "H": 32, "KV": 8, "hd": 128, "I": 14336}


def main(path: Path) -> None:
    """Keep model, type, figure, config and source of every row."""
    rows = []
    for row in json.loads(path.read_text("utf-8")):
        kept = {"model": row["model"], "type": row["type"], "config": config_of(row.get("dims", LLAMA))}
        if "readme_bpw" in row:
            kept["bits_per_weight"] = row["readme_bpw"]
        else:
            kept["gib"] = row["published_gib"]
        rows.append({**kept, "source": row["source"]})
    TARGET.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
