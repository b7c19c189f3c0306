"""Readers: one function per config dialect, from its fields to a ModelSpec and nothing else.

A reader knows its architecture's defaults (transformers' config classes, Apache-2.0). To add a family, write a
reader and enter it here under its `model_type`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

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
    **dict.fromkeys(("gpt_bigcode", "gptj", "codegen", "gpt_neox", "opt", "bloom", "mpt", "falcon"), "older"),
    **dict.fromkeys(
        (
            *("bart", "plbart", "mvp", "mbart", "marian", "fsmt", "pegasus", "pegasus_x", "blenderbot"),
            *("blenderbot-small", "m2m_100", "nllb-moe", "bigbird_pegasus", "led", "prophetnet"),
        ),
        "seq2seq",
    ),
    **dict.fromkeys(("t5", "mt5", "umt5", "longt5", "pop2piano", "switch_transformers"), "t5"),
    **dict.fromkeys(
        (
            *("bert", "bert-generation", "big_bird", "camembert", "data2vec-text", "electra", "ernie"),
            *("megatron-bert", "rembert", "roberta", "roberta-prelayernorm", "roc_bert", "roformer"),
            *("xlm-roberta", "xlm-roberta-xl", "xmod"),
        ),
        "bert",
    ),
    **dict.fromkeys(
        (
            *("whisper", "speech_to_text", "speecht5", "moonshine", "canary", "cohere_asr", "dia"),
            *("seamless_m4t", "seamless_m4t_v2"),
        ),
        "speech",
    ),
    **dict.fromkeys(
        (
            *("qwen2_audio", "voxtral", "voxtral_realtime", "audioflamingo3", "musicflamingo", "glmasr", "qwen3_asr"),
            *("granite_speech", "granite_speech_plus", "fun_asr_nano", "omniasr", "vibevoice_asr"),
        ),
        "audio",
    ),
    **dict.fromkeys(("qwen2_5_omni", "qwen2_5_omni_thinker", "qwen3_omni_moe_thinker"), "omni"),
    "qwen3_omni_moe": "omni3",
    **dict.fromkeys(("vibevoice", "kyutai_speech_to_text", "nemo_speechlm"), "audio_more"),
    "t5gemma": "t5gemma",
    "t5gemma2": "t5gemma",
    **dict.fromkeys(("udop", "pp_formulanet", "vision-encoder-decoder"), "documents"),
    "encoder-decoder": "two_halves",
    "speech-encoder-decoder": "two_halves",
}

FAMILIES = tuple(_MODULES)
"""Every `model_type` that narrows reads."""


def reader_of(model_type: str) -> Callable[[Fields], ModelSpec] | None:
    """The reader of a `model_type` (loaded when first asked for), or None."""
    module = _MODULES.get(model_type)
    if module is None:
        return None
    loaded = import_module(f"{__name__}.{module}")
    found: Callable[[Fields], ModelSpec] | None = getattr(loaded, f"read_{model_type}", None)
    # a module of many families that differ in data has one reader for those without peculiarities
    return found or partial(loaded.read, model_type=model_type)
