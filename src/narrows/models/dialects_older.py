"""The names of decoders from before Llama (see `dialects`)."""

from __future__ import annotations


def _names(layer: str, parts: dict[str, str], outer: dict[str, str]) -> dict[str, str]:
    """Names of a decoder: `parts` per layer and `outer` around them, each with the bias beside its weight."""
    found = {}
    for role, name in {**outer, **{role: layer + name for role, name in parts.items()}}.items():
        found[role] = f"{name}.weight"
        found[f"{role}.bias"] = f"{name}.bias"
    return found


def _fused(name: str) -> dict[str, str]:
    return {f"attention.{k}": name for k in "qkv"}


_GPT2 = {
    "embedding": "wte.weight",
    "position_embedding": "wpe.weight",
    "final_norm": "ln_f.weight",
    "final_norm.bias": "ln_f.bias",
    "head": "lm_head.weight",
    **{f"attention.{k}": "h.{}.attn.c_attn.weight" for k in "qkv"},
    **{f"attention.{k}.bias": "h.{}.attn.c_attn.bias" for k in "qkv"},
    "attention.o": "h.{}.attn.c_proj.weight",
    "attention.o.bias": "h.{}.attn.c_proj.bias",
    "mlp.up": "h.{}.mlp.c_fc.weight",
    "mlp.up.bias": "h.{}.mlp.c_fc.bias",
    "mlp.down": "h.{}.mlp.c_proj.weight",
    "mlp.down.bias": "h.{}.mlp.c_proj.bias",
    **{f"norm.{k}": f"h.{{}}.{k}.weight" for k in ("ln_1", "ln_2")},
    **{f"norm.{k}.bias": f"h.{{}}.{k}.bias" for k in ("ln_1", "ln_2")},
}

_LN = {f"norm.{k}": k for k in ("ln_1", "ln_2")}
_TWO_NORMS = {f"norm.{k}": k for k in ("input_layernorm", "post_attention_layernorm")}

OLDER: dict[str, dict[str, str]] = {
    "gpt2": _GPT2,
    "gpt_bigcode": {role: name if role == "head" else f"transformer.{name}" for role, name in _GPT2.items()},
    "gptj": _names(
        "transformer.h.{}.",
        {
            **{f"attention.{k}": f"attn.{k}_proj" for k in "qkv"},
            "attention.o": "attn.out_proj",
            "mlp.up": "mlp.fc_in",
            "mlp.down": "mlp.fc_out",
            "norm.ln_1": "ln_1",
        },
        {"embedding": "transformer.wte", "final_norm": "transformer.ln_f", "head": "lm_head"},
    ),
    "codegen": _names(
        "transformer.h.{}.",
        {
            **_fused("attn.qkv_proj"),
            "attention.o": "attn.out_proj",
            "mlp.up": "mlp.fc_in",
            "mlp.down": "mlp.fc_out",
            "norm.ln_1": "ln_1",
        },
        {"embedding": "transformer.wte", "final_norm": "transformer.ln_f", "head": "lm_head"},
    ),
    "gpt_neox": _names(
        "gpt_neox.layers.{}.",
        {
            **_fused("attention.query_key_value"),
            "attention.o": "attention.dense",
            "mlp.up": "mlp.dense_h_to_4h",
            "mlp.down": "mlp.dense_4h_to_h",
            **{f"norm.{k}": k for k in ("input_layernorm", "post_attention_layernorm")},
        },
        {"embedding": "gpt_neox.embed_in", "final_norm": "gpt_neox.final_layer_norm", "head": "embed_out"},
    ),
    "opt": _names(
        "model.decoder.layers.{}.",
        {
            **{f"attention.{k}": f"self_attn.{k}_proj" for k in "qkv"},
            "attention.o": "self_attn.out_proj",
            "mlp.up": "fc1",
            "mlp.down": "fc2",
            **{f"norm.{k}": k for k in ("self_attn_layer_norm", "final_layer_norm")},
        },
        {
            "embedding": "model.decoder.embed_tokens",
            "embedding.in": "model.decoder.project_in",
            "embedding.out": "model.decoder.project_out",
            "position_embedding": "model.decoder.embed_positions",
            "final_norm": "model.decoder.final_layer_norm",
            "head": "lm_head",
        },
    ),
    "bloom": _names(
        "transformer.h.{}.",
        {
            **_fused("self_attention.query_key_value"),
            "attention.o": "self_attention.dense",
            "mlp.up": "mlp.dense_h_to_4h",
            "mlp.down": "mlp.dense_4h_to_h",
            **{f"norm.{k}": k for k in ("input_layernorm", "post_attention_layernorm")},
        },
        {
            "embedding": "transformer.word_embeddings",
            "embedding_norm": "transformer.word_embeddings_layernorm",
            "final_norm": "transformer.ln_f",
            "head": "lm_head",
        },
    ),
    "mpt": _names(
        "transformer.blocks.{}.",
        {
            **_fused("attn.Wqkv"),
            "attention.o": "attn.out_proj",
            "mlp.up": "ffn.up_proj",
            "mlp.down": "ffn.down_proj",
            **{f"norm.{k}": k for k in ("norm_1", "norm_2")},
        },
        {"embedding": "transformer.wte", "final_norm": "transformer.norm_f", "head": "lm_head"},
    ),
    "falcon": _names(
        "transformer.h.{}.",
        {
            **_fused("self_attention.query_key_value"),
            "attention.o": "self_attention.dense",
            "mlp.up": "mlp.dense_h_to_4h",
            "mlp.down": "mlp.dense_4h_to_h",
            **{f"norm.{k}": k for k in ("input_layernorm", "post_attention_layernorm", "ln_attn", "ln_mlp")},
        },
        {"embedding": "transformer.word_embeddings", "final_norm": "transformer.ln_f", "head": "lm_head"},
    ),
    "openai-gpt": _names(
        "transformer.h.{}.",
        {**_fused("attn.c_attn"), "attention.o": "attn.c_proj", "mlp.up": "mlp.c_fc", "mlp.down": "mlp.c_proj", **_LN},
        {
            "embedding": "transformer.tokens_embed",
            "position_embedding": "transformer.positions_embed",
            "head": "lm_head",
        },
    ),
    "ctrl": _names(
        "transformer.h.{}.",
        {
            **{f"attention.{k}": f"multi_head_attention.W{k}" for k in "qkv"},
            "attention.o": "multi_head_attention.dense",
            "mlp.up": "ffn.0",
            "mlp.down": "ffn.2",
            **{f"norm.{k}": k for k in ("layernorm1", "layernorm2")},
        },
        {"embedding": "transformer.w", "final_norm": "transformer.layernorm", "head": "lm_head"},
    ),
    "gpt_neo": _names(
        "transformer.h.{}.",
        {
            **{f"attention.{k}": f"attn.attention.{k}_proj" for k in "qkv"},
            "attention.o": "attn.attention.out_proj",
            "mlp.up": "mlp.c_fc",
            "mlp.down": "mlp.c_proj",
            **_LN,
        },
        {
            "embedding": "transformer.wte",
            "position_embedding": "transformer.wpe",
            "final_norm": "transformer.ln_f",
            "head": "lm_head",
        },
    ),
    "gpt_neox_japanese": {
        **_names(
            "gpt_neox_japanese.layers.{}.",
            {
                **_fused("attention.query_key_value"),
                "attention.o": "attention.dense",
                "mlp.up": "mlp.dense_h_to_4h",
                "mlp.down": "mlp.dense_4h_to_h",
                **_TWO_NORMS,
            },
            {
                "embedding": "gpt_neox_japanese.embed_in",
                "final_norm": "gpt_neox_japanese.final_layer_norm",
                "head": "embed_out",
            },
        ),
        "attention.last_bias": "gpt_neox_japanese.layers.{}.attention.dense_bias",
    },
    **{
        name: _names(
            f"{prefix}.layers.{{}}.",
            {
                **{f"attention.{k}": f"self_attn.{k}_proj" for k in "qkv"},
                "attention.o": "self_attn.out_proj",
                "mlp.up": "fc1",
                "mlp.down": "fc2",
                **{f"norm.{k}": k for k in ("self_attn_layer_norm", "final_layer_norm")},
            },
            {
                "embedding": f"{prefix}.embed_tokens",
                "position_embedding": f"{prefix}.embed_positions",
                "final_norm": f"{prefix}.layer_norm",
                "head": head,
            },
        )
        for name, prefix, head in (("xglm", "model", "lm_head"), ("biogpt", "biogpt", "output_projection"))
    },
    **{
        name: _names(
            f"{prefix}.layers.{{}}.",
            {
                **_fused("self_attn.query_key_value"),
                "attention.o": "self_attn.dense",
                **{f"attention.{k}_norm": f"self_attn.{k}_layernorm" for k in "qk"},
                "mlp.up": "mlp.dense_h_to_4h",
                "mlp.down": "mlp.dense_4h_to_h",
                **_TWO_NORMS,
            },
            {"embedding": f"{prefix}.embed_tokens", "final_norm": f"{prefix}.final_layernorm", "head": "lm_head"},
        )
        for name, prefix in (("persimmon", "model"), ("fuyu", "model.language_model"))
    },
    "cpmant": {
        **_names(
            "cpmant.encoder.layers.{}.",
            {
                **{f"attention.{k}": f"self_att.self_attention.project_{k}" for k in "qkv"},
                "attention.o": "self_att.self_attention.attention_out",
                "mlp.gate": "ffn.ffn.w_in.w_0",
                "mlp.up": "ffn.ffn.w_in.w_1",
                "mlp.down": "ffn.ffn.w_out",
                "norm.layernorm_before_attention": "self_att.layernorm_before_attention",
                "norm.layernorm_before_ffn": "ffn.layernorm_before_ffn",
            },
            {
                "embedding": "cpmant.input_embedding",
                "before.segments": "cpmant.segment_embedding",
                "final_norm": "cpmant.encoder.output_layernorm",
                "head": "lm_head",
            },
        ),
        "before.position_bias": "cpmant.position_bias.relative_attention_bias",
    },
}
