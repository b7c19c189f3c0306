"""Headers of safetensors files: what is read, what is refused, and that hostile ones cost little."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from narrows.models.stored.safetensors import MOST_TENSORS, parse, read_file
from narrows.text import BadInput

from .safetensors_files import framed, header_of, write


def entry(form: object, shape: object, begin: object, end: object) -> dict[str, object]:
    return {"dtype": form, "shape": shape, "data_offsets": [begin, end]}


def refused(header: bytes, body: int = 1) -> str:
    with pytest.raises(BadInput) as error:
        parse("x.safetensors", "x.safetensors", header, body)
    said = str(error.value)
    assert said.startswith("'x.safetensors' cannot be read as safetensors, at byte ")
    return said


def test_a_header_names_its_tensors_in_the_order_of_their_data(tmp_path: Path) -> None:
    tensors = {"b": ("BF16", (4, 3)), "a": ("F8_E4M3", (5,)), "nothing": ("F32", (0, 7)), "scalar": ("I64", ())}
    write(tmp_path / "m.safetensors", tensors, {"format": "pt"})
    found, read = read_file(str(tmp_path / "m.safetensors"), "m.safetensors")
    assert [(one.name, one.format, one.shape, one.bytes) for one in found] == [
        ("b", "BF16", (4, 3), 24),
        ("a", "F8_E4M3", (5,), 5),
        ("nothing", "F32", (0, 7), 0),
        ("scalar", "I64", (), 8),
    ]
    assert [one.elements for one in found] == [12, 5, 0, 1]
    assert {one.file for one in found} == {"m.safetensors"}
    assert read == len(header_of(tensors, {"format": "pt"})[0])


def test_the_weights_themselves_are_never_read(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    body = write(path, {"w": ("BF16", (1 << 20, 1 << 20))})
    assert body == 2 << 40
    assert path.stat().st_size > body
    assert read_file(str(path), "m")[1] < 200


HOSTILE = {
    "not JSON": (b"{", "not valid JSON"),
    "empty": (b"", "not valid JSON"),
    "a list": (b"[]", "no object of tensors"),
    "a number": (json.dumps({"a": 3}).encode(), "'a' is not described by"),
    "not UTF-8": (b'{"\xff": 1}', "not UTF-8"),
    "NaN in a shape": (b'{"a":{"dtype":"U8","shape":[NaN],"data_offsets":[0,1]}}', "not valid JSON"),
    "a float": (json.dumps({"a": entry("U8", [1.0], 0, 1)}).encode(), "'a' is not described by"),
    "a negative size": (json.dumps({"a": entry("U8", [-1], 0, 1)}).encode(), "shape [-1] of U8 does not fill"),
    "two negative sizes": (json.dumps({"a": entry("U8", [-1, -1], 0, 1)}).encode(), "does not fill"),
    "a huge shape": (json.dumps({"a": entry("U8", [2**40, 2**40], 0, 1)}).encode(), "does not fill"),
    "a shape beyond 64 bits that ends in zero": (
        json.dumps({"a": entry("U8", [2**40, 2**40, 0], 0, 0)}).encode(),
        "does not fill",
    ),
    "a number of 5000 digits": (
        b'{"a":{"dtype":"U8","shape":[' + b"1" * 5000 + b'],"data_offsets":[0,1]}}',
        "is not described by",
    ),
    "a shape of a million dimensions": (json.dumps({"a": entry("U8", [1] * 10**6, 0, 1)}).encode(), "'a' "),
    "deep JSON": (
        b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":' + b"[" * 10**6 + b"]" * 10**6 + b"}}",
        "not valid JSON",
    ),
    "an unknown format": (json.dumps({"a": entry("Q4_K", [1], 0, 1)}).encode(), "unknown format 'Q4_K'"),
    "shape × format ≠ bytes": (json.dumps({"a": entry("BF16", [1], 0, 1)}).encode(), "shape [1] of BF16 does not fill"),
    "half a byte": (json.dumps({"a": entry("F4", [1], 0, 1)}).encode(), "shape [1] of F4 does not fill"),
    "an end before the begin": (json.dumps({"a": entry("U8", [1], 1, 0)}).encode(), "does not fill"),
    "three offsets": (
        json.dumps({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1, 2]}}).encode(),
        "'a' is not described by",
    ),
    "no shape": (json.dumps({"a": {"dtype": "U8", "data_offsets": [0, 1]}}).encode(), "'a' is not described by"),
    "a hole at the start": (json.dumps({"a": entry("U8", [1], 1, 2)}).encode(), "nothing lies before the data of 'a'"),
    "an overlap": (
        json.dumps({"a": entry("U8", [2], 0, 2), "b": entry("U8", [1], 1, 2)}).encode(),
        "the data of 'b' overlap those before",
    ),
    "a tensor behind the file's end": (json.dumps({"a": entry("U8", [9], 0, 9)}).encode(), "describes"),
    "bytes that no tensor owns": (b"{}", "describes no more"),
    "metadata of numbers": (b'{"__metadata__":{"a":1}}', "no object of tensors"),
    "metadata that is a list": (b'{"__metadata__":[]}', "no object of tensors"),
    "a tensor twice": (
        b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
        "'a' is there twice",
    ),
    "a field twice": (
        b'{"a":{"dtype":"U8","shape":[1],"shape":[1],"data_offsets":[0,1]}}',
        "'shape' is there twice",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_a_header_cannot_say_is_refused_with_the_place(case: str) -> None:
    header, reason = HOSTILE[case]
    assert reason in refused(header)


@pytest.mark.parametrize(
    ("begin", "reason"),
    [
        (b"", "at byte 0: the file ends before its header begins"),
        (b"\x01\x02", "at byte 2: the file ends before its header begins"),
        (struct.pack("<Q", 2**63), "at byte 0: its header would be 9,223,372,036,854,775,808 bytes long"),
        (struct.pack("<Q", 100_000_001), "at byte 0: its header would be 100,000,001 bytes long"),
        (struct.pack("<Q", 60) + b"{}", "at byte 0: its header would be 60 bytes long, and the file has 10"),
    ],
)
def test_a_length_that_cannot_be_is_refused_before_anything_is_read(begin: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(begin)
    with pytest.raises(BadInput) as error:
        read_file(str(path), "m")
    assert reason in str(error.value)


def test_a_file_cut_short_names_the_byte_where_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    write(path, {"w": ("F32", (100,))})
    whole = path.stat().st_size
    os.truncate(path, whole - 1)
    with pytest.raises(BadInput) as error:
        read_file(str(path), "m")
    assert f"at byte {whole - 1}: it ends there, and its header describes {whole} bytes" in str(error.value)


def test_a_name_of_control_characters_does_not_reach_the_terminal() -> None:
    said = refused(json.dumps({"a\x1b[31m\n": entry("U8", [2], 0, 1)}).encode())
    assert said.isprintable()


def test_a_pipe_in_the_place_of_a_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "m.safetensors")
    with pytest.raises(BadInput, match="not a regular file"):
        read_file(str(tmp_path / "m.safetensors"), "m")


MEASURED = """
import resource, sys
from narrows.models.stored.safetensors import read_file
from narrows.text import BadInput
try:
    read_file(sys.argv[1], "m")
except BadInput as error:
    print(str(error)[:200])
used = resource.getrusage(resource.RUSAGE_SELF)
# ru_maxrss begins at what the parent had
peak = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")]
print(int(peak[0]) // 1024, used.ru_utime + used.ru_stime)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="peak memory is read from /proc")
@pytest.mark.parametrize("case", ["many tensors", "many tensors by escapes", "one long name", "spaces", "metadata"])
def test_the_largest_header_costs_bounded_memory_and_time(case: str, tmp_path: Path) -> None:
    """100 MB is the most a header may have: 2 million tensors, or one string."""
    path = tmp_path / "m.safetensors"
    room = 99_000_000
    if case == "one long name":
        header = b'{"' + b"n" * room + b'":{"dtype":"U8","shape":[1],"data_offsets":[0,9]}}'
    elif case == "metadata":
        header = b'{"__metadata__":{' + b",".join(b'"%d":""' % i for i in range(7_000_000)) + b"}}"
    elif case == "spaces":
        header = b"{" + b" " * room
    else:
        key = b"data_offsets" if case == "many tensors" else rb"data\u005foffsets"
        one = b'"%07d":{"dtype":"U8","shape":[],"' + key + b'":[0,1]},'
        header = b"{" + b"".join(one % i for i in range(room // (len(one) + 3)))
        assert header.count(b"{") > MOST_TENSORS
    path.write_bytes(framed(header))
    done = subprocess.run([sys.executable, "-c", MEASURED, str(path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    sentence, numbers = done.stdout.splitlines()
    megabytes, seconds = map(float, numbers.split())
    assert "cannot be read as safetensors" in sentence
    assert megabytes < 500
    assert seconds < 10
