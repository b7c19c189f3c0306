"""The names of decoders that vary a known one, of recurrent ones and of those behind an encoder (see `dialects`)."""

from __future__ import annotations

_LAYER = "model.layers.{}."
_BLOCK = "rwkv.blocks.{}."
_MLP = ("gate", "up", "down")


def _both(layer: str, parts: dict[str, str]) -> dict[str, str]:
    """Names of weights and of the biases beside them."""
    return {
        f"{role}{bias}": f"{layer}{name}{bias or '.weight'}" for role, name in parts.items() for bias in ("", ".bias")
    }


def _norms(layer: str, *names: str) -> dict[str, str]:
    return _both(layer, {f"norm.{name}": name for name in names})


_BART = {
    "embedding": "model.decoder.embed_tokens.weight",
    "position_embedding": "model.decoder.embed_positions.weight",
    "head": "output_projection.weight",
    **_both("model.decoder.", {"embedding_norm": "layernorm_embedding", "final_norm": "layer_norm"}),
    **_both(
        "model.decoder.layers.{}.",
        {
            **{f"attention.{k}": f"self_attn.{k}_proj" for k in "qkv"},
            **{f"cross.{k}": f"encoder_attn.{k}_proj" for k in "qkv"},
            "attention.o": "self_attn.out_proj",
            "cross.o": "encoder_attn.out_proj",
            "mlp.up": "fc1",
            "mlp.down": "fc2",
        },
    ),
    **_norms("model.decoder.layers.{}.", "self_attn_layer_norm", "final_layer_norm", "encoder_attn_layer_norm"),
}

_ZAMBA_MAMBA = {
    "a_log": "A_log",
    "d": "D",
    "dt_bias": "dt_bias",
    "norm": "norm.weight",
    **{f"{role}{bias}": f"conv1d{bias or '.weight'}" for role in ("conv", "conv_bc") for bias in ("", ".bias")},
    **{f"{role}{bias}": f"in_proj{bias or '.weight'}" for role in ("in", "in_bc", "in_dt") for bias in ("", ".bias")},
    "x": "x_proj_weight",
    "dt": "dt_proj_weight",
    "dt.bias": "dt_proj_bias",
    "out": "out_proj.weight",
    "out.bias": "out_proj.bias",
}


def _zamba(decoder: dict[str, str], block: str, fused: bool) -> dict[str, str]:
    """Both Zambas: `block` is the shared one."""
    inside = f"{_LAYER}{block}."
    mlp = {k: "gate_up_proj" if fused and k != "down" else f"{k}_proj" for k in _MLP}
    adapters = {
        f"adapter.{k}_{way}": f"{inside}{part}_adapter_list.{{}}.{i}.weight"
        for k, part in (("mlp", "feed_forward.gate_up_proj"), *((k, f"self_attn.linear_{k}") for k in "qkv"))
        for i, way in enumerate(("down", "up"))
    }
    return {
        **decoder,
        "final_norm": "model.final_layernorm.weight",
        **{f"mamba.{role}": f"{_LAYER}mamba.{name}" for role, name in _ZAMBA_MAMBA.items()},
        **{f"hybrid_mamba.{role}": f"{_LAYER}mamba_decoder.mamba.{name}" for role, name in _ZAMBA_MAMBA.items()},
        **{f"attention.{k}": f"{inside}self_attn.{k}_proj.weight" for k in "qkvo"},
        **_both(f"{inside}feed_forward.", {f"mlp.{k}": name for k, name in mlp.items()}),
        **_norms(_LAYER, "mamba_decoder.input_layernorm"),
        "link.linear": f"{_LAYER}linear.weight",
        "shared_norm.input": f"{inside}input_layernorm.weight",
        "shared_norm.pre_ff": f"{inside}pre_ff_layernorm.weight",
        **adapters,
    }


_RECURRENT_GEMMA = {
    "embedding": "model.embed_tokens.weight",
    "final_norm": "model.final_norm.weight",
    "head": "lm_head.weight",
    **_norms(_LAYER, "temporal_pre_norm", "channel_pre_norm"),
    **_both(
        _LAYER,
        {
            **{f"attention.{k}": f"temporal_block.{k}_proj" for k in "qkvo"},
            **{f"mlp.{k}": f"mlp_block.{k}_proj" for k in _MLP},
            **{f"lru.{k}": f"temporal_block.linear_{k}" for k in ("x", "y", "out")},
            "lru.conv": "temporal_block.conv_1d",
        },
    ),
    "lru.decay": f"{_LAYER}temporal_block.rg_lru.recurrent_param",
    **{
        f"lru.{gate}{bias}": f"{_LAYER}temporal_block.rg_lru.{gate}_{'bias' if bias else 'weight'}"
        for gate in ("input_gate", "recurrent_gate")
        for bias in ("", ".bias")
    },
}

_RWKV = {
    "embedding": "rwkv.embeddings.weight",
    "head": "head.weight",
    **_both("rwkv.", {"final_norm": "ln_out"}),
    **_norms(_BLOCK, "ln1", "ln2", "pre_ln"),
    **{f"rwkv.{k}": f"{_BLOCK}attention.time_{k}" for k in ("decay", "first")},
    **{f"rwkv.mix_{k}": f"{_BLOCK}attention.time_mix_{k}" for k in ("key", "value", "receptance")},
    **{f"rwkv.{k}": f"{_BLOCK}attention.{k}.weight" for k in ("key", "value", "receptance")},
    "rwkv.out": f"{_BLOCK}attention.output.weight",
    **{f"mlp.mix_{k}": f"{_BLOCK}feed_forward.time_mix_{k}" for k in ("key", "receptance")},
    **{
        f"mlp.{role}": f"{_BLOCK}feed_forward.{name}.weight"
        for role, name in (("up", "key"), ("receptance", "receptance"), ("down", "value"))
    },
}

_XLSTM = {
    "embedding": "backbone.embeddings.weight",
    "final_norm": "backbone.out_norm.weight",
    "head": "lm_head.weight",
    **_norms("backbone.blocks.{}.", "norm_mlstm", "norm_ffn"),
    **_both(
        "backbone.blocks.{}.",
        {
            **{f"mlstm.{k}": f"mlstm_layer.{k}" for k in "qkv"},
            **{f"mlstm.{k}put_gate": f"mlstm_layer.{k[0]}gate_preact" for k in ("in", "out")},
            "mlstm.forget_gate": "mlstm_layer.fgate_preact",
            "mlstm.norm": "mlstm_layer.multihead_norm",
            "mlstm.out": "mlstm_layer.out_proj",
            "mlp.gate": "ffn.proj_up_gate",
            "mlp.up": "ffn.proj_up",
            "mlp.down": "ffn.proj_down",
        },
    ),
}

_XLM = {
    "embedding": "transformer.embeddings.weight",
    "position_embedding": "transformer.position_embeddings.weight",
    "input.languages": "transformer.lang_embeddings.weight",
    **_both("", {"embedding_norm": "transformer.layer_norm_emb", "head": "pred_layer.proj"}),
    **_both(
        "transformer.",
        {
            **{
                f"attention.{k}": f"attentions.{{}}.{name}_lin"
                for k, name in zip("qkvo", ("q", "k", "v", "out"), strict=True)
            },
            **{f"mlp.{k}": f"ffns.{{}}.{name}" for k, name in (("up", "lin1"), ("down", "lin2"))},
            **{f"norm.layer_norm{i}": f"layer_norm{i}.{{}}" for i in (1, 2)},
        },
    ),
}

_XLNET_LAYER = "transformer.layer.{}."
_XLNET = {
    "embedding": "transformer.word_embedding.weight",
    "input.mask": "transformer.mask_emb",
    **_both("", {"head": "lm_loss"}),
    **{f"attention.{k}": f"{_XLNET_LAYER}rel_attn.{k}" for k in "qkvo"},
    "attention.relative": f"{_XLNET_LAYER}rel_attn.r",
    **{f"attention.{k}_bias": f"{_XLNET_LAYER}rel_attn.{k}_bias" for k in ("r_r", "r_s", "r_w")},
    "attention.segments": f"{_XLNET_LAYER}rel_attn.seg_embed",
    **_both(_XLNET_LAYER, {"mlp.up": "ff.layer_1", "mlp.down": "ff.layer_2"}),
    **_norms(_XLNET_LAYER, "rel_attn.layer_norm", "ff.layer_norm"),
}

_GIT_LAYER = "git.encoder.layer.{}."
_GIT = {
    "embedding": "git.embeddings.word_embeddings.weight",
    "position_embedding": "git.embeddings.position_embeddings.weight",
    **_both("", {"embedding_norm": "git.embeddings.LayerNorm", "head": "output"}),
    **_both(
        _GIT_LAYER,
        {
            **{f"attention.{k[0]}": f"attention.self.{k}" for k in ("query", "key", "value")},
            "attention.o": "attention.output.dense",
            "mlp.up": "intermediate.dense",
            "mlp.down": "output.dense",
        },
    ),
    **_norms(_GIT_LAYER, "attention.output.LayerNorm", "output.LayerNorm"),
}

_MODERNBERT = {
    "embedding": "model.embeddings.tok_embeddings.weight",
    **_both(
        "",
        {
            "input.norm": "model.embeddings.norm",
            "final_norm": "model.final_norm",
            "transform.dense": "lm_head.dense",
            "transform.norm": "lm_head.norm",
            "head": "decoder",
        },
    ),
    **_both(
        _LAYER,
        {
            **{f"attention.{k}": f"attn.{k}_proj" for k in "qkv"},
            "attention.o": "attn.Wo",
            "mlp.gate": "mlp.Wi",
            "mlp.up": "mlp.Wi",
            "mlp.down": "mlp.Wo",
        },
    ),
    **_norms(_LAYER, "attn_norm", "mlp_norm"),
}


def _inkling(decoder: dict[str, str], shared: dict[str, str]) -> dict[str, dict[str, str]]:
    """Both generations."""
    common = {
        **decoder,
        **shared,
        "input.norm": "model.embed_tokens.embed_norm.weight",
        "router.scale": f"{_LAYER}mlp.gate.global_scale",
        "mlp.scale": f"{_LAYER}mlp.global_scale",
    }
    picks = {f"{k}_input_layernorm": f"{_LAYER}{k}_input_layernorm.weight" for k in "qkv"}
    gates = {
        f"gate.{k}_{role}": f"{_LAYER}{k}_message_gate.{name}.weight"
        for k in ("q", "k", "v", "mlp")
        for role, name in (("down", "down_proj"), ("forget", "forget_gate_proj"), ("message", "message_gate_proj"))
    }
    attention = f"{_LAYER}self_attn."
    return {
        "inkling": {
            **common,
            "attention.relative": f"{attention}r_proj.weight",
            "attention.relative_table": f"{attention}rel_logits_proj.proj",
            **{f"attention.{k}_conv": f"{attention}{k}_sconv.conv1d.weight" for k in "kv"},
            "conv.attention_conv": f"{_LAYER}attn_sconv.conv1d.weight",
            "conv.mlp_conv": f"{_LAYER}mlp_sconv.conv1d.weight",
        },
        "inkling2": {
            **common,
            **{f"norm.{name}": pattern for name, pattern in picks.items()},
            **{f"attention.{k}": f"{attention}{k}_proj.linear.weight" for k in "qkvo"},
            "attention.gate": f"{attention}o_proj.gate_proj.weight",
            "attention.sink": f"{attention}sink_proj.weight",
            "attention.q_scale": f"{attention}q_proj.norm.scale",
            "attention.relative": f"{attention}relative_position_bias.linear.weight",
            "attention.relative_scale": f"{attention}relative_position_bias.norm.scale",
            "attention.relative_table": f"{attention}relative_position_bias.proj",
            **{f"attention.{k}_conv": f"{attention}{k}_proj.sconv.conv1d.weight" for k in "kv"},
            **{f"attention.{k}_kernel": f"{attention}{k}_proj.sconv.static_weight" for k in "kv"},
            **{f"attention.{k}_dynamic": f"{attention}{k}_proj.sconv.weight_proj.weight" for k in "kv"},
            **{f"conv.{k}_conv": f"{_LAYER}post_{k}_convolution.conv1d.weight" for k in ("attention", "mlp")},
            **{f"residual.{k}": f"{_LAYER}{k}_input.query" for k in ("attention", "mlp")},
            "residual.final": "model.final_input.query",
            "residual.message": "model.message_input.query",
            **gates,
        },
    }


_ZAYA_ROUTER = {
    "router": "router_mlp.out_proj.weight",
    "router.down": "down_proj.weight",
    "router.down.bias": "down_proj.bias",
    "router.norm": "router_mlp.norm.weight",
    **{f"router.fc{i}": f"router_mlp.fc{i}.weight" for i in (1, 2)},
    **{f"router.fc{i}.bias": f"router_mlp.fc{i}.bias" for i in (1, 2)},
    "router.correction": "balancing_biases",
    "router.carried": "router_states_scale",
}


def _zaya(decoder: dict[str, str]) -> dict[str, str]:
    attention = f"{_LAYER}self_attn."
    projections = {**{k: f"{k}_proj" for k in "qk"}, "v_current": "v_proj_current", "v_delayed": "v_proj_delayed"}
    convolutions = {k: f"conv_qk_{k}" for k in ("depthwise", "grouped")}
    return {
        **decoder,
        **{f"router{k[6:]}": f"{_LAYER}mlp.gate.{name}" for k, name in _ZAYA_ROUTER.items()},
        **_both(f"{attention}qkv_proj.", {f"attention.{k}": v for k, v in {**projections, **convolutions}.items()}),
        "attention.temperature": f"{attention}qk_norm.temp",
        **{
            f"residual.{part}_{name}": f"{_LAYER}post_{part}_residual_scale."
            + (name if name.startswith("residual") else f"hidden_states_{name}")
            for part in ("attention", "mlp")
            for name in ("scale", "bias", "residual_scale", "residual_bias")
        },
        **{f"input.{name}": f"model.input_hidden_states_{name}" for name in ("scale", "bias")},
    }


def _minimax_m3() -> dict[str, str]:
    """As the published files have them, which transformers renames on loading."""
    sparse = f"{_LAYER}block_sparse_moe."
    return {
        **{f"attention.index_{k}": f"{_LAYER}self_attn.index_{k}_proj.weight" for k in "qk"},
        **{f"attention.index_{k}_norm": f"{_LAYER}self_attn.index_{k}_norm.weight" for k in "qk"},
        "router": f"{sparse}gate.weight",
        "router.correction": f"{sparse}e_score_correction_bias",
        **{
            f"experts.{k}": f"{sparse}experts.{{}}.{w}.weight"
            for k, w in (("gate", "w1"), ("up", "w3"), ("down", "w2"))
        },
        **{f"shared.{k}": f"{sparse}shared_experts.{k}_proj.weight" for k in _MLP},
    }


def varied(decoder: dict[str, str], deepseek: dict[str, str], lfm2: dict[str, str]) -> dict[str, dict[str, str]]:
    """These dialects, from the names that Llama's, DeepSeek's and LFM2's decoders have."""
    gate = {"attention.gate": f"{_LAYER}self_attn.g_proj.weight"}
    delta = {
        **{k: f"{name}_proj.weight" for k, name in zip("qkvabz", "qkvabg", strict=True)},
        **{"dt_bias": "dt_bias", "a_log": "A_log", "conv": "conv1d.weight"},
        **{"norm": "o_norm.weight", "out": "o_proj.weight"},
    }
    shared = {role: name for role, name in deepseek.items() if role.startswith(("shared.", "router.correction"))}
    return {
        "nanochat": {**decoder, "mlp.up": f"{_LAYER}mlp.fc1.weight", "mlp.down": f"{_LAYER}mlp.fc2.weight"},
        "laguna": {**deepseek, **gate},
        "lfm3": {
            **lfm2,
            **{role: name for role, name in decoder.items() if role.startswith("attention.")},
            **gate,
            **_norms(_LAYER, "post_operator_norm", "post_ffn_norm"),
        },
        "olmo_hybrid": {**decoder, **{f"delta.{k}": f"{_LAYER}linear_attn.{name}" for k, name in delta.items()}},
        "minimax_m3": {**deepseek, **_minimax_m3()},
        "longcat_flash": {
            **{role: name.replace(".self_attn.", ".self_attn.{}.") for role, name in deepseek.items()},
            **{f"mlp.{k}": f"{_LAYER}mlps.{{}}.{k}_proj.weight" for k in _MLP},
            **_both(f"{_LAYER}mlp.router.", {"router": "classifier"}),
            "router.correction": f"{_LAYER}mlp.router.e_score_correction_bias",
            **{
                f"norm.{name}.{i}": f"{_LAYER}{name}.{i}.weight"
                for name in ("input_layernorm", "post_attention_layernorm")
                for i in (0, 1)
            },
        },
        "jetmoe": {
            **decoder,
            "router": f"{_LAYER}mlp.router.layer.weight",
            **{f"experts.{k}": f"{_LAYER}mlp.input_linear.weight" for k in ("gate", "up")},
            "experts.down": f"{_LAYER}mlp.output_linear.weight",
            "experts.output_bias": f"{_LAYER}mlp.bias",
            "attention.q": f"{_LAYER}self_attention.experts.input_linear.weight",
            "attention.o": f"{_LAYER}self_attention.experts.output_linear.weight",
            "attention.router": f"{_LAYER}self_attention.experts.router.layer.weight",
            "attention.output_bias": f"{_LAYER}self_attention.experts.bias",
            **{f"attention.{k}": f"{_LAYER}self_attention.kv_proj.weight" for k in "kv"},
        },
        "mllama": {
            **decoder,
            **{f"cross.{k}": f"{_LAYER}cross_attn.{k}_proj.weight" for k in "qkvo"},
            **{f"cross.{k}_norm": f"{_LAYER}cross_attn.{k}_norm.weight" for k in "qk"},
            "cross.attention_gate": f"{_LAYER}cross_attn_attn_gate",
            "cross.mlp_gate": f"{_LAYER}cross_attn_mlp_gate",
        },
        "moshi": {
            **decoder,
            **{f"attention.{k}": f"{_LAYER}self_attn.{k}_proj.linear.weight" for k in "qkvo"},
            **{f"mlp.{k}": f"{_LAYER}mlp.{'fc2' if k == 'down' else 'fc1'}.weight" for k in _MLP},
        },
        "zamba": _zamba(decoder, "shared_transf", fused=False),
        "zamba2": _zamba(decoder, "shared_transformer", fused=True),
        "recurrent_gemma": _RECURRENT_GEMMA,
        "rwkv": _RWKV,
        "xlstm": _XLSTM,
        "trocr": _BART,
        "musicgen": {**_BART, "embedding": "model.decoder.embed_tokens.{}.weight", "head": "lm_heads.{}.weight"},
        "xlm": _XLM,
        "xlnet": _XLNET,
        "git": _GIT,
        "modernbert": _MODERNBERT,
        **_inkling(decoder, shared),
        "zaya": _zaya(decoder),
    }
