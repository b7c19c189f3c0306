"""The decoders of multimodal configs by the model type of their `text_config`: whose reader reads them, and what the
architecture's defaults are, since those files leave out what equals a default.

Source: the config classes of transformers 5 (Apache-2.0).
"""

from __future__ import annotations

from typing import Any

import msgspec

_NAMES = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "max_position_embeddings",
)


class Decoder(msgspec.Struct, frozen=True):
    """reader: the `model_type` whose reader reads it. fixed: what holds whatever the file says."""

    reader: str
    defaults: dict[str, Any] = {}
    fixed: dict[str, Any] = {}


def _sizes(*values: int | None, **rest: Any) -> dict[str, Any]:
    return {**{n: v for n, v in zip(_NAMES, values, strict=True) if v is not None}, **rest}


_QWEN2 = _sizes(151936, 4096, 22016, 32, 32, 32, 32768)
_QWEN2_VL = Decoder("qwen2", _sizes(152064, 8192, 29568, 80, 64, 8, 32768, max_window_layers=80))
_GLM4V = Decoder("glm4", _sizes(151552, 4096, 13696, 40, 32, 2, 32768), {"attention_bias": True, "head_dim": None})

TEXTS: dict[str, Decoder] = {
    "llama": Decoder("llama", _sizes(32000, 4096, 11008, 32, 32, None, 2048)),
    "mistral": Decoder("mistral", _sizes(32000, 4096, 14336, 32, 32, 8, 131072)),
    "mixtral": Decoder("mixtral", _sizes(32000, 4096, 14336, 32, 32, 8, 131072)),
    "qwen2": Decoder("qwen2", _QWEN2),
    "qwen3": Decoder("qwen3", _QWEN2),
    "gemma": Decoder("gemma", _sizes(256000, 3072, 24576, 28, 16, 16, 8192)),
    "gemma2": Decoder("gemma2", _sizes(256000, 2304, 9216, 26, 8, 4, 8192)),
    "phi": Decoder("phi", _sizes(51200, 2048, 8192, 24, 32, None, 2048)),
    "phi3": Decoder("phi3", _sizes(32064, 3072, 8192, 32, 32, None, 4096)),
    "cohere2": Decoder("cohere2", _sizes(256000, 8192, 22528, 40, 64, None, 8192)),
    "hunyuan_vl_text": Decoder("hunyuan_v1_dense", _sizes(290943, 4096, 11008, 32, 32, None, 2048)),
    "glm5_next_text": Decoder(
        "glm5_next_text", _sizes(154880, 4096, 12288, 45, 64, None, 1048576, moe_intermediate_size=2048)
    ),
    "exaone4": Decoder("exaone4", _sizes(102400, 4096, 16384, 32, 32, 32, 2048)),
    "exaone4_5_text": Decoder("exaone4", _sizes(102400, 4096, 16384, 32, 32, 32, 2048)),
    "lfm2": Decoder("lfm2", _sizes(65536, 2560, 12288, 32, 32, 8, 128000)),
    "deepseek_v3": Decoder("deepseek_v3", _sizes(129280, 7168, 18432, 61, 128, 128, 4096)),
    "opt": Decoder(
        "opt",
        {"vocab_size": 50272, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "ffn_dim": 3072},
    ),
    "nemotron_h": Decoder("nemotron_h", _sizes(131072, 4096, 21504, 4, 32, 8, 4096)),
    "qwen2_vl_text": _QWEN2_VL,
    "qwen2_5_vl_text": _QWEN2_VL,
    "qwen3_5_text": Decoder("qwen3_5_text", _sizes(248320, 4096, 12288, 32, 16, 4, 32768)),
    "glm4v_text": _GLM4V,
    "glm4v_moe_text": Decoder(
        "glm4_moe",
        _sizes(151424, 4096, 10944, 46, 96, 8, 65536, attention_bias=True, moe_intermediate_size=1408),
        {"use_qk_norm": False},
    ),
    "glm_ocr_text": Decoder(
        "glm4", _sizes(59392, 1024, 4096, 16, 16, 8, 131072, head_dim=None), {"attention_bias": False}
    ),
    "paddleocr_vl_text": Decoder("ernie4_5", _sizes(103424, 1024, 3072, 18, 16, 2, 131072)),
    "granite_docling_text": Decoder("granite", _sizes(133800, 1024, 2048, 28, 16, 4, 32768, tie_word_embeddings=True)),
    "aria_text": Decoder("aria_text", _sizes(32000, 4096, 4096, 32, 32, None, 2048)),
    "molmo2_text": Decoder("molmo2_text", _sizes(151936, 4096, 12288, 36, 32, 8, 36864)),
    "ernie4_5_vl_moe_text": Decoder("ernie4_5_vl_moe_text", _sizes(103424, 2560, 12288, 28, 20, 4, 131072)),
    "mistral_large4_text": Decoder(
        "mistral_large4_text", _sizes(204800, 6144, 24576, 72, 64, 64, 1048576, moe_intermediate_size=6144)
    ),
    "unlimited_ocr_text": Decoder(
        "unlimited_ocr_text", _sizes(129280, 1280, 6848, 12, 10, 10, 32768, moe_intermediate_size=896)
    ),
    "muse_glimmer_text": Decoder("muse_glimmer_text", _sizes(202048, 6656, 19968, 52, 32, 2, 131072)),
    "muse_spark_text": Decoder("muse_spark_text", _sizes(202048, 8192, 16384, 62, 128, 16, 1048576)),
    "step3p5": Decoder("step3p5", _sizes(128815, 4096, 11264, 45, 64, None, 128000)),
    "apertus1p5_text": Decoder("apertus1p5_text", _sizes(266752, 4096, 14336, 32, 32, None, 65536)),
    "hyperclovax": Decoder("hyperclovax", _sizes(32000, 4096, 11008, 32, 32, None, 2048)),
    "lfm3": Decoder("lfm3", _sizes(128000, 2048, 7680, 24, 16, 4, 128000)),
    "minimax_m3_vl_text": Decoder("minimax_m3_vl_text", _sizes(200064, 6144, 3072, 60, 64, 4, 524288)),
    "inkling_text": Decoder("inkling_text", _sizes(201024, 6144, 24576, 66, 64, 8, 131072)),
    "inkling2_text": Decoder("inkling2_text", _sizes(201024, 4608, None, 48, 48, 8, 1048576)),
    "inkling2_loop_text": Decoder("inkling2_loop_text", _sizes(201024, 2304, None, 24, 24, 8, 1048576)),
    "hy_v4_vl_text": Decoder(
        "hy_v4",
        _sizes(
            120832,
            6144,
            18432,
            78,
            64,
            None,
            262144,
            moe_intermediate_size=2048,
            q_lora_rank=2048,
            index_n_heads=32,
        ),
    ),
    "qwen3_vl_text": Decoder("qwen3_vl_text", _sizes(151936, 4096, 22016, 32, 32, 32, 128000)),
    "cosmos3_edge_text": Decoder("cosmos3_edge_text", _sizes(131072, 2048, 9216, 28, 16, 8, 131072, head_dim=128)),
}
