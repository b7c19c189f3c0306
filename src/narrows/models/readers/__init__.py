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
    "glm5_next_text": "glm5_next",
    "qwen4_exp": "qwen4_exp",
    "qwen4_exp_text": "qwen4_exp",
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
    "gemma3n": "gemma3n",
    "gemma3n_text": "gemma3n",
    **dict.fromkeys(("gemma4_unified", "gemma4_unified_text", "gemma4_unified_assistant"), "gemma4_unified"),
    **dict.fromkeys(
        (
            *("openai-gpt", "ctrl", "gpt_neo", "gpt_neox_japanese", "xglm", "biogpt", "persimmon", "fuyu"),
            "cpmant",
        ),
        "pioneers",
    ),
    **dict.fromkeys(
        (
            *("llava", "llava_next", "llava_next_video", "llava_onevision", "vipllava", "video_llava", "internvl"),
            "internvl_chat",
            *("qianfan_ocr", "paligemma", "shieldgemma2", "idefics3", "smolvlm", "granite_docling", "qwen2_vl"),
            *("qwen2_5_vl", "glm4v", "glm4v_moe", "glm46v", "glmga", "glm_ocr", "kimi_k25", "lfm2_vl", "minicpmv4_6"),
            *(
                "minicpmv4_7",
                "minicpm_ocr",
                "ovis2",
                "aya_vision",
                "glm5_next",
                "hunyuan_vl",
                "cohere2_vision",
                "exaone4_5",
                "deepseek_vl",
                "lighton_ocr",
            ),
            *("paddleocr_vl", "video_llama_3", "idefics2", "aria", "ernie4_5_vl_moe", "mistral_large4", "molmo2"),
            *(
                "nemotron_h_omni",
                "cosmos3_edge",
                "muse_glimmer",
                "step3p7",
                "hyperclovax_vision_v2",
                "lfm3_vl",
            ),
            *("minimax_m3_vl", "inkling2", "inkling2_loop", "hy_v4_vl", "florence2"),
        ),
        "multimodal",
    ),
    "mistral4": "inside",
    "mllama": "mllama",
    "idefics": "idefics",
    **dict.fromkeys(("blip-2", "instructblip", "instructblipvideo"), "qformers"),
    **dict.fromkeys(("blip", "kosmos-2", "kosmos-2.5", "pix2struct"), "captioners"),
    **dict.fromkeys(
        ("deepseek_vl_hybrid", "pp_chart2table", "unlimited_ocr", "cosmos3_omni", "muse_spark", "pi0"), "several"
    ),
    "janus": "janus",
    "dots3_note": "dots3",
    "inkling_mm_model": "inkling_mm",
    "evolla": "evolla",
    "apertus1p5": "apertus",
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
            *("distilbert", "mpnet", "deberta-v2", "modernbert", "nomic_bert", "gte", "eurobert"),
            *("jina_embeddings_v3", "new"),
        ),
        "encoders",
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
