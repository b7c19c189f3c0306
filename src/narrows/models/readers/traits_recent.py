"""More decoders that differ from Llama in switches, names and defaults (see `traits`), by `model_type`."""

from __future__ import annotations

from narrows.models.readers.build import PRE_NORMS, SANDWICH_NORMS
from narrows.models.readers.traits import Experts, Traits
from narrows.models.spec import Norms

_BIAS = ("attention_bias", False)
_MLP = ("mlp_bias", False)
_POST_NORMS = Norms(("post_attention_layernorm", "post_feedforward_layernorm"))

TRAITS: dict[str, Traits] = {
    "exaone": Traits(dialect="exaone", kv_heads=8, qkv_bias=_BIAS, out_bias=_BIAS, mlp_bias=_MLP),
    "hyperclovax": Traits(
        dialect="hyperclovax",
        qkv_bias=_BIAS,
        out_bias=_BIAS,
        mlp_bias=_MLP,
        norms=Norms((*PRE_NORMS.names, "post_norm1", "post_norm2")),
    ),
    "cwm": Traits(kv_heads=8, head_dim=128, mlp_bias=_MLP, windows=True, window=8192),
    "emu3_text_model": Traits(kv_heads=8),
    "apertus1p5_text": Traits(
        dialect="apertus1p5",
        qkv_bias=_BIAS,
        out_bias=_BIAS,
        qk_norm=True,
        gated=False,
        norms=Norms(("attention_layernorm", "feedforward_layernorm")),
    ),
    "granite_swa": Traits(kv_heads=4, qkv_bias=_BIAS, out_bias=_BIAS, mlp_bias=_MLP, tied=True, window=128),
    "granitemoe_swa": Traits(
        dialect="granitemoe_swa",
        qkv_bias=_BIAS,
        out_bias=_BIAS,
        window=128,
        experts=Experts(shared="shared_intermediate_size", shared_width=True),
    ),
    "cohere2_moe": Traits(
        dialect="deepseek",
        head_dim=128,
        qkv_bias=_BIAS,
        out_bias=_BIAS,
        norms=Norms(("input_layernorm",)),
        tied=True,
        window=4096,
        experts=Experts(shared="num_shared_experts"),
    ),
    "flex_olmo": Traits(
        qkv_bias=_BIAS,
        out_bias=_BIAS,
        qk_norm=True,
        qk_norm_heads=True,
        qk_norm_across=True,
        norms=_POST_NORMS,
        experts=Experts(number_default=7, top_k_default=5),
    ),
    "aria_text": Traits(
        dialect="aria_text",
        qkv_bias=_BIAS,
        out_bias=_BIAS,
        experts=Experts(
            number=("moe_num_experts", "num_experts"),
            top_k=("moe_topk", "num_experts_per_tok"),
            shared="moe_num_shared_experts",
            shared_default=2,
            shared_bias=_MLP,
        ),
    ),
    "hy_v3": Traits(
        dialect="hy_v3",
        kv_heads=8,
        head_dim=128,
        qkv_bias=_BIAS,
        out_bias=_BIAS,
        mlp_bias=_MLP,
        qk_norm=True,
        experts=Experts(
            number_default=192,
            top_k_default=8,
            width="moe_intermediate_size",
            shared="num_shared_experts",
            shared_default=1,
            shared_bias=_MLP,
            correction=True,
        ),
    ),
    "flint": Traits(kv_heads=4, head_dim=128, qkv_bias=_BIAS, out_bias=_BIAS, qk_norm=True, window=513),
    "afmoe": Traits(
        dialect="afmoe",
        head_dim=128,
        qkv_bias=_BIAS,
        out_bias=_BIAS,
        qk_norm=True,
        norms=Norms((*PRE_NORMS.names, "pre_mlp_layernorm", "post_mlp_layernorm")),
        window=1024,
        experts=Experts(
            number_default=64,
            top_k_default=6,
            width="moe_intermediate_size",
            shared="num_shared_experts",
            shared_default=2,
            correction=True,
            correction_learned=True,
        ),
    ),
    "beam": Traits(
        dialect="beam",
        kv_heads=8,
        head_dim=128,
        qkv_bias=_BIAS,
        out_bias=_BIAS,
        qk_norm=True,
        norms=SANDWICH_NORMS,
        window=512,
        experts=Experts(number_default=256, top_k_default=8, width="moe_intermediate_size", correction=True),
    ),
    "doge": Traits(dialect="doge", qkv_bias=_BIAS, out_bias=_BIAS, mlp_bias=_MLP, qk_norm=True),
    "diffllama": Traits(dialect="diffllama", qkv_bias=_BIAS, out_bias=_BIAS),
}
"""By `model_type`."""
