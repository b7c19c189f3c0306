"""Dialects: the names that checkpoints give to canonical tensors. Data, not code.

A pattern holds `{}` for the layer, and a second `{}` for the expert. Several roles with one name are fused in the
file. Source of the names: the state dicts of the model classes in transformers (Apache-2.0).
"""

from __future__ import annotations

from narrows.models.dialects_inside import WAYS, Dialects

_LAYER = "model.layers.{}."


def _decoder(**changes: str) -> dict[str, str]:
    """The names most decoders share (Llama's), with a dialect's differences."""
    attention = {f"attention.{k}": f"{_LAYER}self_attn.{k}_proj.weight" for k in "qkvo"}
    biases = {f"attention.{k}.bias": f"{_LAYER}self_attn.{k}_proj.bias" for k in "qkvo"}
    mlp = {f"mlp.{k}": f"{_LAYER}mlp.{k}_proj.weight" for k in ("gate", "up", "down")}
    mlp_biases = {f"mlp.{k}.bias": f"{_LAYER}mlp.{k}_proj.bias" for k in ("gate", "up", "down")}
    experts = {f"experts.{k}": f"{_LAYER}mlp.experts.{{}}.{k}_proj.weight" for k in ("gate", "up", "down")}
    shared = {f"shared.{k}": f"{_LAYER}mlp.shared_expert.{k}_proj.weight" for k in ("gate", "up", "down")}
    norms = {
        f"norm.{k}": f"{_LAYER}{k}.weight"
        for k in (
            "input_layernorm",
            "post_attention_layernorm",
            "pre_feedforward_layernorm",
            "post_feedforward_layernorm",
            "pre_ff_layernorm",
            "post_self_attn_layernorm",
            "post_mlp_layernorm",
            "attention_layernorm",
            "feedforward_layernorm",
        )
    }
    return {
        "embedding": "model.embed_tokens.weight",
        "final_norm": "model.norm.weight",
        "head": "lm_head.weight",
        **attention,
        **biases,
        "attention.q_norm": f"{_LAYER}self_attn.q_norm.weight",
        "attention.k_norm": f"{_LAYER}self_attn.k_norm.weight",
        "attention.inner_norm": f"{_LAYER}self_attn.attn_sub_norm.weight",
        "attention.sinks": f"{_LAYER}self_attn.sinks",
        "mlp.inner_norm": f"{_LAYER}mlp.ffn_sub_norm.weight",
        "mlp.activation": f"{_LAYER}mlp.act_fn.alpha_p",
        **mlp,
        **mlp_biases,
        "router": f"{_LAYER}mlp.gate.weight",
        **experts,
        **shared,
        "shared_gate": f"{_LAYER}mlp.shared_expert_gate.weight",
        **norms,
        **{f"{role}.bias": f"{name.removesuffix('.weight')}.bias" for role, name in norms.items()},
        "final_norm.bias": "model.norm.bias",
        "head.bias": "lm_head.bias",
        **changes,
    }


def _replaced(names: dict[str, str], old: str, new: str) -> dict[str, str]:
    return {role: name.replace(old, new) for role, name in names.items()}


_MLA = {
    "mla.q": "q_proj.weight",
    "mla.q_down": "q_a_proj.weight",
    "mla.q_down.bias": "q_a_proj.bias",
    "mla.q_norm": "q_a_layernorm.weight",
    "mla.q_up": "q_b_proj.weight",
    "mla.kv_down": "kv_a_proj_with_mqa.weight",
    "mla.kv_down.bias": "kv_a_proj_with_mqa.bias",
    "mla.kv_norm": "kv_a_layernorm.weight",
    "mla.kv_up": "kv_b_proj.weight",
    "mla.o": "o_proj.weight",
    "mla.o.bias": "o_proj.bias",
    "mla.index_q": "indexer.wq_b.weight",
    "mla.index_k": "indexer.wk.weight",
    "mla.index_norm": "indexer.k_norm.weight",
    "mla.index_norm.bias": "indexer.k_norm.bias",
    "mla.index_weights": "indexer.weights_proj.weight",
}

_MAMBA = {
    "a_log": "A_log",
    "d": "D",
    "conv": "conv1d.weight",
    "conv.bias": "conv1d.bias",
    "in": "in_proj.weight",
    "in.bias": "in_proj.bias",
    "x": "x_proj.weight",
    "dt": "dt_proj.weight",
    "dt.bias": "dt_proj.bias",
    "out": "out_proj.weight",
    "out.bias": "out_proj.bias",
    "dt_norm": "dt_layernorm.weight",
    "b_norm": "b_layernorm.weight",
    "c_norm": "c_layernorm.weight",
}

_MAMBA2 = {
    "dt_bias": "dt_bias",
    "a_log": "A_log",
    "d": "D",
    **{f"{role}{bias}": f"conv1d{bias or '.weight'}" for role in ("conv", "conv_bc") for bias in ("", ".bias")},
    **{f"{role}{bias}": f"in_proj{bias or '.weight'}" for role in ("in", "in_bc", "in_dt") for bias in ("", ".bias")},
    "norm": "norm.weight",
    "out": "out_proj.weight",
    "out.bias": "out_proj.bias",
}

_KIMI_DELTA = {
    **{k: f"{k}_proj.weight" for k in "qkvb"},
    **{f"conv_{k}": f"{k}_conv1d.weight" for k in "qkv"},
    "dt_bias": "dt_bias",
    "a_log": "A_log",
    **{f"{k}_{way}": f"{k}_{letter}_proj.weight" for k in "fg" for way, letter in (("down", "a"), ("up", "b"))},
    "norm": "o_norm.weight",
    "out": "o_proj.weight",
}

_DELTA = {
    "dt_bias": "dt_bias",
    "a_log": "A_log",
    "conv": "conv1d.weight",
    "qkvz": "in_proj_qkvz.weight",
    "ba": "in_proj_ba.weight",
    "norm": "norm.weight",
    "out": "out_proj.weight",
}

_DECODER = _decoder()

_DEEPSEEK_SHARED = {
    **{f"shared.{k}": f"{_LAYER}mlp.shared_experts.{k}_proj.weight" for k in ("gate", "up", "down")},
    **{f"shared.{k}.bias": f"{_LAYER}mlp.shared_experts.{k}_proj.bias" for k in ("gate", "up", "down")},
    "router.correction": f"{_LAYER}mlp.gate.e_score_correction_bias",
}

_MIXTRAL_EXPERTS = {
    f"experts.{role}": f"{_LAYER}block_sparse_moe.experts.{{}}.{name}.weight"
    for role, name in (("gate", "w1"), ("down", "w2"), ("up", "w3"))
}

_DEEPSEEK = _decoder(
    **{role: f"{_LAYER}self_attn.{name}" for role, name in _MLA.items()},
    **_DEEPSEEK_SHARED,
)

_MLP = ("gate", "up", "down")
_W = {"gate": "w1", "up": "w3", "down": "w2"}
_CONV = {"conv": "conv", "in": "in_proj", "out": "out_proj"}


def _backbone(parts: dict[str, str]) -> dict[str, str]:
    """Names of the state-space models, whose decoder is called `backbone`."""
    outer = {"embedding": "embeddings", "final_norm": "norm_f"}
    names = {role: f"backbone.{name}.weight" for role, name in outer.items()}
    inner = {role: name.replace("model.", "backbone.", 1) for role, name in parts.items()}
    return {**names, "head": "lm_head.weight", "norm.norm": "backbone.layers.{}.norm.weight", **inner}


_GEMMA4 = _decoder(
    router=f"{_LAYER}router.proj.weight",
    **{
        "router.scale": f"{_LAYER}router.scale",
        "router.expert_scale": f"{_LAYER}router.per_expert_scale",
        **{f"experts.{k}": f"{_LAYER}experts.{{}}.{k}_proj.weight" for k in _MLP},
        **{f"shared.{k}": f"{_LAYER}mlp.{k}_proj.weight" for k in _MLP},
        **{
            f"norm.{k}": f"{_LAYER}{k}.weight"
            for k in (
                "post_per_layer_input_norm",
                "post_feedforward_layernorm_1",
                "post_feedforward_layernorm_2",
                "pre_feedforward_layernorm_2",
            )
        },
        "per_layer.gate": f"{_LAYER}per_layer_input_gate.weight",
        "per_layer.projection": f"{_LAYER}per_layer_projection.weight",
        "per_layer.embedding": "model.embed_tokens_per_layer.weight",
        "per_layer.model_projection": "model.per_layer_model_projection.weight",
        "per_layer.norm": "model.per_layer_projection_norm.weight",
        "before.pre_projection": "pre_projection.weight",
        "after.post_projection": "post_projection.weight",
        "after.centroids": "masked_embedding.centroids.weight",
        "after.token_ordering": "masked_embedding.token_ordering",
    },
)

_QWEN35 = _decoder(
    **{
        f"delta.{role}": f"{_LAYER}linear_attn.{name}"
        for role, name in {**_DELTA, **{k: f"in_proj_{k}.weight" for k in ("qkv", "z", "b", "a")}}.items()
    }
)

_LLAMA4 = _replaced(_decoder(router=f"{_LAYER}mlp.router.weight"), ".mlp.", ".feed_forward.")

_COMMON: dict[str, dict[str, str]] = {
    "llama": _DECODER,
    "mixtral": _decoder(
        router=f"{_LAYER}block_sparse_moe.gate.weight",
        **_MIXTRAL_EXPERTS,
    ),
    "minimax_m2": _decoder(
        router=f"{_LAYER}block_sparse_moe.gate.weight",
        **{"router.correction": f"{_LAYER}block_sparse_moe.e_score_correction_bias"},
        **_MIXTRAL_EXPERTS,
    ),
    "granitemoe": _decoder(
        router=f"{_LAYER}block_sparse_moe.router.layer.weight",
        **{f"experts.{k}": f"{_LAYER}block_sparse_moe.input_linear.weight" for k in ("gate", "up")},
        **{
            f"{part}.{k}": f"{_LAYER}shared_mlp.input_linear.weight"
            for part in ("shared", "mlp")
            for k in ("gate", "up")
        },
        **{f"mamba.{role}": f"{_LAYER}mamba.{name}" for role, name in _MAMBA2.items()},
        **{
            "experts.down": f"{_LAYER}block_sparse_moe.output_linear.weight",
            "shared.down": f"{_LAYER}shared_mlp.output_linear.weight",
            "mlp.down": f"{_LAYER}shared_mlp.output_linear.weight",
        },
    ),
    "glm": _decoder(**{f"mlp.{k}": f"{_LAYER}mlp.gate_up_proj.weight" for k in ("gate", "up")}),
    "hunyuan": _decoder(
        router=f"{_LAYER}mlp.gate.wg.weight",
        **{
            "attention.q_norm": f"{_LAYER}self_attn.query_layernorm.weight",
            "attention.k_norm": f"{_LAYER}self_attn.key_layernorm.weight",
        },
        **{f"shared.{k}": f"{_LAYER}mlp.shared_mlp.{k}_proj.weight" for k in ("gate", "up", "down")},
    ),
    "phi": _decoder(
        final_norm="model.final_layernorm.weight",
        **{
            "final_norm.bias": "model.final_layernorm.bias",
            "attention.o": f"{_LAYER}self_attn.dense.weight",
            "attention.o.bias": f"{_LAYER}self_attn.dense.bias",
            "mlp.up": f"{_LAYER}mlp.fc1.weight",
            "mlp.up.bias": f"{_LAYER}mlp.fc1.bias",
            "mlp.down": f"{_LAYER}mlp.fc2.weight",
            "mlp.down.bias": f"{_LAYER}mlp.fc2.bias",
        },
        **{f"attention.{k}_norm": f"{_LAYER}self_attn.{k}_layernorm.weight" for k in "qk"},
        **{f"attention.{k}_norm.bias": f"{_LAYER}self_attn.{k}_layernorm.bias" for k in "qk"},
    ),
    "starcoder2": _decoder(
        **{
            "mlp.up": f"{_LAYER}mlp.c_fc.weight",
            "mlp.up.bias": f"{_LAYER}mlp.c_fc.bias",
            "mlp.down": f"{_LAYER}mlp.c_proj.weight",
            "mlp.down.bias": f"{_LAYER}mlp.c_proj.bias",
        }
    ),
    "stablelm": _decoder(
        **{f"attention.{k}_norm": f"{_LAYER}self_attn.{k}_layernorm.norms.weight" for k in "qk"},
    ),
    "phi3": _decoder(
        **{f"attention.{k}": f"{_LAYER}self_attn.qkv_proj.weight" for k in "qkv"},
        **{f"mlp.{k}": f"{_LAYER}mlp.gate_up_proj.weight" for k in ("gate", "up")},
    ),
    "gemma3": {
        role: name if role == "head" else f"language_{name}".replace("language_model.", "language_model.model.", 1)
        for role, name in _DECODER.items()
    },
    "deepseek": _DEEPSEEK,
    "gpt_oss": _decoder(
        router=f"{_LAYER}mlp.router.weight",
        **{
            "router.bias": f"{_LAYER}mlp.router.bias",
            **{f"experts.{k}": f"{_LAYER}mlp.experts.gate_up_proj" for k in ("gate", "up")},
            **{f"experts.{k}.bias": f"{_LAYER}mlp.experts.gate_up_proj_bias" for k in ("gate", "up")},
            "experts.down": f"{_LAYER}mlp.experts.down_proj",
            "experts.down.bias": f"{_LAYER}mlp.experts.down_proj_bias",
        },
    ),
    "ernie4_5_moe": {**_DEEPSEEK, "router.correction": f"{_LAYER}mlp.moe_statics.e_score_correction_bias"},
    "mamba": _backbone({f"mamba.{role}": f"{_LAYER}mixer.{name}" for role, name in {**_MAMBA, **_MAMBA2}.items()}),
    "nemotron_h": _backbone(
        {
            **{f"mamba.{role}": f"{_LAYER}mixer.{name}" for role, name in _MAMBA2.items()},
            **{f"attention.{k}": f"{_LAYER}mixer.{k}_proj.weight" for k in "qkvo"},
            **{f"mlp.{k}{b}": f"{_LAYER}mixer.{k}_proj{b or '.weight'}" for k in ("up", "down") for b in ("", ".bias")},
            **{f"experts.{k}": f"{_LAYER}mixer.experts.{{}}.{k}_proj.weight" for k in ("up", "down")},
            **{
                f"shared.{k}{b}": f"{_LAYER}mixer.shared_experts.{k}_proj{b or '.weight'}"
                for k in ("up", "down")
                for b in ("", ".bias")
            },
            **{
                f"latent.{k}{b}": f"{_LAYER}mixer.{name}{b or '.weight'}"
                for k, name in (("in", "fc1_latent_proj"), ("out", "fc2_latent_proj"))
                for b in ("", ".bias")
            },
            "router": f"{_LAYER}mixer.gate.weight",
            "router.correction": f"{_LAYER}mixer.gate.e_score_correction_bias",
        }
    ),
    "kimi_linear": {
        **_DEEPSEEK,
        **{f"delta.{role}": f"{_LAYER}self_attn.{name}" for role, name in _KIMI_DELTA.items()},
        "router": f"{_LAYER}block_sparse_moe.gate.weight",
        "router.correction": f"{_LAYER}block_sparse_moe.gate.e_score_correction_bias",
        **{f"shared.{k}": f"{_LAYER}block_sparse_moe.shared_experts.{k}_proj.weight" for k in _MLP},
        **_MIXTRAL_EXPERTS,
    },
    "minimax": _decoder(
        router=f"{_LAYER}block_sparse_moe.gate.weight",
        **_MIXTRAL_EXPERTS,
        **{
            "lightning.qkv": f"{_LAYER}self_attn.qkv_proj.weight",
            "lightning.gate": f"{_LAYER}self_attn.output_gate.weight",
            "lightning.norm": f"{_LAYER}self_attn.norm.weight",
            "lightning.out": f"{_LAYER}self_attn.out_proj.weight",
        },
    ),
    "lfm2": _decoder(
        final_norm="model.embedding_norm.weight",
        router=f"{_LAYER}feed_forward.gate.weight",
        **{
            "router.correction": f"{_LAYER}feed_forward.expert_bias",
            "attention.o": f"{_LAYER}self_attn.out_proj.weight",
            **{f"attention.{k}_norm": f"{_LAYER}self_attn.{k}_layernorm.weight" for k in "qk"},
            **{f"mlp.{k}": f"{_LAYER}feed_forward.{name}.weight" for k, name in _W.items()},
            **{f"experts.{k}": f"{_LAYER}feed_forward.experts.{{}}.{name}.weight" for k, name in _W.items()},
            **{f"norm.{k}": f"{_LAYER}{k}.weight" for k in ("operator_norm", "ffn_norm")},
            **{f"conv.{k}": f"{_LAYER}conv.{name}.weight" for k, name in _CONV.items()},
            **{f"conv.{k}.bias": f"{_LAYER}conv.{name}.bias" for k, name in _CONV.items()},
        },
    ),
    "gemma4": _GEMMA4,
    "gemma4_vl": _replaced(_GEMMA4, "model.", "model.language_model."),
    "qwen3_5": _QWEN35,
    "qwen3_5_vl": _replaced(_QWEN35, "model.", "model.language_model."),
    "llama_vl": _replaced(_DECODER, "model.", "model.language_model."),
    "llama4": _LLAMA4,
    "llama4_vl": {role: f"language_model.{name}" for role, name in _LLAMA4.items()},
    "llava": {role: f"language_model.{name}" for role, name in _DECODER.items()},
    "qwen3_next": _decoder(**{f"delta.{role}": f"{_LAYER}linear_attn.{name}" for role, name in _DELTA.items()}),
    "jamba": _replaced(
        _decoder(
            router=f"{_LAYER}mlp.router.weight",
            final_norm="model.final_layernorm.weight",
            **{f"mamba.{role}": f"{_LAYER}mamba.{name}" for role, name in {**_MAMBA, **_MAMBA2}.items()},
        ),
        ".mlp.",
        ".feed_forward.",
    ),
}

INNER = ("llama", "mixtral", "granitemoe", "phi3", "nemotron_h")
"""Dialects that a decoder inside a model that hears can have, as `NAME/inner`."""


class _Dialects(Dialects):
    """The dialects of the common decoders; those of rarer ones, of encoders and of decoders inside others are made when
    first asked for, since a command reads one model."""

    def __missing__(self, name: str) -> dict[str, str]:
        way = name.split("/", 1)[0] in WAYS
        if "bert" not in self:
            self.update(self._rarer())
            if name in self:
                return self[name]
        if way:
            return super().__missing__(name)
        raise KeyError(name)

    def _rarer(self) -> dict[str, dict[str, str]]:
        from narrows.models.dialects_bert import BERT
        from narrows.models.dialects_older import OLDER
        from narrows.models.dialects_recent import recent
        from narrows.models.dialects_remote import remote
        from narrows.models.dialects_seeing import seeing
        from narrows.models.dialects_seq2seq import SEQ2SEQ
        from narrows.models.dialects_speech import SPEECH
        from narrows.models.dialects_varied import varied

        made = {
            **OLDER,
            **recent(_DECODER, _DEEPSEEK),
            **varied(_DECODER, _DEEPSEEK, self["lfm2"]),
            **seeing(_DECODER, _DEEPSEEK),
            **remote(_DECODER, self["kimi_linear"]),
            **SEQ2SEQ,
            **BERT,
            **SPEECH,
            "llama/thinker": {role: f"thinker.{pattern}" for role, pattern in self["llama"].items()},
        }
        for plain in INNER:
            names = _replaced(self[plain], "backbone.", "model.")
            made[f"{plain}/inner"] = _replaced(names, "model.", "model.language_model.")
        return made


DIALECTS: dict[str, dict[str, str]] = _Dialects(_COMMON)
