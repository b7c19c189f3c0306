"""Our verdict on a header is the official package's: on kept cases always, on generated ones where it is installed.

Where we differ on purpose:
- stricter: a name or a field that is there twice (the official reader takes the last one), a tensor described by a
  list in place of an object, a format wrapped in an object, a name and
  description longer than 4096 bytes, metadata longer than 8 MiB. No writer makes such.
- laxer: a size of `-0`, and in fields that the format does not know, what serde takes for too deep or too large a
  number. Nothing of it reaches a figure.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from narrows.models.stored.safetensors import BITS, read_header
from narrows.text import BadInput

from .conftest import DATA
from .safetensors_files import framed

CORPUS = [json.loads(line) for line in (DATA / "safetensors-verdicts.jsonl").read_text().splitlines()]


def ours(data: bytes) -> list[tuple[str, str, tuple[int, ...], int]] | None:
    """What we read of a file; None where we refuse it."""
    try:
        found, _ = read_header("f", "f", len(data), lambda first, count: data[first : first + count])
    except BadInput:
        return None
    return sorted((one.name, one.format, one.shape, one.bytes) for one in found)


def official(data: bytes) -> list[tuple[str, str, tuple[int, ...], int]] | None:
    """What the official package reads of it."""
    import safetensors

    # of no stated type
    deserialize: Any = safetensors.deserialize
    try:
        found = deserialize(data)
    except safetensors.SafetensorError:
        return None
    return sorted((name, one["dtype"], tuple(one["shape"]), len(one["data"])) for name, one in found)


@pytest.mark.parametrize("case", CORPUS, ids=[case["case"] for case in CORPUS])
def test_kept_cases_have_the_official_verdict_or_the_stated_one(case: dict[str, Any]) -> None:
    accepted = ours(base64.b64decode(case["data"])) is not None
    assert accepted == (case["official"] if case["ours"] == "same" else case["ours"] == "laxer")


@pytest.mark.parametrize("case", CORPUS, ids=[case["case"] for case in CORPUS])
def test_the_kept_verdicts_are_those_of_the_installed_package(case: dict[str, Any]) -> None:
    pytest.importorskip("safetensors", reason="the official package is not installed")
    assert (official(base64.b64decode(case["data"])) is not None) == case["official"]


def test_every_kind_of_difference_is_among_the_kept_cases() -> None:
    assert {case["ours"] for case in CORPUS} == {"same", "stricter", "laxer"}
    assert {case["official"] for case in CORPUS} == {True, False}


SIZES = st.one_of(st.integers(0, 5), st.sampled_from([2**31, 2**32, 2**40, 2**62, 2**63, 2**64 - 1, 2**64, -1]))
NAMES = st.one_of(st.text(max_size=6), st.sampled_from(["a", "b", "a.weight", "__metadata__", "é", "😀", '"', "\\"]))
FORMS = st.one_of(st.sampled_from(sorted(BITS)), st.sampled_from(["u8", "Q4_K", "C128", "", "U8 "]))


@st.composite
def nearly_right(draw: st.DrawFn) -> bytes:
    """A file of a few tensors that may be wrong in one or two places."""
    entries: list[tuple[str, Any]] = []
    at = 0
    for name in draw(st.lists(NAMES, max_size=4, unique=True)):
        shape = draw(st.lists(SIZES if draw(st.booleans()) else st.integers(0, 5), max_size=4))
        form = draw(FORMS)
        bits = BITS.get(form, 8)
        for size in shape:
            bits *= size
        end = at + (bits // 8 if 0 <= bits < 2**20 else draw(SIZES))
        end += draw(st.sampled_from([0] * 12 + [1, -1]))
        begin = at + draw(st.sampled_from([0] * 12 + [1, -1]))
        entries.append((name, {"dtype": form, "shape": shape, "data_offsets": [begin, end]}))
        at = end if 0 <= end < 2**20 else at
    if draw(st.booleans()):
        plain = st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2)
        odd: st.SearchStrategy[Any] = st.sampled_from([None, [], 3, "x", {"a": 1}, {"a": None}])
        entries.insert(draw(st.integers(0, len(entries))), ("__metadata__", draw(st.one_of(plain, plain, odd))))
    if len({name for name, _ in entries}) < len(entries):
        entries = entries[:1]
    draw(st.randoms(use_true_random=False)).shuffle(entries)
    ascii_only = draw(st.booleans())
    header = json.dumps(dict(entries), ensure_ascii=ascii_only).encode(errors="replace")
    header += b" " * draw(st.integers(0, 3))
    return framed(header) + bytes(max(0, at + draw(st.sampled_from([0] * 12 + [1, -1, 40]))))


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A file with some bytes replaced, taken out or doubled."""
    data = bytearray(draw(nearly_right()))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data) - 1)) if data else 0
        what = draw(st.sampled_from(["replace", "remove", "double", "cut"]))
        if what == "replace":
            data[at : at + 1] = bytes([draw(st.sampled_from(list(b'{}[],:"0123456789.-eE\\u \x00\xff\xc3ab')))])
        elif what == "remove":
            del data[at : at + draw(st.integers(1, 4))]
        elif what == "double":
            data[at:at] = data[at : at + draw(st.integers(1, 40))]
        else:
            del data[at:]
    return bytes(data)


class Pairs(list[Any]):
    """The names and values of a JSON object, in order, with those that are there twice."""


def different_on_purpose(data: bytes) -> bool:
    """Whether a file is one of those that the module's docstring names."""
    try:
        top = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")].decode(), object_pairs_hook=Pairs)
    except (ValueError, OverflowError):
        return False
    except RecursionError:
        return True
    if not isinstance(top, Pairs):
        return False
    for name, value in [("", top), *top]:
        if not isinstance(value, Pairs):
            if name not in ("", "__metadata__") and isinstance(value, list):
                return True
            continue
        names = [key for key, _ in value]
        if len(set(names)) < len(names) or (
            name and name != "__metadata__" and isinstance(dict(value).get("dtype"), Pairs)
        ):
            return True
        if set(names) - {"dtype", "shape", "data_offsets"} and name not in ("", "__metadata__"):
            return True
    return b"-0" in data


@given(nearly_right())
@settings(max_examples=1500, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_generated_files_are_read_alike(data: bytes) -> None:
    pytest.importorskip("safetensors", reason="the official package is not installed")
    mine, theirs = ours(data), official(data)
    assert mine == theirs or different_on_purpose(data), data


@given(damaged())
@settings(max_examples=1500, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_damaged_files_are_read_alike(data: bytes) -> None:
    pytest.importorskip("safetensors", reason="the official package is not installed")
    mine, theirs = ours(data), official(data)
    assert mine == theirs or different_on_purpose(data), data


@given(st.binary(max_size=200))
def test_random_bytes_end_in_a_refusal_or_a_list(data: bytes) -> None:
    for one in (data, framed(data)):
        found = ours(one)
        assert found is None or isinstance(found, list)
