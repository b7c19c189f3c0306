"""Makes precision/data/ggml.json: every GGML type with its block, and the file types of llama.cpp.

    python -m scripts.import_ggml FILE

FILE is a JSON table of the same facts: `types` (type, id, block, bytes) and `file_types` (name → number), as the
package gguf 0.19.0 (MIT) states them in GGML_QUANT_SIZES and LlamaFileType. The type of most tensors of a file type
is from llama.cpp's llama_ftype_get_default_type (src/llama-quant.cpp, MIT), and stands below.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

TARGET = Path(__file__).resolve().parent.parent / "src" / "narrows" / "precision" / "data" / "ggml.json"

BASE = {
    "Q2_K_S": "Q2_K",
    **dict.fromkeys(("Q3_K_S", "Q3_K_M", "Q3_K_L"), "Q3_K"),
    **dict.fromkeys(("Q4_K_S", "Q4_K_M"), "Q4_K"),
    **dict.fromkeys(("Q5_K_S", "Q5_K_M"), "Q5_K"),
    **dict.fromkeys(("IQ3_XS", "IQ3_S", "IQ3_M"), "IQ3_S"),
    "IQ2_S": "IQ2_XS",
    "IQ2_M": "IQ2_S",
    "MXFP4_MOE": "MXFP4",
}
"""Base types of the file types that are not named as their base type."""


def main(path: Path) -> None:
    """Read the table, write what narrows reads."""
    given = json.loads(path.read_text("utf-8"))
    types = [{key: row[key] for key in ("type", "id", "block", "bytes")} for row in given["types"]]
    names = {row["type"] for row in types}
    file_types = []
    for long, number in given["file_types"].items():
        name = long.removeprefix("MOSTLY_").removeprefix("ALL_")
        if name == "GUESSED":
            continue
        base = BASE.get(name, name)
        assert base in names, name
        file_types.append({"name": name, "number": number, "base": base})
    lines = [
        '{"source": "gguf 0.19.0 (MIT): GGML_QUANT_SIZES, LlamaFileType; base types: llama.cpp src/llama-quant.cpp '
        '(MIT)",',
        ' "types": [',
        ",\n".join(f"  {json.dumps(row)}" for row in types),
        " ],",
        ' "file_types": [',
        ",\n".join(f"  {json.dumps(row)}" for row in file_types),
        " ]}",
    ]
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
