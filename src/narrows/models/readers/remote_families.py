"""Families that transformers 5 does not build from a config: their classes stand beside their files on the hub.

(It has DBRX and Step 3.5, but builds neither from a config of its own.) Each is held against published files instead.
"""

from __future__ import annotations

REMOTE_FAMILIES = {
    **dict.fromkeys(
        (
            *("internlm", "internlm2", "baichuan", "orion", "aquila", "Yi", "solar", "PanguEmbedded", "mimo", "step1"),
            *("minicpm", "deepseek", "grok-1", "stablelm_epoch", "minimax_text_01", "minimax_m1", "minimax_m3"),
            *("mimo_v2", "plamo3", "ouro", "xverse"),
        ),
        "remote",
    ),
    **dict.fromkeys(("dbrx", "arctic", "bailing_moe", "bailing_moe_v2", "hunyuan"), "remote_sparse"),
    **dict.fromkeys(
        (
            *("qwen", "chatglm", "telechat", "telechat2", "phi-msft", "phi3small"),
            *("RefinedWeb", "RefinedWebModel"),
        ),
        "remote_older",
    ),
    **dict.fromkeys(("nemotron-nas", "deci", "openelm"), "uneven"),
    **dict.fromkeys(("k2_horizon", "spark2_5", "nanbeige", "solar_open2"), "horizon"),
    **dict.fromkeys(("phi3_v", "phi4mm", "minicpmv", "molmo"), "remote_seeing"),
    **dict.fromkeys(("kimi_vl", "dots_ocr", "step3_vl"), "multimodal"),
    "step3p5": "step",
    "step3_text": "step",
    "kimi_k3": "kimi_k3",
    "deepseek_vl_v2": "deepseek_ocr",
}
"""By `model_type`: the module that reads it."""
