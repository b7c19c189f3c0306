"""Sizes of GGUF files that were published, from a config and the name of a file type."""

from __future__ import annotations

import json
from typing import Any

import pytest

from narrows.models import read_config
from narrows.models.catalogue import catalogue_entry
from narrows.models.config import catalogued
from narrows.models.named import stored_as_named
from narrows.precision.ggml import file_types
from narrows.precision.ggml_mix import MixedModel, mixed_types
from narrows.text import BadInput

from .conftest import DATA, LLAMA, Cli

CHECKS: list[dict[str, Any]] = json.loads((DATA / "gguf-checks.json").read_text("utf-8"))


@pytest.mark.parametrize("row", CHECKS, ids=[f"{row['model']} {row['type']}" for row in CHECKS])
def test_the_size_of_a_published_file_is_predicted_within_half_a_percent(row: dict[str, Any]) -> None:
    spec = stored_as_named(read_config(row["config"], name=row["model"]), row["type"])
    if "gib" in row:
        assert spec.checkpoint_bytes() / 2**30 == pytest.approx(row["gib"], rel=0.005)
    else:
        # llama.cpp's README gives them to four digits; its count of weights has 64 more, of the rotary table
        bits = spec.checkpoint_bytes() * 8 / spec.unique_parameters()
        assert bits == pytest.approx(row["bits_per_weight"], rel=2e-5)


@pytest.mark.parametrize(
    ("model", "kind", "gib"),
    [
        # logs committed beside benchmarks: github.com/XiongjieDai/GPU-Benchmarks-on-LLM-Inference
        ("meta-llama/Llama-2-7b-hf", "Q4_0", 3.56),
        ("meta-llama/Llama-2-13b-hf", "Q4_0", 6.86),
        ("meta-llama/Llama-2-70b-hf", "Q4_0", 36.20),
        ("meta-llama/Llama-2-7b-hf", "F16", 12.55),
        # bench tables in llama.cpp's pull request 13194
        ("google/gemma-3-12b-it", "Q4_K_M", 6.79),
        # llama.cpp's benches/dgx-spark.md
        ("openai/gpt-oss-20b", "MXFP4_MOE", 11.27),
        ("openai/gpt-oss-120b", "MXFP4_MOE", 59.02),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", "Q8_0", 30.25),
    ],
)
def test_the_size_that_llama_cpp_logs(model: str, kind: str, gib: float) -> None:
    spec = stored_as_named(catalogued(catalogue_entry(model)), kind)
    assert spec.checkpoint_bytes() / 2**30 == pytest.approx(gib, abs=0.006)


def types(kind: str, model: MixedModel, **rows: tuple[int, ...]) -> dict[str, str]:
    """Types by name, `__` for a dot."""
    found = mixed_types(file_types()[kind], model, [(name.replace("__", "."), dims) for name, dims in rows.items()])
    return {name: one.name for name, one in found.items()}


def test_a_70b_model_has_more_bits_for_the_values_its_heads_share() -> None:
    row = {"blk__0__attn_v__weight": (8192, 1024), "output__weight": (8192, 32)}
    plain, seventy = MixedModel(80, 8), MixedModel(80, 8, seventy=True)
    assert types("Q3_K_S", plain, **row)["blk.0.attn_v.weight"] == "Q3_K"
    assert types("Q3_K_S", seventy, **row)["blk.0.attn_v.weight"] == "Q5_K"


def test_a_model_of_eight_experts_keeps_keys_and_values_in_eight_bits() -> None:
    row = {f"blk__0__attn_{k}__weight": (4096, 1024) for k in ("k", "v", "output")}
    found = types("Q4_K_M", MixedModel(32, 4, experts=8), **row, output__weight=(4096, 32))
    assert list(found.values()) == ["Q8_0", "Q8_0", "Q5_K", "Q6_K"]


def test_rows_that_do_not_fill_a_block_fall_back() -> None:
    rows = {"blk__0__ffn_up__weight": (320, 8), "blk__1__ffn_up__weight": (40, 8), "output__weight": (320, 8)}
    assert list(types("Q4_K_M", MixedModel(2, 1), **rows).values()) == ["Q5_0", "F16", "Q8_0"]
    assert types("IQ2_XS", MixedModel(2, 1), **rows)["blk.0.ffn_up.weight"] == "IQ4_NL"
    with pytest.raises(BadInput, match=r"rows of 40 elements, which Q4_0 cannot store"):
        types("Q4_0", MixedModel(2, 1), **rows)


def test_a_tied_embedding_is_stored_as_a_head() -> None:
    rows = {"token_embd__weight": (512, 100), "blk__0__ffn_up__weight": (512, 8)}
    assert types("Q4_K_M", MixedModel(1, 1), **rows)["token_embd.weight"] == "Q6_K"
    assert types("Q4_K_M", MixedModel(1, 1), **rows, output__weight=(512, 100))["token_embd.weight"] == "Q4_K"


def test_norms_routers_convolutions_and_biases_stay_in_32_bits() -> None:
    rows = {
        "blk__0__attn_norm__weight": (512,),
        "blk__0__ffn_gate_inp__weight": (512, 8),
        "blk__0__ssm_conv1d__weight": (4, 512),
        "blk__0__ssm_a": (16, 512),
        "blk__0__attn_q__bias": (512,),
        "output__weight": (512, 512),
    }
    assert list(types("Q4_K_M", MixedModel(1, 1), **rows).values()) == ["F32"] * 5 + ["Q6_K"]


def test_the_layers_that_get_more_bits_are_the_first_and_last_eighth_and_every_third_between() -> None:
    rows = {f"blk__{i}__ffn_down__weight": (512, 512) for i in range(16)}
    found = types("Q4_K_M", MixedModel(16, 1), **rows, output__weight=(512, 512))
    more = [i for i in range(16) if found[f"blk.{i}.ffn_down.weight"] == "Q6_K"]
    assert more == [0, 1, 4, 7, 10, 13, 14, 15]


def test_the_flag_takes_a_file_type_in_either_case(cli: Cli) -> None:
    code, out, _ = cli("models", "llama-3.1-8b", "--quantization", "q4_k_m", "--json")
    answer = json.loads(out)
    assert (code, answer["quantization"], answer["checkpoint_bytes"]) == (0, "Q4_K_M", 4912898048)
    code, out, _ = cli("fit", "llama-3.1-8b", "--gpu", "l4", "--quantization", "Q4_K_M", "--max-len", "8192", "--json")
    answer = json.loads(out)
    assert (code, answer["model"]["checkpoint_bytes"]) == (0, 4912898048)
    assert "Llama-3.1-8B-Q4_K_M.gguf" in answer["candidates"][0]["serve_command"]
    assert "--quantization" not in answer["candidates"][0]["serve_command"]


def test_a_name_that_is_no_file_type_is_refused(cli: Cli) -> None:
    code, _, err = cli("models", "llama-3.1-8b", "--quantization", "Q4_K_XXL")
    assert code == 2 and "no file type of llama.cpp; these are: F32, F16, Q4_0" in err


def test_what_llama_cpp_does_not_run_is_refused(cli: Cli) -> None:
    spec = read_config(
        {
            "model_type": "opt",
            "hidden_size": 64,
            "ffn_dim": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "vocab_size": 64,
        },
        name="opt",
    )
    with pytest.raises(BadInput, match=r"llama\.cpp has no architecture for the family opt"):
        stored_as_named(spec, "Q4_K_M")


def test_a_family_that_llama_cpp_is_not_known_to_run_is_said_to_be_one() -> None:
    def said(name: str) -> bool:
        notes = stored_as_named(catalogued(catalogue_entry(name)), "Q4_K_M").assumptions
        return any("is not known to run the family" in str(text) for text in notes)

    assert said("deepseek-ai/DeepSeek-V3.2")
    assert not any(
        said(name) for name in ("mistralai/Mixtral-8x7B-v0.1", "Qwen/Qwen3-VL-8B-Instruct", "google/gemma-2-2b")
    )


def test_fewer_bits_never_store_more() -> None:
    spec = read_config(LLAMA, name="llama")
    order = ("IQ1_S", "IQ2_XXS", "IQ2_M", "Q2_K", "Q3_K_M", "Q4_K_M", "Q5_K_M", "Q6_K", "Q8_0", "F16", "F32")
    sizes = [stored_as_named(spec, kind).checkpoint_bytes() for kind in order]
    assert sizes == sorted(sizes)


@pytest.mark.parametrize("parallel", ["--tp", "--pp"])
def test_a_model_in_a_file_type_is_shared_by_devices(parallel: str, cli: Cli) -> None:
    code, out, err = cli("fit", "deepseek-v3", "--gpu", "h200-sxm", parallel, "8", "--quantization", "Q4_K_M", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["candidates"][0]["fits"]
