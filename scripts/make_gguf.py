"""Makes tests/data/gguf.jsonl.gz: small GGUF files, right and wrong, with what the package gguf says of each.

    python -m scripts.make_gguf

Every row: name, the file in base64, `official`: "read", or the kind of error that gguf's reader ends with. Files that
would keep that reader busy for ever are marked "endless" without being given to it.
"""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Iterator
from pathlib import Path

from gguf import GGUFReader

from scripts.packed import write_packed
from tests.gguf_files import STRING, U32, U64, Writer, gguf

TARGET = Path(__file__).resolve().parent.parent / "tests" / "data" / "gguf.jsonl.gz"
W = Writer()
NAME = W.pair("general.architecture", STRING, "llama")
ONE = [("a.weight", (256, 2), 12)]


def right() -> Iterator[tuple[str, bytes]]:
    """Files that are right."""
    yield "no tensors", gguf([NAME], [])
    yield "version 2", gguf([NAME], ONE, version=2)
    yield "version 3", gguf([NAME], ONE)
    big = Writer(">")
    yield (
        "big-endian",
        gguf([big.pair("general.architecture", STRING, "llama"), big.pair("x", U32, 7)], ONE, order=">"),
    )
    yield "alignment 64", gguf([NAME, W.pair("general.alignment", U32, 64)], ONE * 1, alignment=64)
    yield (
        "lists",
        gguf([W.items("l", U32, [1, 2, 3]), W.items("s", STRING, ["a", "", "ä" * 300]), W.items("e", 5, [])], ONE),
    )
    yield "a long string", gguf([W.pair("s", STRING, "x" * 300_000), NAME], ONE)
    yield "every scalar", gguf([W.pair(f"k{kind}", kind, 1) for kind in (0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12)], ONE)
    yield "tokens that are not UTF-8", gguf([W.items("tokenizer.ggml.tokens", STRING, [b"\xff", b"a"])], ONE)
    yield "three dimensions", gguf([NAME], [("e.weight", (32, 4, 3), 39), ("b.bias", (4,), 0)])


def wrong() -> Iterator[tuple[str, bytes, bool]]:
    """Files that are wrong, and whether the official reader would end."""
    good = gguf([NAME], ONE)
    yield "empty", b"", True
    yield "three bytes", b"GGU", True
    yield "another magic", b"GGML" + good[4:], True
    yield "a safetensors file", (120).to_bytes(8, "little") + b'{"__metadata__":{}}'.ljust(120), True
    yield "version 0", b"GGUF" + bytes(4) + good[8:], True
    yield "version 1", b"GGUF" + (1).to_bytes(4, "little") + good[8:], True
    yield "version 4", b"GGUF" + (4).to_bytes(4, "little") + good[8:], True
    yield "8 EB of tensors", W.head(2**63, 1) + NAME, True
    yield "ten million tensors", W.head(10_000_000, 1) + NAME, True
    yield "8 EB of metadata", W.head(0, 2**63), True
    yield "a key of 8 EB", W.head(0, 1) + W.number("Q", 2**63) + b"k", True
    yield "a string of 8 EB", W.head(0, 1) + W.text("k") + W.number("IQ", STRING, 2**63 - 1), True
    yield "a list of 8 EB strings", W.head(0, 1) + W.text("k") + W.number("IIQ", 9, STRING, 2**60), True
    yield "a list of 8 EB numbers", W.head(0, 1) + W.text("k") + W.number("IIQ", 9, U32, 2**61), False
    yield "a string in a list of 8 EB", W.head(0, 1) + W.text("k") + W.number("IIQQ", 9, STRING, 1, 2**62), True
    nested = W.number("IQ", 9, 1) * 200 + W.number("IQ", U32, 0)
    yield "lists in lists", W.head(0, 1) + W.text("k") + W.number("I", 9) + nested, True
    yield "an unknown value type", W.head(0, 1) + W.text("k") + W.number("II", 99, 0), True
    yield "an unknown list type", W.head(0, 1) + W.text("k") + W.number("IIQ", 9, 77, 1) + bytes(8), True
    yield "a key twice", gguf([NAME, NAME], ONE), True
    yield "a key that is not UTF-8", gguf([W.pair(b"\xff\xfe", U32, 1)], ONE), True
    yield "a tensor twice", gguf([NAME], ONE + ONE), True
    yield "a tensor's name that is not UTF-8", W.head(1, 0) + W.row(b"\xff", (256,), 12, 0) + bytes(400), True
    yield "a tensor's name of 8 EB", W.head(1, 0) + W.number("Q", 2**62) + bytes(40), True
    yield "five dimensions", gguf([NAME], [("a", (256, 1, 1, 1, 1), 12)]), True
    yield "2^32 dimensions", W.head(1, 0) + W.text("a") + W.number("I", 2**32 - 1) + bytes(400), True
    yield "dimensions that overflow", W.head(1, 0) + W.row("a", (2**62, 2**62, 4), 0, 0) + bytes(400), True
    yield "dimensions that overflow to nothing", W.head(1, 0) + W.row("a", (2**32, 2**32), 0, 0) + bytes(400), True
    yield "a dimension of zero", W.head(1, 0) + W.row("a", (256, 0), 12, 0) + bytes(400), True
    yield "an unknown type", W.head(1, 0) + W.row("a", (256,), 99, 0) + bytes(400), True
    yield "a type that was removed", W.head(1, 0) + W.row("a", (256,), 4, 0) + bytes(400), True
    yield "rows that do not fill blocks", W.head(1, 0) + W.row("a", (255,), 12, 0) + bytes(400), True
    yield "an offset between alignments", W.head(1, 0) + W.row("a", (256,), 12, 8) + bytes(400), True
    yield "an offset beyond the file", W.head(1, 0) + W.row("a", (256,), 12, 2**40) + bytes(400), True
    yield "an offset of 8 EB", W.head(1, 0) + W.row("a", (256,), 12, 2**63) + bytes(400), True
    both = W.row("a", (256, 2), 12, 0) + W.row("b", (256,), 12, 32)
    yield "tensors that overlap", W.head(2, 0) + both + bytes(600), True
    yield "an alignment of zero", gguf([W.pair("general.alignment", U32, 0)], ONE), True
    yield "an alignment of 48", gguf([W.pair("general.alignment", U32, 48)], ONE), True
    yield "an alignment in 64 bits", gguf([W.pair("general.alignment", U64, 32)], ONE), True
    yield "an alignment that is text", gguf([W.pair("general.alignment", STRING, "32")], ONE), True
    yield "an alignment of 2 GiB", gguf([W.pair("general.alignment", U32, 2**31)], ONE), True
    yield "cut in the metadata", good[:40], True
    yield "cut in the tensors", gguf([NAME], ONE, weights=False)[:-40], True
    yield "cut in the weights", good[:-100], True


def official(data: bytes) -> str:
    """What gguf's reader says of a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.gguf"
        path.write_bytes(data)
        try:
            GGUFReader(path)
        except Exception as error:  # whatever it is, the file was not read
            return type(error).__name__
    return "read"


def main() -> None:
    """Write all, with the official verdicts."""
    rows = [{"name": name, "right": True, "ends": True, "data": data} for name, data in right()]
    rows += [{"name": name, "right": False, "ends": ends, "data": data} for name, data, ends in wrong()]
    for row in rows:
        data = row.pop("data")
        assert isinstance(data, bytes)
        row["official"] = official(data) if row.pop("ends") else "endless"
        row["file"] = base64.b64encode(data).decode()
    write_packed(TARGET, rows)
    print(*(f"{row['official']:20} {row['name']}" for row in rows), sep="\n")


if __name__ == "__main__":
    main()
