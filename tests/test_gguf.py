"""GGUF headers are read as gguf's own reader reads them; what is no GGUF file is refused, cheaply and in one line."""

from __future__ import annotations

import base64
import gzip
import json
import re
import signal
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from narrows.models.stored.gguf import GgufHeader, read_header
from narrows.text import BadInput

from .conftest import DATA
from .gguf_files import ARRAY, BLOCKS, FORMS, STRING, U32, Writer, gguf, place

with gzip.open(DATA / "gguf.jsonl.gz") as packed:
    CORPUS: list[dict[str, Any]] = [json.loads(line) for line in packed]

STRICTER = (
    ("a string of 8 EB", "needs 9,223,372,036,854,775,807 bytes"),
    ("a string in a list of 8 EB", "needs 4,611,686,018,427,387,912 bytes"),
    ("lists in lists", "is a list of lists"),
    ("five dimensions", "has 5 dimensions"),
    ("a dimension of zero", "are zero or too large"),
    ("an offset between alignments", "does not begin at a multiple of 32"),
    ("tensors that overlap", "overlaps another"),
)
"""What gguf's reader lets pass and narrows does not: llama.cpp would not load any of them."""


def write(folder: Path, data: bytes) -> str:
    path = folder / "model.gguf"
    path.write_bytes(data)
    return str(path)


def refusal(path: str) -> str:
    """The sentence a file is refused with."""
    with pytest.raises(BadInput) as refused:
        read_header(path)
    return str(refused.value)


@pytest.mark.parametrize("row", CORPUS, ids=[row["name"] for row in CORPUS])
def test_the_corpus_is_judged_as_the_official_reader_judges_it(tmp_path: Path, row: dict[str, Any]) -> None:
    path = write(tmp_path, base64.b64decode(row["file"]))
    if row["right"]:
        assert row["official"] == "read"
        read_header(path)
        return
    said = refusal(path)
    assert re.match(r"'.*model\.gguf' is not a GGUF file that narrows can read: at byte [0-9,]+, ", said), said
    assert "\n" not in said and len(said) < 400
    stricter = dict(STRICTER).get(row["name"])
    assert (row["official"] == "read") == (stricter is not None)
    if stricter:
        assert stricter in said


def test_a_header_says_what_was_written(tmp_path: Path) -> None:
    for order in "<>":
        w = Writer(order)
        pairs = [
            w.pair("general.architecture", STRING, "llama"),
            w.pair("llama.block_count", U32, 2),
            w.items("llama.attention.head_count_kv", 5, [8, 4]),
            w.items("tokenizer.ggml.tokens", STRING, ["a", "b", "c"]),
            w.pair("tokenizer.chat_template", STRING, "x" * 300),
            w.pair("general.alignment", U32, 64),
        ]
        tensors = [("token_embd.weight", (512, 3), 14), ("output_norm.weight", (512,), 0)]
        header = read_header(write(tmp_path, gguf(pairs, tensors, order=order, alignment=64)))
        assert header.big_endian == (order == ">")
        assert header.metadata == {
            "general.architecture": "llama",
            "llama.block_count": 2,
            "llama.attention.head_count_kv": [8, 4],
            "general.alignment": 64,
        }
        assert header.lengths == {"tokenizer.ggml.tokens": 3}
        assert [(t.name, t.dims, t.type.name, t.bytes) for t in header.tensors] == [
            ("token_embd.weight", (512, 3), "Q6_K", 1260),
            ("output_norm.weight", (512,), "F32", 2048),
        ]
        assert header.data % 64 == 0 and [t.offset - header.data for t in header.tensors] == [0, 1280]


@contextmanager
def bounded(seconds: float = 1.0, most: int = 8 * 2**20) -> Iterator[None]:
    """Fails beyond so much processor time or memory."""
    tracemalloc.start()
    begun = time.process_time()
    try:
        yield
    finally:
        spent, peak = time.process_time() - begun, tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert spent < seconds, spent
    assert peak < most, peak


@pytest.mark.parametrize("row", CORPUS, ids=[row["name"] for row in CORPUS])
def test_the_corpus_costs_little(tmp_path: Path, row: dict[str, Any]) -> None:
    path = write(tmp_path, base64.b64decode(row["file"]))
    with bounded(), suppress(BadInput):
        read_header(path)


def sparse(folder: Path, head: bytes, size: int = 2**40) -> str:
    """A file that is as large as it claims, with nothing but zeros behind its head."""
    path = folder / "huge.gguf"
    with path.open("wb") as file:
        file.write(head)
        file.truncate(size)
    return str(path)


W = Writer()


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (W.head(10_000_000, 0), "10,000,000 tensors"),
        (W.head(60_000, 0), "stands there twice"),
        (W.head(0, 10_000_000), "10,000,000 metadata entries"),
        (W.head(0, 16_000), "stands there twice"),
        (W.head(0, 1) + W.text("k") + W.number("IIQ", ARRAY, STRING, 10**9), "more strings than any tokenizer"),
        (W.head(0, 3) + W.text("k") + W.number("IQ", STRING, 2**39), "the metadata entry '' stands there twice"),
        (W.head(0, 1) + W.number("Q", 2**30), "1,073,741,824 bytes long"),
        (W.head(1, 0) + W.number("Q", 2**30), "1,073,741,824 bytes long"),
    ],
)
def test_a_file_as_large_as_it_claims_costs_little_too(tmp_path: Path, head: bytes, said: str) -> None:
    path = sparse(tmp_path, head)
    with bounded():
        sentence = refusal(path)
    assert said in sentence


def test_a_large_vocabulary_is_passed_over_without_being_kept(tmp_path: Path) -> None:
    tokens = W.items("tokenizer.ggml.tokens", STRING, [f"token {i} of many" for i in range(250_000)])
    path = write(tmp_path, gguf([tokens, W.pair("general.architecture", STRING, "llama")], [("a", (32,), 8)]))
    with bounded(seconds=3, most=2 * 2**20):
        header = read_header(path)
    assert header.metadata == {"general.architecture": "llama"}
    assert header.lengths == {"tokenizer.ggml.tokens": 250_000}


def test_as_many_tensors_as_any_model_has_are_read_quickly(tmp_path: Path) -> None:
    path = place(tmp_path / "x.gguf", [], [(f"blk.{i}.ffn_up.weight", (4096, 4096), 12) for i in range(3000)])
    with bounded():
        assert len(read_header(str(path)).tensors) == 3000


@pytest.mark.parametrize("kind", ["missing", "directory", "device"])
def test_what_is_no_file_is_refused(tmp_path: Path, kind: str) -> None:
    path = {"missing": str(tmp_path / "no.gguf"), "directory": str(tmp_path), "device": "/dev/zero"}[kind]
    assert re.search("does not exist|not a regular file", refusal(path))


# The rest asks gguf's own reader, for files that nobody thought of.

NEVER = "keeps reading"


def official(path: str) -> Any:
    """gguf's reader of a file, or None where it refuses it; NEVER where it does not end."""
    from gguf import GGUFReader

    def give_up(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, 2)
    try:
        return GGUFReader(path)
    except TimeoutError:
        return NEVER
    except Exception:  # it has no error of its own: anything means that it did not read the file
        return None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def assert_same(ours: GgufHeader, theirs: Any) -> None:
    """Tensors and kept metadata are the same."""
    assert [(t.name, t.dims, t.type.name, t.offset, t.bytes) for t in ours.tensors] == [
        (t.name, tuple(t.shape.tolist()), t.tensor_type.name, t.data_offset, t.n_bytes) for t in theirs.tensors
    ]
    assert ours.alignment == theirs.alignment and ours.data == theirs.data_offset
    keys = {key for key in theirs.fields if not key.startswith("GGUF.")}
    assert set(ours.metadata) <= keys and set(ours.lengths) <= keys - set(ours.metadata)
    for key, value in ours.metadata.items():
        if isinstance(value, int):
            assert value == theirs.fields[key].contents()
    for key, length in ours.lengths.items():
        assert length == len(theirs.fields[key].data)


ORDERS = st.sampled_from("<>")
KEYS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
INTEGERS = st.integers(0, 127)


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """Any valid file: pairs of every type, tensors of every shape."""
    w = Writer(draw(ORDERS))
    pairs = []
    for key in draw(st.lists(KEYS.filter(lambda key: key != "general.alignment"), max_size=5, unique=True)):
        kind = draw(st.sampled_from([*FORMS, STRING, ARRAY]))
        if kind == ARRAY:
            inner = draw(st.sampled_from([*FORMS, STRING]))
            values = st.text(st.characters(codec="utf-8"), max_size=9) if inner == STRING else st.integers(0, 1)
            pairs.append(w.items(key, inner, draw(st.lists(values, max_size=9))))
        else:
            pairs.append(w.pair(key, kind, draw(st.text(max_size=9)) if kind == STRING else draw(st.integers(0, 1))))
    alignment = draw(st.sampled_from([32, 1, 8, 64, 4096]))
    if alignment != 32:
        pairs.append(w.pair("general.alignment", U32, alignment))
    tensors = []
    for name in draw(st.lists(KEYS, max_size=5, unique=True)):
        kind = draw(st.sampled_from(list(BLOCKS)))
        rest = draw(st.lists(st.integers(1, 4), max_size=3))
        tensors.append((name, [BLOCKS[kind][0] * draw(st.integers(1, 3)), *rest], kind))
    return gguf(pairs, tensors, order=w.order, version=draw(st.sampled_from([2, 3])), alignment=alignment)


slowly = settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@slowly
@given(data=files())
def test_any_valid_file_is_read_as_the_official_reader_reads_it(tmp_path: Path, data: bytes) -> None:
    path = write(tmp_path, data)
    assert_same(read_header(path), official(path))


STRICT = re.compile(
    r"needs [0-9,]+ bytes, and the file has|is a list of lists|has [0-9,]+ dimensions|zero or too large"
    r"|multiple of|overlaps another|more strings|bytes long|more than it can hold"
)
"""Where narrows refuses what gguf's reader may pass: it holds every length against the file's size, and every tensor
against its neighbours."""


@slowly
@given(data=files(), changes=st.data())
def test_a_damaged_file_is_read_the_same_or_refused(tmp_path: Path, data: bytes, changes: st.DataObject) -> None:
    damaged = bytearray(data)
    for _ in range(changes.draw(st.integers(1, 3))):
        at = changes.draw(st.integers(0, max(0, len(damaged) - 1)))
        match changes.draw(st.sampled_from(["set", "cut", "drop", "add", "wide"])):
            case "set":
                damaged[at : at + 1] = bytes([changes.draw(st.integers(0, 255))])
            case "cut":
                del damaged[at:]
            case "drop":
                del damaged[at : at + changes.draw(st.integers(1, 9))]
            case "add":
                damaged[at:at] = changes.draw(st.binary(max_size=9))
            case _:
                wide = changes.draw(st.sampled_from([0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1]))
                damaged[at : at + 8] = wide.to_bytes(8, "little")
    path = write(tmp_path, bytes(damaged))
    with bounded():
        try:
            ours = read_header(path)
        except BadInput as refused:
            ours, said = None, str(refused)
    if ours is not None:
        assert_same(ours, official(path))
    elif not STRICT.search(said):
        assert official(path) in (None, NEVER), said


@pytest.mark.parametrize("order", ["<", ">"])
def test_what_the_official_writer_writes_is_read(tmp_path: Path, order: str) -> None:
    import numpy as np
    from gguf import GGMLQuantizationType, GGUFEndian, GGUFWriter

    path = tmp_path / "written.gguf"
    writer = GGUFWriter(path, "llama", endianess=GGUFEndian.LITTLE if order == "<" else GGUFEndian.BIG)
    writer.add_block_count(3)
    writer.add_head_count_kv([8, 0, 4])
    writer.add_token_list(["a", "b", "ä"])
    writer.add_name("written")
    writer.add_tensor("token_embd.weight", np.zeros((7, 64), dtype=np.float16))
    writer.add_tensor("output_norm.weight", np.zeros(64, dtype=np.float32))
    packed = np.zeros((5, 2 * 34), dtype=np.uint8)
    writer.add_tensor("output.weight", packed, raw_dtype=GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    header = read_header(str(path))
    assert header.big_endian == (order == ">")
    assert header.metadata == {
        "general.architecture": "llama",
        "llama.block_count": 3,
        "llama.attention.head_count_kv": [8, 0, 4],
        "general.name": "written",
    }
    assert [(t.name, t.dims, t.type.name) for t in header.tensors] == [
        ("token_embd.weight", (64, 7), "F16"),
        ("output_norm.weight", (64,), "F32"),
        ("output.weight", (64, 5), "Q8_0"),
    ]
    assert_same(header, official(str(path)))
