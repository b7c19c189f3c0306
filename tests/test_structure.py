"""`models MODEL` shows a structure whose parts add up, and a law of the cache that gives its sizes."""

from __future__ import annotations

from collections import Counter

import pytest

from narrows.answers.models import model
from narrows.models import load_model

from .conftest import Cli

MODELS = ("llama-2-7b", "gemma-3-27b", "qwen3-next-80b-a3b", "deepseek-v3", "gpt-oss-20b", "jamba-v0.1")


@pytest.mark.parametrize("name", MODELS)
def test_layers_and_what_stands_outside_them_are_the_model(name: str) -> None:
    answer = model(name)
    inside: Counter[str] = Counter()
    for kind in answer.layer_kinds:
        assert sum(one.parameters for one in kind.components) == kind.parameters * kind.count
        for one in kind.components:
            inside[one.name] += one.stored_bytes
    held = {one.name: one.stored_bytes for one in answer.components}
    assert all(inside[part] <= held[part] for part in inside)
    assert sum(held.values()) == answer.checkpoint_bytes
    spec = load_model(name)
    assert sum(inside.values()) == sum(
        row.stored_bytes for layer, indices in spec.kinds for row in spec.layer_rows(layer, indices)
    )


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("length", [1, 1000, 5000])
def test_the_terms_of_the_law_are_the_cache(name: str, length: int) -> None:
    answer = model(name, length=length)
    assert sum(term.bytes * term.tokens(length) for term in answer.cache_law) == answer.kv_bytes_per_sequence


def test_the_tree_reads_from_the_embedding_to_the_head(cli: Cli) -> None:
    code, out, _ = cli("models", "gemma-3-27b")
    assert code == 0
    lines = [line.strip() for line in out.splitlines() if "─ " in line]
    assert [line.split("  ")[0] for line in lines if line.startswith(("├", "└"))] == [
        "├─ embedding",
        "├─ 62 layers",
        "├─ final norm",
        "├─ vision tower",
        "└─ projector",
    ]
    assert "416.00 KiB × min(T, 1,024)" in out and "80.00 KiB × T" in out
