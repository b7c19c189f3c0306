"""Readers: one function per config dialect, from its fields to a ModelSpec and nothing else.

A reader knows its architecture's defaults (transformers' config classes, Apache-2.0). To add a family, write a
reader and enter it here under its `model_type`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from narrows.models.readers.remote_families import REMOTE_FAMILIES

if TYPE_CHECKING:
    from narrows.models.fields import Fields
    from narrows.models.spec import ModelSpec

_MODULES = {
    "llama": "llama",
    "mistral": "llama",
    "ministral": "llama",
    "mixtral": "llama",
    "qwen2": "qwen",
    "qwen2_moe": "qwen",
    "qwen3": "qwen",
    "qwen3_moe": "qwen",
    "qwen3_next": "qwen",
    "gemma": "gemma",
    "gemma2": "gemma",
    "gemma3": "gemma",
    "gemma3_text": "gemma",
    "phi3": "phi3",
    "deepseek_v2": "deepseek",
    "deepseek_v3": "deepseek",
    "kimi_k2": "deepseek",
    **dict.fromkeys(("deepseek_v32", "glm4_moe_lite", "glm_moe_dsa", "minicpm3"), "deepseek"),
    "gpt_oss": "gpt_oss",
    "jamba": "jamba",
    "gpt2": "gpt2",
    **dict.fromkeys(
        (
            *("glm", "glm4", "seed_oss", "ernie4_5", "hunyuan_v1_dense", "cohere", "cohere2", "olmo", "olmo2", "olmo3"),
            *("phi", "starcoder2", "stablelm", "granite", "smollm3", "exaone4", "nemotron", "arcee", "apertus"),
            *("helium", "internlm3", "bitnet", "ministral3", "minimax_m2", "olmoe", "phimoe", "granitemoe"),
            *("granitemoeshared", "glm4_moe", "solar_open", "dots1", "ernie4_5_moe", "hunyuan_v1_moe"),
            *("exaone_moe", "jais2"),
        ),
        "like_llama",
    ),
    **dict.fromkeys(
        ("qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_vl", "qwen3_vl_moe"), "qwen3_5"
    ),
    **dict.fromkeys(
        ("mamba", "falcon_mamba", "mamba2", "bamba", "falcon_h1", "granitemoehybrid", "nemotron_h"), "hybrid"
    ),
    **dict.fromkeys(("kimi_linear", "minimax", "lfm2", "lfm2_moe"), "linear"),
    "gemma4": "gemma4",
    "gemma4_text": "gemma4",
    "llama4": "llama4",
    "llama4_text": "llama4",
    "mistral3": "mistral3",
    **dict.fromkeys(
        (
            *("iquestcoder", "nanochat", "vaultgemma", "kolibri1", "sarvam_moe", "mellum", "laguna", "lara_mini"),
            *("lfm3", "olmo_hybrid"),
        ),
        "varied",
    ),
    **dict.fromkeys(
        ("youtu", "sarvam_mla", "longcat_flash", "minimax_m3_vl_text", "mimo_v2_flash", "jetmoe"), "latent_variants"
    ),
    "zamba": "zamba",
    "zamba2": "zamba",
    **dict.fromkeys(("recurrent_gemma", "rwkv", "xlstm"), "recurrences"),
    **dict.fromkeys(("mllama_text_model", "trocr", "musicgen_decoder", "musicgen_melody_decoder", "moshi"), "crossed"),
    **dict.fromkeys(("inkling_text", "inkling2_text", "inkling2_loop_text"), "inkling"),
    "zaya": "zaya",
    **dict.fromkeys(("xlm", "xlnet", "modernbert-decoder"), "bidirectional"),
    **dict.fromkeys(("git", "got_ocr2", "moss_transcribe_diarize", "phi4_multimodal"), "towered"),
    **dict.fromkeys(
        (
            *("exaone", "hyperclovax", "cwm", "emu3_text_model", "apertus1p5_text", "granite_swa", "granitemoe_swa"),
            *("cohere2_moe", "flex_olmo", "aria_text", "hy_v3", "flint", "afmoe", "beam", "diffllama", "doge"),
        ),
        "recent",
    ),
    **dict.fromkeys(("axk1", "axk2", "hy_v4", "dots3_note_text", "bailing_hybrid"), "latent"),
    "deepseek_v4": "deepseek_v4",
    **dict.fromkeys(("dory", "hrm_text"), "looped"),
    "gemma3n_text": "gemma3n",
    **dict.fromkeys(("gemma4_unified", "gemma4_unified_text", "gemma4_unified_assistant"), "gemma4_unified"),
    **dict.fromkeys(
        (
            *("openai-gpt", "ctrl", "gpt_neo", "gpt_neox_japanese", "xglm", "biogpt", "persimmon", "fuyu"),
            "cpmant",
        ),
        "pioneers",
    ),
    **dict.fromkeys(("gpt_bigcode", "gptj", "codegen", "gpt_neox", "opt", "bloom", "mpt", "falcon"), "older"),
}
_MODULES |= REMOTE_FAMILIES

FAMILIES = tuple(_MODULES)
"""Every `model_type` that narrows reads."""


def reader_of(model_type: str) -> Callable[[Fields], ModelSpec] | None:
    """The reader of a `model_type` (loaded when first asked for), or None."""
    module = _MODULES.get(model_type)
    if module is None:
        return None
    loaded = import_module(f"{__name__}.{module}")
    found: Callable[[Fields], ModelSpec] | None = getattr(loaded, f"read_{model_type.replace('-', '_')}", None)
    # a module of many families that differ in data has one reader for those without peculiarities
    return found or partial(loaded.read, model_type=model_type)
