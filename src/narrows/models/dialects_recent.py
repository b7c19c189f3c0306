"""Names of recent decoders, as changes to the names that most decoders share (see `dialects`)."""

from __future__ import annotations

_LAYER = "model.layers.{}."
_MLP = ("gate", "up", "down")


def _norms(*names: str) -> dict[str, str]:
    return {f"norm.{name}": f"{_LAYER}{name}.weight" for name in names}


_GATE = {"attention.gate": f"{_LAYER}self_attn.gate_proj.weight"}
_SHARED = {
    f"shared.{k}{bias}": f"{_LAYER}mlp.shared_experts.{k}_proj{bias or '.weight'}"
    for k in _MLP
    for bias in ("", ".bias")
}


def _exaone() -> dict[str, str]:
    """EXAONE 3's own files; transformers renames them while loading."""
    parts = {
        **{f"attention.{k}": f"attn.attention.{k}_proj" for k in "qkv"},
        "attention.o": "attn.attention.out_proj",
        "mlp.gate": "mlp.c_fc_0",
        "mlp.up": "mlp.c_fc_1",
        "mlp.down": "mlp.c_proj",
        "norm.input_layernorm": "ln_1",
        "norm.post_attention_layernorm": "ln_2",
    }
    names = {role: f"transformer.h.{{}}.{name}.weight" for role, name in parts.items()}
    biases = {f"{role}.bias": name.replace(".weight", ".bias") for role, name in names.items()}
    return {**names, **biases, "embedding": "transformer.wte.weight", "final_norm": "transformer.ln_f.weight"}


_HYPER = {
    **{
        f"hyper.{part}.{name}": f"{_LAYER}{stored}_hc.{own}"
        for part, stored in (("attention", "attn"), ("mlp", "ffn"))
        for name, own in (("map", "fn"), ("base", "base"), ("scale", "scale"))
    },
    **{
        f"after.hyper.{name}": f"model.hc_head.hc_{own}"
        for name, own in (("map", "fn"), ("base", "base"), ("scale", "scale"))
    },
}

_STREAMS = {
    "norm": "hc_norm",
    "down": "input_mix_weight_down",
    "up": "input_mix_weight_up",
    "inject": "block_inject_weight",
}

CHANGES: dict[str, dict[str, str]] = {
    "exaone": _exaone(),
    "hyperclovax": _norms("post_norm1", "post_norm2"),
    "apertus1p5": {"after.head": "lm_head.weight"},
    "granitemoe_swa": {
        "router": f"{_LAYER}block_sparse_moe.router.layer.weight",
        **{f"experts.{k}": f"{_LAYER}block_sparse_moe.input_linear.weight" for k in ("gate", "up")},
        "experts.down": f"{_LAYER}block_sparse_moe.output_linear.weight",
        **{f"shared.{k}": f"{_LAYER}shared_mlp.input_linear.weight" for k in ("gate", "up")},
        "shared.down": f"{_LAYER}shared_mlp.output_linear.weight",
    },
    "aria_text": {
        **_SHARED,
        "router": f"{_LAYER}mlp.router.weight",
        **{f"experts.{k}": f"{_LAYER}mlp.experts.fc1.weight" for k in ("gate", "up")},
        "experts.down": f"{_LAYER}mlp.experts.fc2.weight",
    },
    "hy_v3": {
        "router": f"{_LAYER}mlp.router.gate.weight",
        "router.correction": f"{_LAYER}mlp.expert_bias",
        **{f"shared.{k}{b}": f"{_LAYER}mlp.shared_mlp.{k}_proj{b or '.weight'}" for k in _MLP for b in ("", ".bias")},
    },
    "flint": {"attention.sinks": f"{_LAYER}self_attn.softmax_offset"},
    "afmoe": {
        **_GATE,
        **_SHARED,
        **_norms("pre_mlp_layernorm"),
        "router": f"{_LAYER}mlp.router.gate.weight",
        "router.correction": f"{_LAYER}mlp.expert_bias",
    },
    "beam": {
        **_GATE,
        "attention.gate_bias": f"{_LAYER}self_attn.gate_bias",
        "router.correction": f"{_LAYER}mlp.gate.e_score_correction_bias",
    },
    "diffllama": {f"attention.lambda_{k}": f"{_LAYER}self_attn.lambda_{k}" for k in ("q1", "k1", "q2", "k2")},
    "doge": {
        "attention.mask_scale": f"{_LAYER}self_attn.A",
        "attention.mask": f"{_LAYER}self_attn.dt_proj.weight",
        "attention.mask.bias": f"{_LAYER}self_attn.dt_proj.bias",
        "scale.input": f"{_LAYER}input_residual",
        "scale.post_attention": f"{_LAYER}post_attention_residual",
        "router": f"{_LAYER}mlp.router_gate.weight",
        "experts.up": f"{_LAYER}mlp.up_embed.weight",
        "experts.down": f"{_LAYER}mlp.down_embed.weight",
        **{f"shared.{k}{b}": f"{_LAYER}mlp.{k}_proj{b or '.weight'}" for k in _MLP for b in ("", ".bias")},
    },
    "dory": {
        **_GATE,
        "attention.sqk": f"{_LAYER}self_attn.sqk",
        "attention.gate_scale": f"{_LAYER}self_attn.s_gate",
        **{f"branch.lambda_{i}": f"{_LAYER}lambda_{i}" for i in (1, 2)},
        **{f"mlp.{k}_scale": f"{_LAYER}mlp.suv_{k}" for k in ("gate", "up")},
        "after.logit_scale": "lm_head.logit_scale",
    },
    "qwen4_exp": {
        **{
            f"delta.{role}": f"{_LAYER}linear_attn.{name}"
            for role, name in {
                **{k: f"in_proj_{k}.weight" for k in ("qkv", "z", "b", "a")},
                **{"conv": "conv1d.weight", "dt_bias": "dt_bias", "a_log": "A_log"},
                **{"norm": "norm.weight", "out": "out_proj.weight"},
            }.items()
        },
        **{f"attention.index_{k}": f"{_LAYER}self_attn.indexer.index_qk_proj.weight" for k in "qk"},
        **{f"attention.index_{k}_norm": f"{_LAYER}self_attn.indexer.{k}_layernorm.weight" for k in "qk"},
        **{
            f"hyper.{side}.{role}": f"{_LAYER}{part}_hyper_connection.{name}.weight"
            for side, part in (("attention", "attn"), ("mlp", "mlp"))
            for role, name in _STREAMS.items()
        },
        **{f"after.hyper.{role}": f"model.hyper_connection_mixer.{name}.weight" for role, name in _STREAMS.items()},
        "ngram.table": f"{_LAYER}ple.ple_embedding.ngram_embedding.weight",
        "ngram.multipliers": f"{_LAYER}ple.ple_embedding.layer_multipliers",
        "ngram.sizes": f"{_LAYER}ple.ple_embedding.ngram_heads_vocab_sizes",
        "ngram.offsets": f"{_LAYER}ple.ple_embedding.ngram_heads_offsets",
        "ngram.conv": f"{_LAYER}ple.conv1d.weight",
        **{f"ngram.{k}": f"{_LAYER}ple.{k}_proj.weight" for k in ("key", "value")},
        **{f"ngram.norm_{k}": f"{_LAYER}ple.norm_{k}.weight" for k in ("key", "query", "conv")},
    },
    "gemma3n": {
        "per_layer.gate": f"{_LAYER}per_layer_input_gate.weight",
        "per_layer.projection": f"{_LAYER}per_layer_projection.weight",
        "per_layer.embedding": "model.embed_tokens_per_layer.weight",
        "per_layer.model_projection": "model.per_layer_model_projection.weight",
        "per_layer.norm": "model.per_layer_projection_norm.weight",
        **_norms("post_per_layer_input_norm"),
        "altup.scale": f"{_LAYER}altup.correct_output_scale",
        "altup.correction": f"{_LAYER}altup.correction_coefs.weight",
        "altup.prediction": f"{_LAYER}altup.prediction_coefs.weight",
        "altup.router": f"{_LAYER}altup.modality_router.weight",
        "altup.router_norm": f"{_LAYER}altup.router_norm.weight",
        "laurel.left": f"{_LAYER}laurel.linear_left.weight",
        "laurel.right": f"{_LAYER}laurel.linear_right.weight",
        "laurel.norm": f"{_LAYER}laurel.post_laurel_norm.weight",
        "before.altup": "model.altup_projections.{}.weight",
        "after.altup": "model.altup_unembed_projections.{}.weight",
    },
}
"""Changes to Llama's names."""

HEAD_GATE = {"mla.head_gate": f"{_LAYER}self_attn.g_proj.weight"}
LATENT_CHANGES: dict[str, dict[str, str]] = {
    "glm5_next": {
        **{f"delta.{k}": f"{_LAYER}self_attn.{k}_proj.weight" for k in "qkvb"},
        **{f"delta.conv_{k}": f"{_LAYER}self_attn.conv1d.weight" for k in "qkv"},
        **{f"delta.g_{way}": f"{_LAYER}self_attn.g_{k}_proj.weight" for way, k in (("down", "a"), ("up", "b"))},
        **{
            f"delta.f_{way}": f"{_LAYER}self_attn.forget_gate.f_{k}_proj.weight"
            for way, k in (("down", "a"), ("up", "b"))
        },
        "delta.dt_bias": f"{_LAYER}self_attn.forget_gate.dt_bias",
        "delta.a_log": f"{_LAYER}self_attn.forget_gate.A_log",
        "delta.norm": f"{_LAYER}self_attn.o_norm.weight",
        "delta.out": f"{_LAYER}self_attn.o_proj.weight",
        "mla.index_pool.position": f"{_LAYER}self_attn.indexer.index_kpool_compress_ape",
        "mla.index_pool.gate": f"{_LAYER}self_attn.indexer.index_kpool_compress_gate",
        **{
            f"hyper.{side}.{role}": f"{_LAYER}{part}_hc.{name}"
            for side, part in (("attention", "attn"), ("mlp", "ffn"))
            for role, name in (("map", "fn"), ("base", "base"), ("scale", "scale"))
        },
    },
    "axk1": _norms("post_mlp_layernorm"),
    "axk2": {
        "mla.q_gate": f"{_LAYER}self_attn.q_b_proj.weight",
        **{
            f"norm_gate.{norm}.{way}": f"{_LAYER}{norm}.W_{way}.weight"
            for norm in ("input_layernorm", "post_attention_layernorm")
            for way in ("down", "up")
        },
    },
    "hy_v4": {
        **_HYPER,
        "mla.gate": f"{_LAYER}self_attn.linear_gate.weight",
        "mla.sinks": f"{_LAYER}self_attn.learnable_sink_param",
    },
    "dots3_note": {**HEAD_GATE, "mla.rope_norm": f"{_LAYER}self_attn.k_rope_only_layernorm.weight"},
    "bailing_hybrid": {
        **HEAD_GATE,
        **{f"delta.{k}": f"{_LAYER}self_attn.{k}_proj.weight" for k in ("q", "k", "v", "b", "f", "g")},
        **{f"delta.conv_{k}": f"{_LAYER}self_attn.conv1d.weight" for k in "qkv"},
        "delta.a_log": f"{_LAYER}self_attn.A_log",
        "delta.dt_bias": f"{_LAYER}self_attn.dt_bias",
        "delta.norm": f"{_LAYER}self_attn.o_norm.weight",
        "delta.out": f"{_LAYER}self_attn.o_proj.weight",
    },
}
"""Changes to DeepSeek-V3's names."""


_V4 = {
    "embedding": "embed.weight",
    "final_norm": "norm.weight",
    "head": "head.weight",
    "norm.input_layernorm": "layers.{}.attn_norm.weight",
    "norm.post_attention_layernorm": "layers.{}.ffn_norm.weight",
    **{
        f"csa.{role}": f"layers.{{}}.attn.{name}"
        for role, name in {
            "q_down": "wq_a.weight",
            "q_norm": "q_norm.weight",
            "q_up": "wq_b.weight",
            "kv": "wkv.weight",
            "kv_norm": "kv_norm.weight",
            "o_group": "wo_a.weight",
            "o": "wo_b.weight",
            "sinks": "attn_sink",
            "index.q": "indexer.wq_b.weight",
            "index.weights": "indexer.weights_proj.weight",
            **{
                f"{part}.{role}": f"{stored}.{name}"
                for part, stored in (("compress", "compressor"), ("index", "indexer.compressor"))
                for role, name in (
                    ("kv", "wkv.weight"),
                    ("gate", "wgate.weight"),
                    ("position", "ape"),
                    ("norm", "norm.weight"),
                )
            },
        }.items()
    },
    "router": "layers.{}.ffn.gate.weight",
    "router.correction": "layers.{}.ffn.gate.bias",
    "router.by_token": "layers.{}.ffn.gate.tid2eid",
    **{
        role: f"layers.{{}}.ffn.{place}.{name}"
        for part, place in (("experts", "experts.{}"), ("shared", "shared_experts"))
        for k, w in (("gate", "w1"), ("down", "w2"), ("up", "w3"))
        for role, name in ((f"{part}.{k}", f"{w}.weight"), (f"{part}.{k}.bias", f"{w}.bias"))
    },
    **{
        f"hyper.{part}.{name}": f"layers.{{}}.hc_{stored}_{own}"
        for part, stored in (("attention", "attn"), ("mlp", "ffn"))
        for name, own in (("map", "fn"), ("base", "base"), ("scale", "scale"))
    },
    **{f"after.hyper.{name}": f"hc_head_{own}" for name, own in (("map", "fn"), ("base", "base"), ("scale", "scale"))},
}
"""DeepSeek-V4's own files."""


_DRAFTS = {
    "draft.fc": "fc.weight",
    "draft.blocks": "blocks.weight",
    "draft.heads": "lm_heads.weight",
    "draft.norm": "norm.weight",
    "draft.head": "lm_head.weight",
    "draft.embedding": "embed_tokens.weight",
    "draft.to_target": "d2t",
    "norm.hidden_norm": "midlayer.hidden_norm.weight",
    **{f"draft.wide_{k}": f"midlayer.self_attn.{k}_proj.weight" for k in "qkv"},
}
"""Of heads that draft for another model (EAGLE, Medusa)."""


def recent(decoder: dict[str, str], latent: dict[str, str]) -> dict[str, dict[str, str]]:
    """All of them, on Llama's and DeepSeek-V3's names."""
    found = {name: {**decoder, **changes} for name, changes in CHANGES.items()}
    found |= {name: {**latent, **changes} for name, changes in LATENT_CHANGES.items()}
    # two stacks of layers, one after the other; both are named as the first
    looped = {role: name.replace("model.layers", "model.L_module.layers") for role, name in decoder.items()}
    gate = {
        f"attention.gate{b}": f"model.L_module.layers.{{}}.self_attn.gate_proj{b or '.weight'}" for b in ("", ".bias")
    }
    found["hrm_text"] = {**looped, **gate, "before.low_state": "model.z_L_init"}
    found["deepseek_v4"] = _V4
    found["drafts"] = {**decoder, **_DRAFTS}
    return found
