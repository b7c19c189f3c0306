"""Writes tests/data/safetensors-verdicts.jsonl: small files, and whether the official package reads them.

    python scripts/import_safetensors_verdicts.py

Needs `safetensors` (Apache-2.0), whose verdicts are what is kept; of it no code is. `ours` says where narrows differs.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import safetensors

TARGET = Path(__file__).parent.parent / "tests" / "data" / "safetensors-verdicts.jsonl"


def tensor(form: Any, shape: Any, *offsets: Any, **more: Any) -> dict[str, Any]:
    """The description of one tensor."""
    return {"dtype": form, "shape": shape, "data_offsets": list(offsets), **more}


def text(inside: str) -> str:
    """A header of one tensor of one byte, with `inside` after its fields."""
    return '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]' + inside + "}}"


FORMS = "BOOL F4 F6_E2M3 F6_E3M2 U8 I8 F8_E5M2 F8_E4M3 F8_E8M0 F8_E4M3FNUZ F8_E5M2FNUZ I16 U16 F16 BF16 I32 U32 F32 C64"
WIDTHS = {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "16": 16, "32": 32, "64": 64}

CASES: list[tuple[str, Any, int, str]] = [
    ("no tensors", {}, 0, "same"),
    ("spaces around", "  {} ", 0, "same"),
    ("zero bytes behind the JSON", "{}\0\0", 0, "same"),
    ("no header", "", 0, "same"),
    ("a list", [], 0, "same"),
    ("two values", "{} {}", 0, "same"),
    ("a byte order mark", b"\xef\xbb\xbf{}", 0, "same"),
    ("not UTF-8", b'{"\xff":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', 1, "same"),
    ("a control character in a name", b'{"a\n":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', 1, "same"),
    ("half a surrogate pair", '{"\\ud800":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', 1, "same"),
    ("a surrogate pair", '{"\\ud83d\\ude00":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', 1, "same"),
    ("an escaped field", '{"a":{"d\\u0074ype":"U8","shape":[1],"data_offsets":[0,1]}}', 1, "same"),
    ("an empty name", {"": tensor("U8", [1], 0, 1)}, 1, "same"),
    ("metadata", {"__metadata__": {"format": "pt", "dtype": "x"}, "a": tensor("U8", [1], 0, 1)}, 1, "same"),
    ("metadata null", {"__metadata__": None}, 0, "same"),
    ("metadata of a number", {"__metadata__": {"a": 1}}, 0, "same"),
    ("metadata as a list", {"__metadata__": []}, 0, "same"),
    ("metadata as a string", {"__metadata__": "x"}, 0, "same"),
    ("metadata twice", '{"__metadata__":{},"__metadata__":{}}', 0, "laxer"),
    ("a scalar", {"a": tensor("F32", [], 0, 4)}, 4, "same"),
    ("no elements", {"a": tensor("F32", [0, 7], 0, 0)}, 0, "same"),
    ("no elements in the middle", {"a": tensor("U8", [1], 0, 1), "b": tensor("U8", [0], 1, 1)}, 1, "same"),
    ("no elements beyond the end", {"a": tensor("U8", [1], 0, 1), "b": tensor("U8", [0], 2, 2)}, 1, "same"),
    ("tensors in another order", {"b": tensor("U8", [1], 1, 2), "a": tensor("U8", [1], 0, 1)}, 2, "same"),
    ("a hole", {"a": tensor("U8", [1], 0, 1), "b": tensor("U8", [1], 2, 3)}, 3, "same"),
    ("a hole at the start", {"a": tensor("U8", [1], 1, 2)}, 2, "same"),
    ("an overlap", {"a": tensor("U8", [2], 0, 2), "b": tensor("U8", [1], 1, 2)}, 2, "same"),
    ("the same data twice", {"a": tensor("U8", [1], 0, 1), "b": tensor("U8", [1], 0, 1)}, 1, "same"),
    ("data that nobody owns", {"a": tensor("U8", [1], 0, 1)}, 2, "same"),
    ("data cut short", {"a": tensor("U8", [2], 0, 2)}, 1, "same"),
    ("an end before the begin", {"a": tensor("U8", [1], 1, 0)}, 1, "same"),
    ("a shape that does not fill", {"a": tensor("U8", [3], 0, 2)}, 2, "same"),
    ("an unknown format", {"a": tensor("C128", [1], 0, 16)}, 16, "same"),
    ("a format in small letters", {"a": tensor("u8", [1], 0, 1)}, 1, "same"),
    ("half a byte", {"a": tensor("F4", [3], 0, 2)}, 2, "same"),
    ("a float size", '{"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}}', 1, "same"),
    ("an exponent", '{"a":{"dtype":"U8","shape":[1e0],"data_offsets":[0,1]}}', 1, "same"),
    ("not a number", '{"a":{"dtype":"U8","shape":[NaN],"data_offsets":[0,1]}}', 1, "same"),
    ("a leading zero", '{"a":{"dtype":"U8","shape":[01],"data_offsets":[0,1]}}', 1, "same"),
    ("a negative size", {"a": tensor("U8", [-1], 0, 1)}, 1, "same"),
    ("a size of -0", '{"a":{"dtype":"U8","shape":[-0],"data_offsets":[0,0]}}', 0, "laxer"),
    ("the largest size and zero", {"a": tensor("U8", [2**64 - 1, 0], 0, 0)}, 0, "same"),
    ("a size beyond 64 bits and zero", {"a": tensor("U8", [2**64, 0], 0, 0)}, 0, "same"),
    ("elements beyond 64 bits, then zero", {"a": tensor("U8", [2**40, 2**40, 0], 0, 0)}, 0, "same"),
    ("zero, then sizes beyond 64 bits", {"a": tensor("U8", [0, 2**40, 2**40], 0, 0)}, 0, "same"),
    ("bits beyond 64 bits", {"a": tensor("F64", [2**60], 0, 2**63)}, 0, "same"),
    ("three offsets", {"a": tensor("U8", [1], 0, 1, 2)}, 1, "same"),
    ("one offset", {"a": tensor("U8", [1], 0)}, 1, "same"),
    ("a shape of null", {"a": tensor("U8", None, 0, 1)}, 1, "same"),
    ("a field missing", {"a": {"dtype": "U8", "shape": [1]}}, 1, "same"),
    ("a field more", text(',"x":[[],{}]'), 1, "same"),
    ("a bad number in a field more", text(',"x":01'), 1, "same"),
    ("half a surrogate pair in a field more", text(',"x":"\\ud800"'), 1, "same"),
    ("a number too large in a field more", text(',"x":1e999'), 1, "laxer"),
    ("depth in a field more", text(',"x":' + "[" * 200 + "]" * 200), 1, "laxer"),
    ("a tensor twice", text("")[:-1] + "," + text("")[1:], 1, "stricter"),
    ("a field twice", text(',"dtype":"U8"'), 1, "same"),
    ("metadata of one name twice", '{"__metadata__":{"a":"1","a":"2"}}', 0, "laxer"),
    ("a tensor as a list", '{"a":["U8",[1],[0,1]]}', 1, "stricter"),
    ("a format as an object", '{"a":{"dtype":{"U8":null},"shape":[1],"data_offsets":[0,1]}}', 1, "stricter"),
    ("a description of 5000 bytes", text(" " * 5000), 1, "stricter"),
    ("a name of 5000 bytes", {"n" * 5000: tensor("U8", [1], 0, 1)}, 1, "stricter"),
]
CASES += [
    (f"8 of {form}", {"a": tensor(form, [8], 0, n)}, n, "same")
    for form in [*FORMS.split(), "F64", "I64", "U64"]
    for n in [next((bits for key, bits in WIDTHS.items() if form.endswith(key) or form == key), 8)]
]


def main() -> None:
    """Ask the package, write the file."""
    lines = []
    # of no stated type
    deserialize: Any = safetensors.deserialize
    for case, header, body, ours in CASES:
        plain = (
            header
            if isinstance(header, bytes)
            else (header if isinstance(header, str) else json.dumps(header)).encode()
        )
        data = len(plain).to_bytes(8, "little") + plain + bytes(body)
        try:
            deserialize(data)
            accepted = True
        except safetensors.SafetensorError:
            accepted = False
        # a file that both read alike differs in nothing
        stated = "same" if ours == "laxer" and accepted else ours
        kept = {"case": case, "official": accepted, "ours": stated, "data": base64.b64encode(data).decode()}
        lines.append(json.dumps(kept) + "\n")
    TARGET.write_text("".join(lines))


if __name__ == "__main__":
    main()
