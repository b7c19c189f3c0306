"""The names of BERT's family (see `dialects`): alone, and as the two halves of an encoder-decoder."""

from __future__ import annotations

_NORMS = (
    "LayerNorm",
    "ln",
    "intermediate.LayerNorm",
    "output.LayerNorm",
    "output.adapter_layer_norm",
    *(
        f"{part}.{name}"
        for part in ("attention", "crossattention")
        for name in ("output.LayerNorm", "LayerNorm", "ln", "self_attn_layer_norm")
    ),
)
_LAYER = {
    **{
        f"{role}.{k}": f"{part}.{name}"
        for role, part in (("attention", "attention"), ("cross", "crossattention"))
        for k, name in (("q", "self.query"), ("k", "self.key"), ("v", "self.value"), ("o", "output.dense"))
    },
    "mlp.up": "intermediate.dense",
    "mlp.down": "output.dense",
    **{f"norm.{name}": name for name in _NORMS},
}
_INSIDE = {
    "embedding": "embeddings.word_embeddings",
    "position_embedding": "embeddings.position_embeddings",
    "token_types": "embeddings.token_type_embeddings",
    "token_types.task": "embeddings.task_type_embeddings",
    "token_types.pronunciation": "embeddings.pronunciation_embed",
    "token_types.shape": "embeddings.shape_embed",
    "embedding_norm": "embeddings.LayerNorm",
    "final_norm": "encoder.LayerNorm",
    "pooler": "pooler.dense",
    **{role: f"encoder.layer.{{}}.{name}" for role, name in _LAYER.items()},
}


def _heads(dense: str, norm: str, decoder: str, shared: str) -> dict[str, str]:
    return {"head.dense": dense, "head.norm": norm, "head": decoder, "head.shared": shared}


_CLS = _heads(
    "cls.predictions.transform.dense",
    "cls.predictions.transform.LayerNorm",
    "cls.predictions.decoder",
    "cls.predictions",
)
_LM_HEAD = _heads("lm_head.dense", "lm_head.layer_norm", "lm_head.decoder", "lm_head")
_FAMILIES: dict[str, tuple[str, dict[str, str], dict[str, str]]] = {
    "bert": ("bert.", _CLS, {}),
    "megatron-bert": ("bert.", _CLS, {"final_norm": "encoder.ln"}),
    "big_bird": ("bert.", _CLS, {"pooler": "pooler"}),
    "bert-generation": ("bert.", _LM_HEAD, {}),
    "ernie": ("ernie.", _CLS, {}),
    "roc_bert": ("roc_bert.", _CLS, {"embedding.in": "embeddings.map_inputs_layer"}),
    "roformer": (
        "roformer.",
        _CLS,
        {"position_embedding": "encoder.embed_positions", "embedding.in": "embeddings_project"},
    ),
    "rembert": (
        "rembert.",
        _heads("cls.predictions.dense", "cls.predictions.LayerNorm", "cls.predictions.decoder", ""),
        {"embedding.in": "encoder.embedding_hidden_mapping_in"},
    ),
    "electra": (
        "electra.",
        _heads("generator_predictions.dense", "generator_predictions.LayerNorm", "generator_lm_head", ""),
        {"embedding.in": "embeddings_project"},
    ),
    "roberta": ("roberta.", _LM_HEAD, {}),
    "data2vec-text": ("data2vec_text.", _LM_HEAD, {}),
    "roberta-prelayernorm": ("roberta_prelayernorm.", _LM_HEAD, {"final_norm": "LayerNorm"}),
}


_FAMILIES |= {
    "distilbert": (
        "distilbert.",
        _heads("vocab_transform", "vocab_layer_norm", "vocab_projector", ""),
        {
            **{
                f"{role}.{k}": f"transformer.layer.{{}}.attention.{name}"
                for role in ("attention", "cross")
                for k, name in (("q", "q_lin"), ("k", "k_lin"), ("v", "v_lin"), ("o", "out_lin"))
            },
            "mlp.up": "transformer.layer.{}.ffn.lin1",
            "mlp.down": "transformer.layer.{}.ffn.lin2",
            "norm.attention.sa_layer_norm": "transformer.layer.{}.sa_layer_norm",
            "norm.output_layer_norm": "transformer.layer.{}.output_layer_norm",
        },
    ),
    "mpnet": (
        "mpnet.",
        _LM_HEAD,
        {
            **{f"attention.{k}": f"encoder.layer.{{}}.attention.attn.{k}" for k in "qkvo"},
            "position.relative": "encoder.relative_attention_bias",
        },
    ),
    "deberta-v2": (
        "deberta.",
        _CLS,
        {
            **{
                f"attention.{k}": f"encoder.layer.{{}}.attention.self.{name}_proj"
                for k, name in (
                    ("q", "query"),
                    ("k", "key"),
                    ("v", "value"),
                    ("position_q", "pos_query"),
                    ("position_k", "pos_key"),
                )
            },
            "position.relative": "encoder.rel_embeddings",
            "position.norm": "encoder.LayerNorm",
            "convolution": "encoder.conv.conv",
            "convolution.norm": "encoder.conv.LayerNorm",
        },
    ),
    "jina-bert": (
        "bert.",
        _CLS,
        {
            "mlp.gate": "encoder.layer.{}.mlp.gated_layers",
            "mlp.up": "encoder.layer.{}.mlp.gated_layers",
            "mlp.down": "encoder.layer.{}.mlp.wo",
            "norm.output.LayerNorm": "encoder.layer.{}.mlp.layernorm",
        },
    ),
}


def _named(root: str, head: dict[str, str], changes: dict[str, str], before: str = "") -> dict[str, str]:
    """Each name as weight and as bias."""
    names = {role: before + root + name for role, name in {**_INSIDE, **changes}.items()}
    names |= {role: before + name for role, name in head.items()}
    return {f"{role}{bias}": f"{name}{bias or '.weight'}" for role, name in names.items() for bias in ("", ".bias")}


BERT: dict[str, dict[str, str]] = {
    **{name: _named(*parts) for name, parts in _FAMILIES.items()},
    **{f"{name}.decoder": _named(*parts, before="decoder.") for name, parts in _FAMILIES.items()},
    **{f"{name}.encoder": _named("encoder.", {}, parts[2]) for name, parts in _FAMILIES.items()},
    "nomic_bert": {
        **_named(
            "",
            _CLS,
            {
                **{f"attention.{k}": "encoder.layers.{}.attn.Wqkv" for k in "qkv"},
                "attention.o": "encoder.layers.{}.attn.out_proj",
                "mlp.up": "encoder.layers.{}.mlp.fc11",
                "mlp.gate": "encoder.layers.{}.mlp.fc12",
                "mlp.down": "encoder.layers.{}.mlp.fc2",
                "router": "encoder.layers.{}.mlp.router.layer",
                **{f"norm.{name}": f"encoder.layers.{{}}.{name}" for name in ("norm1", "norm2")},
                "embedding_norm": "emb_ln",
            },
        ),
        "experts.up": "encoder.layers.{}.mlp.experts.mlp.w1",
        "experts.down": "encoder.layers.{}.mlp.experts.mlp.w2",
        "experts.out.bias": "encoder.layers.{}.mlp.experts.bias",
    },
    "gte": _named(
        "new.",
        _LM_HEAD,
        {
            **{f"attention.{k}": "encoder.layer.{}.attention.qkv_proj" for k in "qkv"},
            "attention.o": "encoder.layer.{}.attention.o_proj",
            "mlp.gate": "encoder.layer.{}.mlp.up_gate_proj",
            "mlp.up": "encoder.layer.{}.mlp.up_gate_proj",
            "mlp.down": "encoder.layer.{}.mlp.down_proj",
            **{f"norm.{name}": f"encoder.layer.{{}}.{name}" for name in ("attn_ln", "mlp_ln")},
        },
    ),
    "modernbert.encoder": {
        **_named(
            "model.",
            _heads("head.dense", "head.norm", "decoder", ""),
            {
                "embedding": "embeddings.tok_embeddings",
                "input.norm": "embeddings.norm",
                "final_norm": "final_norm",
                **{f"attention.{k}": "layers.{}.attn.Wqkv" for k in "qkv"},
                "attention.o": "layers.{}.attn.Wo",
                "mlp.gate": "layers.{}.mlp.Wi",
                "mlp.up": "layers.{}.mlp.Wi",
                "mlp.down": "layers.{}.mlp.Wo",
                **{f"norm.{name}": f"layers.{{}}.{name}" for name in ("attn_norm", "mlp_norm")},
            },
        ),
    },
}
"""`NAME.encoder` and `NAME.decoder`: as halves of an encoder-decoder."""
