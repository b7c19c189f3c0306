"""Names of decoders whose classes stand beside their files on the hub (see `dialects`).

Source of the names: the weight maps of the published files.
"""

from __future__ import annotations

_LAYER = "model.layers.{}."
_MLP = ("gate", "up", "down")
_W = {"gate": "w1", "up": "w3", "down": "w2"}


def both(layer: str, parts: dict[str, str]) -> dict[str, str]:
    """Names of modules, each with the bias beside its weight."""
    found = {role: f"{layer}{name}.weight" for role, name in parts.items()}
    return found | {f"{role}.bias": f"{layer}{name}.bias" for role, name in parts.items()}


def fused(name: str) -> dict[str, str]:
    """q, k and v in one module."""
    return {f"attention.{k}": name for k in "qkv"}


_CHANGES: dict[str, dict[str, str]] = {
    "internlm2": {
        **both(
            _LAYER,
            {
                **fused("attention.wqkv"),
                "attention.o": "attention.wo",
                **{f"mlp.{k}": f"feed_forward.{w}" for k, w in _W.items()},
                **{f"norm.{k}": k for k in ("attention_norm", "ffn_norm")},
            },
        ),
        "embedding": "model.tok_embeddings.weight",
        "head": "output.weight",
    },
    "baichuan": both(_LAYER, fused("self_attn.W_pack")),
    "molmo": {
        **both(
            "model.transformer.blocks.{}.",
            {
                **fused("att_proj"),
                "attention.o": "attn_out",
                **{f"mlp.{k}": "ff_proj" for k in ("gate", "up")},
                "mlp.down": "ff_out",
                "norm.input_layernorm": "attn_norm",
                "norm.post_attention_layernorm": "ff_norm",
            },
        ),
        "embedding": "model.transformer.wte.embedding",
        "embedding.new": "model.transformer.wte.new_embedding",
        "final_norm": "model.transformer.ln_f.weight",
        "head": "model.transformer.ff_out.weight",
    },
    "yi": both(_LAYER, {f"norm.{k}": k for k in ("ln1", "ln2")}),
    "minicpm_moe": {f"experts.{k}": f"{_LAYER}mlp.experts.{{}}.{w}.weight" for k, w in _W.items()},
    "grok1": {
        **both(_LAYER, {f"attention.{k}": f"attn.{k}_proj" for k in "qkvo"}),
        **both(_LAYER, {f"norm.{k}": k for k in ("pre_attn_norm", "post_attn_norm", "pre_moe_norm", "post_moe_norm")}),
        "router": f"{_LAYER}moe_block.gate.weight",
        **{
            f"experts.{k}": f"{_LAYER}moe_block.experts.{{}}.{name}.weight"
            for k, name in (("gate", "linear"), ("up", "linear_v"), ("down", "linear_1"))
        },
    },
    "bailing_moe": {
        **both(
            _LAYER,
            {
                **fused("attention.query_key_value"),
                "attention.o": "attention.dense",
                "attention.q_norm": "attention.query_layernorm",
                "attention.k_norm": "attention.key_layernorm",
            },
        ),
        **{f"shared.{k}": f"{_LAYER}mlp.shared_experts.{k}_proj.weight" for k in _MLP},
        "router.correction": f"{_LAYER}mlp.gate.expert_bias",
        "embedding": "model.word_embeddings.weight",
    },
    "arctic": {
        **{f"mlp.{k}": f"{_LAYER}residual_mlp.{w}.weight" for k, w in _W.items()},
        "norm.residual_layernorm": f"{_LAYER}residual_layernorm.weight",
        "router": f"{_LAYER}block_sparse_moe.gate.weight",
        **{f"experts.{k}": f"{_LAYER}block_sparse_moe.experts.{{}}.{w}.weight" for k, w in _W.items()},
    },
    "ouro": {
        **{f"norm.{k}_2": f"{_LAYER}{k}_2.weight" for k in ("input_layernorm", "post_attention_layernorm")},
        "after.exit": "model.early_exit_gate.weight",
        "after.exit.bias": "model.early_exit_gate.bias",
    },
    "plamo3": {
        "embedding": "model.embed_tokens.weight",
        **both(
            "model.layers.layers.{}.",
            {
                **fused("mixer.qkv_proj"),
                "attention.o": "mixer.o_proj",
                **{f"attention.{k}_norm": f"mixer.{k}_norm" for k in "qk"},
                **{f"mlp.{k}": "mlp.gate_up_proj" for k in ("gate", "up")},
                "mlp.down": "mlp.down_proj",
                **{f"norm.{k}": k for k in ("pre_mixer_norm", "post_mixer_norm", "pre_mlp_norm", "post_mlp_norm")},
            },
        ),
    },
    "k2_horizon": {
        "attention.gate": f"{_LAYER}self_attn.gate_proj.weight",
        "attention.v_router": f"{_LAYER}self_attn.v_router.weight",
        "attention.v_router.bias": f"{_LAYER}self_attn.v_router.bias",
        "attention.v_experts": f"{_LAYER}self_attn.v_experts.{{}}.weight",
        "router.bias": f"{_LAYER}mlp.gate.bias",
        **{f"shared.{k}": f"{_LAYER}mlp.shared_experts.{k}_proj.weight" for k in _MLP},
    },
    "spark2_5": {
        **both(_LAYER, {**fused("self_attn.q_k_v_proj"), "attention.o": "self_attn.out_proj"}),
        "attention.gate": f"{_LAYER}self_attn.g_proj.weight",
    },
    "step3": {
        "attention.q_a": f"{_LAYER}self_attn.q_proj.weight",
        "attention.q_a_norm": f"{_LAYER}self_attn.inter_norm.weight",
        "attention.q_b": f"{_LAYER}self_attn.wq.weight",
        "router": f"{_LAYER}moe.gate.weight",
        **{f"experts.{k}": f"{_LAYER}moe.{k}_proj.weight" for k in _MLP},
        **{f"shared.{k}": f"{_LAYER}share_expert.{k}_proj.weight" for k in _MLP},
    },
    "step3p5": {
        "attention.gate": f"{_LAYER}self_attn.g_proj.weight",
        "router": f"{_LAYER}moe.gate.weight",
        "router.correction": f"{_LAYER}moe.router_bias",
        **{f"experts.{k}": f"{_LAYER}moe.{k}_proj.weight" for k in _MLP},
        **{f"shared.{k}": f"{_LAYER}share_expert.{k}_proj.weight" for k in _MLP},
    },
    "nemotron_nas": {
        "link.linear": f"{_LAYER}self_attn.linear_attn.weight",
        "adapter.linear": f"{_LAYER}mlp.linear_mlp.weight",
    },
}
"""Changes to Llama's names."""

_BLOCKS = "transformer.blocks.{}."
_H = "transformer.h.{}."
_GLM = "transformer.encoder.layers.{}."
_GLM1 = "transformer.layers.{}."

_OWN: dict[str, dict[str, str]] = {
    "dbrx": {
        **{f"attention.{k}": f"{_BLOCKS}norm_attn_norm.attn.Wqkv.weight" for k in "qkv"},
        "attention.o": f"{_BLOCKS}norm_attn_norm.attn.out_proj.weight",
        **{f"norm.{k}": f"{_BLOCKS}norm_attn_norm.{k}.weight" for k in ("norm_1", "norm_2")},
        "router": f"{_BLOCKS}ffn.router.layer.weight",
        **{
            f"experts.{k}": f"{_BLOCKS}ffn.experts.mlp.{name}"
            for k, name in (("gate", "w1"), ("up", "v1"), ("down", "w2"))
        },
        "embedding": "transformer.wte.weight",
        "final_norm": "transformer.norm_f.weight",
        "head": "lm_head.weight",
    },
    "qwen": both(
        _H,
        {
            **fused("attn.c_attn"),
            "attention.o": "attn.c_proj",
            # the activation is on w2
            **{"mlp.gate": "mlp.w2", "mlp.up": "mlp.w1", "mlp.down": "mlp.c_proj"},
            **{f"norm.{k}": k for k in ("ln_1", "ln_2")},
        },
    )
    | both("", {"embedding": "transformer.wte", "final_norm": "transformer.ln_f", "head": "lm_head"}),
    "chatglm": both(
        _GLM,
        {
            **fused("self_attention.query_key_value"),
            "attention.o": "self_attention.dense",
            **{f"mlp.{k}": "mlp.dense_h_to_4h" for k in ("gate", "up")},
            "mlp.down": "mlp.dense_4h_to_h",
            **{f"norm.{k}": k for k in ("input_layernorm", "post_attention_layernorm")},
        },
    )
    | both(
        "transformer.",
        {
            "embedding": "embedding.word_embeddings",
            "final_norm": "encoder.final_layernorm",
            "head": "output_layer",
        },
    )
    | {"before.rotary": "transformer.rotary_pos_emb.inv_freq"},
    "chatglm1": both(
        _GLM1,
        {
            **fused("attention.query_key_value"),
            "attention.o": "attention.dense",
            "mlp.up": "mlp.dense_h_to_4h",
            "mlp.down": "mlp.dense_4h_to_h",
            **{f"norm.{k}": k for k in ("input_layernorm", "post_attention_layernorm")},
        },
    )
    | both(
        "", {"embedding": "transformer.word_embeddings", "final_norm": "transformer.final_layernorm", "head": "lm_head"}
    )
    | {"attention.rotary": f"{_GLM1}attention.rotary_emb.inv_freq"},
    "telechat": both(
        _H,
        {
            "attention.q": "self_attention.query",
            **{f"attention.{k}": "self_attention.key_value" for k in "kv"},
            "attention.o": "self_attention.dense",
            **{f"mlp.{k}": f"mlp.{k}_proj" for k in _MLP},
            **{f"norm.{k}": k for k in ("input_layernorm", "post_attention_layernorm")},
        },
    )
    | both("", {"embedding": "transformer.word_embeddings", "final_norm": "transformer.ln_f", "head": "lm_head"}),
    "phi_msft": both(
        _H,
        {
            **fused("mixer.Wqkv"),
            "attention.o": "mixer.out_proj",
            "mlp.up": "mlp.fc1",
            "mlp.down": "mlp.fc2",
            "norm.ln": "ln",
        },
    )
    | both("", {"final_norm": "lm_head.ln", "head": "lm_head.linear"})
    | {"embedding": "transformer.embd.wte.weight"},
    "phi3small": both(
        _LAYER,
        {
            **fused("self_attn.query_key_value"),
            "attention.o": "self_attn.dense",
            **{f"mlp.{k}": "mlp.up_proj" for k in ("gate", "up")},
            "mlp.down": "mlp.down_proj",
            **{f"norm.{k}": k for k in ("input_layernorm", "post_attention_layernorm")},
        },
    )
    | both("", {"embedding": "model.embed_tokens", "final_norm": "model.final_layernorm", "head": "lm_head"}),
    "openelm": {
        **{f"attention.{k}": "transformer.layers.{}.attn.qkv_proj.weight" for k in "qkv"},
        "attention.o": "transformer.layers.{}.attn.out_proj.weight",
        **{f"attention.{k}_norm": f"transformer.layers.{{}}.attn.{k}_norm.weight" for k in "qk"},
        **{f"mlp.{k}": "transformer.layers.{}.ffn.proj_1.weight" for k in ("gate", "up")},
        "mlp.down": "transformer.layers.{}.ffn.proj_2.weight",
        **{f"norm.{k}": f"transformer.layers.{{}}.{k}.weight" for k in ("attn_norm", "ffn_norm")},
        "embedding": "transformer.token_embeddings.weight",
        "final_norm": "transformer.norm.weight",
        "head": "lm_head.weight",
    },
}


_MOE = f"{_LAYER}block_sparse_moe."
_K3 = {
    "delta.g": f"{_LAYER}self_attn.g_proj.weight",
    "mla.gate": f"{_LAYER}self_attn.g_proj.weight",
    "latent.in": f"{_MOE}routed_expert_down_proj.weight",
    "latent.out": f"{_MOE}routed_expert_up_proj.weight",
    "latent.norm": f"{_MOE}routed_expert_norm.weight",
    **{
        f"branch.{part}.{name}": f"{_LAYER}{stored}_res_{own}.weight"
        for part, stored in (("attention", "self_attention"), ("mlp", "mlp"))
        for name, own in (("norm", "norm"), ("score", "proj"))
    },
    **{
        f"after.branch.{name}": f"model.output_attn_res_{own}.weight"
        for name, own in (("norm", "norm"), ("score", "proj"))
    },
}


def remote(decoder: dict[str, str], kimi_linear: dict[str, str]) -> dict[str, dict[str, str]]:
    """All of them; those that differ in part from Llama's names (or Kimi Linear's) are changes to these."""
    # Kimi's attention beside DeepSeek's experts
    solar = {role: name for role, name in kimi_linear.items() if role.startswith("delta.")} | {
        "attention.gate": f"{_LAYER}self_attn.g_proj.weight",
        "router.correction": f"{_LAYER}mlp.gate.e_score_correction_bias",
        **{f"shared.{k}": f"{_LAYER}mlp.shared_experts.{k}_proj.weight" for k in _MLP},
    }
    kimi = {role: f"language_model.{name}" for role, name in {**kimi_linear, **_K3}.items()}
    return {
        **{name: {**decoder, **changes} for name, changes in _CHANGES.items()},
        **_OWN,
        "kimi_k3": kimi,
        "solar_open2": {**decoder, **solar},
    }
