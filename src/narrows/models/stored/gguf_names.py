"""What GGUF files call canonical tensors: data, by role.

A role stands in one tensor, or in several that together hold it (a latent attention's up-projection is cut into keys
and values); several roles with one name are fused in the file. `{}` is the layer. Where files of different age differ,
the alternatives are listed, the usual one first, and the file decides. Sources: the package gguf 0.19.0 (MIT),
`gguf.constants.TENSOR_NAMES` and `gguf.tensor_mapping`; llama.cpp's converter (MIT) for what it fuses and splits.
"""

from __future__ import annotations

from collections.abc import Container

Names = tuple[str, ...]
"""The tensors that together hold a role."""

_BLK = "blk.{}."


def _weights(names: dict[str, str], prefix: str = _BLK) -> dict[str, tuple[Names, ...]]:
    """Roles with a weight and perhaps a bias."""
    found: dict[str, tuple[Names, ...]] = {}
    for role, name in names.items():
        found[role] = ((f"{prefix}{name}.weight",),)
        found[f"{role}.bias"] = ((f"{prefix}{name}.bias",),)
    return found


_SSM = {
    "a_log": "ssm_a",
    "d": "ssm_d",
    "conv": "ssm_conv1d.weight",
    "conv_bc": "ssm_conv1d.weight",
    "conv.bias": "ssm_conv1d.bias",
    "conv_bc.bias": "ssm_conv1d.bias",
    "in": "ssm_in.weight",
    "in_bc": "ssm_in.weight",
    "in_dt": "ssm_in.weight",
    "in.bias": "ssm_in.bias",
    "in_bc.bias": "ssm_in.bias",
    "in_dt.bias": "ssm_in.bias",
    "x": "ssm_x.weight",
    "dt": "ssm_dt.weight",
    "dt.bias": "ssm_dt.bias",
    "dt_bias": "ssm_dt.bias",
    "norm": "ssm_norm.weight",
    "dt_norm": "ssm_dt_norm.weight",
    "b_norm": "ssm_b_norm.weight",
    "c_norm": "ssm_c_norm.weight",
    "out": "ssm_out.weight",
    "out.bias": "ssm_out.bias",
}

_DELTA = {
    "a_log": "ssm_a",
    "dt_bias": "ssm_dt.bias",
    "conv": "ssm_conv1d.weight",
    **{f"conv_{k}": f"ssm_conv1d_{k}.weight" for k in "qkv"},
    **{k: f"attn_{k}.weight" for k in "qkv"},
    "qkv": "attn_qkv.weight",
    "z": "attn_gate.weight",
    "a": "ssm_alpha.weight",
    "b": "ssm_beta.weight",
    "ba": "ssm_ba.weight",
    "f_down": "ssm_f_a.weight",
    "f_up": "ssm_f_b.weight",
    "g_down": "ssm_g_a.weight",
    "g_up": "ssm_g_b.weight",
    "norm": "ssm_norm.weight",
    "out": "ssm_out.weight",
}

_NORMS = {
    **dict.fromkeys(("input_layernorm", "ln_1", "norm_1", "norm", "operator_norm", "attention_layernorm"), "attn_norm"),
    **dict.fromkeys(
        ("post_attention_layernorm", "pre_ff_layernorm", "ln_2", "norm_2", "ffn_norm", "feedforward_layernorm"),
        "ffn_norm",
    ),
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
    "post_feedforward_layernorm_1": "post_ffw_norm_1",
    "post_feedforward_layernorm_2": "post_ffw_norm_2",
    "pre_feedforward_layernorm_2": "pre_ffw_norm_2",
    "post_per_layer_input_norm": "post_norm",
    "post_self_attn_layernorm": "post_attention_norm",
    "post_mlp_layernorm": "post_ffw_norm",
    "ln_attn": "attn_norm_2",
    "ln_mlp": "attn_norm",
}

_MLP = ("gate", "up", "down")
_POST_ATTENTION = {"post_attention_layernorm": "post_attention_norm"}

BASE: dict[str, tuple[Names, ...]] = {
    **_weights(
        {
            "embedding": "token_embd",
            "embedding_norm": "token_embd_norm",
            "position_embedding": "position_embd",
            "final_norm": "output_norm",
            "head": "output",
            "per_layer.embedding": "per_layer_token_embd",
            "per_layer.model_projection": "per_layer_model_proj",
            "per_layer.norm": "per_layer_proj_norm",
        },
        "",
    ),
    **_weights({f"attention.{k}": f"attn_{k}" for k in "qkv"}),
    **_weights({f"attention.{k}_norm": f"attn_{k}_norm" for k in "qk"}),
    **_weights(
        {"attention.o": "attn_output", "attention.inner_norm": "attn_sub_norm", "attention.sinks": "attn_sinks"}
    ),
    **_weights({f"mlp.{k}": f"ffn_{k}" for k in _MLP}),
    **_weights({"mlp.inner_norm": "ffn_sub_norm", "router": "ffn_gate_inp", "shared_gate": "ffn_gate_inp_shexp"}),
    **_weights({f"experts.{k}": f"ffn_{k}_exps" for k in _MLP}),
    **_weights({f"shared.{k}": f"ffn_{k}_shexp" for k in _MLP}),
    "router.correction": (("blk.{}.exp_probs_b.bias",), ("blk.{}.exp_probs_b",)),
    "router.scale": (("blk.{}.ffn_gate_inp.scale",),),
    "router.expert_scale": (("blk.{}.ffn_down_exps.scale",),),
    **_weights(
        {
            "mla.q": "attn_q",
            "mla.q_down": "attn_q_a",
            "mla.q_norm": "attn_q_a_norm",
            "mla.q_up": "attn_q_b",
            "mla.kv_down": "attn_kv_a_mqa",
            "mla.kv_norm": "attn_kv_a_norm",
            "mla.o": "attn_output",
            "mla.index_q": "indexer.attn_q_b",
            "mla.index_k": "indexer.attn_k",
            "mla.index_norm": "indexer.k_norm",
            "mla.index_weights": "indexer.proj",
        }
    ),
    # files from before April 2025 have it whole
    "mla.kv_up": (("blk.{}.attn_k_b.weight", "blk.{}.attn_v_b.weight"), ("blk.{}.attn_kv_b.weight",)),
    **{f"mamba.{role}": ((_BLK + name,),) for role, name in _SSM.items()},
    **{f"delta.{role}": ((_BLK + name,),) for role, name in _DELTA.items()},
    "delta.qkvz": (("blk.{}.attn_qkv.weight", "blk.{}.attn_gate.weight"), ("blk.{}.ssm_in.weight",)),
    **_weights({"conv.conv": "shortconv.conv", "conv.in": "shortconv.in_proj", "conv.out": "shortconv.out_proj"}),
    **_weights({"latent.in": "ffn_latent_down", "latent.out": "ffn_latent_up"}),
    **_weights({"per_layer.gate": "inp_gate", "per_layer.projection": "proj"}),
    **_weights({f"norm.{role}": name for role, name in _NORMS.items()}),
    # files have the two numbers of xIELU in their metadata
    "mlp.activation": ((),),
}


def _fused(roles: list[str], name: str) -> dict[str, tuple[Names, ...]]:
    """These roles, and their biases, in one tensor."""
    return {f"{role}{part}": ((f"{_BLK}{name}{part or '.weight'}",),) for role in roles for part in ("", ".bias")}


_FUSED_QKV = _fused([f"attention.{k}" for k in "qkv"], "attn_qkv")
_FUSED_UP = _fused(["mlp.gate", "mlp.up"], "ffn_up")
_AFTER = _weights({f"norm.{role}": name for role, name in _POST_ATTENTION.items()})

OTHERWISE: dict[str, dict[str, tuple[Names, ...]]] = {
    **dict.fromkeys(("gpt2", "gpt_bigcode", "gpt_neox", "falcon", "mpt", "bloom"), _FUSED_QKV),
    "phi3": {**_FUSED_QKV, **_FUSED_UP},
    "glm": _FUSED_UP,
    "glm4": _FUSED_UP,
    **dict.fromkeys(
        (
            *("gemma2", "gemma3", "gemma4", "olmo2", "olmo3", "exaone4", "qwen3_next", "qwen3_5", "qwen3_5_moe"),
            *("gpt_oss", "seed_oss", "glm4_moe"),
        ),
        _AFTER,
    ),
    **{key: {"final_norm": (("token_embd_norm.weight",), ("output_norm.weight",))} for key in ("lfm2", "lfm2_moe")},
    "kimi_linear": {"delta.out": (("blk.{}.attn_output.weight",),)},
}
"""By family, what differs from `BASE`."""

ALTERNATIVES: dict[str, tuple[Names, ...]] = {
    **_FUSED_QKV,
    **_fused(["experts.gate", "experts.up"], "ffn_gate_up_exps"),
}
"""Names that some files have in place of the usual ones, of whatever family: fused where others are not."""


def names_of(family: str, role: str) -> tuple[Names, ...]:
    """The names a role can have in files of this family, the usual ones first; empty where it is unknown."""
    usual = OTHERWISE.get(family, {}).get(role) or BASE.get(role, ())
    return (*usual, *ALTERNATIVES.get(role, ()))


def stored_names(family: str, role: str, index: int, present: Container[str] | None = None) -> Names:
    """The tensors that hold a role in layer `index`: those that are `present`, else the usual ones."""
    options = [tuple(name.replace("{}", str(index)) for name in names) for names in names_of(family, role)]
    if present is not None:
        for names in options:
            if all(name in present for name in names):
                return names
    return options[0] if options else ()
