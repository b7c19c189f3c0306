"""The names of decoders of speech models with an encoder (see `dialects`)."""

from __future__ import annotations


def _names(root: str, layer: dict[str, str], outer: dict[str, str]) -> dict[str, str]:
    names = {role: f"{root}layers.{{}}.{name}" for role, name in layer.items()}
    names |= {role: name if name.startswith("/") else root + name for role, name in outer.items()}
    return {
        f"{role}{bias}": f"{name.removeprefix('/')}{bias or '.weight'}"
        for role, name in names.items()
        for bias in ("", ".bias")
    }


def _attention(own: str, cross: str, out: str = "o") -> dict[str, str]:
    return {
        f"{part}.{k}": f"{name}.{out if k == 'o' else k}_proj"
        for part, name in (("attention", own), ("cross", cross))
        for k in "qkvo"
    }


_LLAMA_LIKE = {
    **_attention("self_attn", "encoder_attn"),
    "mlp.up": "mlp.fc1",
    "mlp.gate": "mlp.fc1",
    "mlp.down": "mlp.fc2",
    **{f"norm.{k}": k for k in ("input_layernorm", "post_attention_layernorm", "final_layernorm")},
}

_DECODERS: dict[str, dict[str, str]] = {
    "moonshine": _names(
        "model.decoder.", _LLAMA_LIKE, {"embedding": "embed_tokens", "final_norm": "norm", "head": "/proj_out"}
    ),
    "canary": _names(
        "model.decoder.",
        _LLAMA_LIKE,
        {
            "embedding": "embed_tokens",
            "position_embedding": "pos_emb",
            "embedding_norm": "embedding_layernorm",
            "embedding.encoder": "proj",
            "final_norm": "norm",
            "head": "/proj_out",
        },
    ),
    "whisper": _names(
        "model.decoder.",
        {
            **_attention("self_attn", "encoder_attn", "out"),
            "mlp.up": "fc1",
            "mlp.down": "fc2",
            **{f"norm.{k}": k for k in ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm")},
        },
        {
            "embedding": "embed_tokens",
            "position_embedding": "embed_positions",
            "final_norm": "layer_norm",
            "head": "/proj_out",
        },
    ),
    "dia": _names(
        "model.decoder.",
        {
            **_attention("self_attention", "cross_attention"),
            "mlp.gate": "mlp.gate_up_proj",
            "mlp.up": "mlp.gate_up_proj",
            "mlp.down": "mlp.down_proj",
            **{f"norm.{k}": k for k in ("pre_sa_norm", "pre_ca_norm", "pre_mlp_norm")},
        },
        {"embedding": "embeddings.embed", "final_norm": "norm", "head": "/logits_dense"},
    ),
    "speecht5": _names(
        "speecht5.decoder.wrapped_decoder.",
        {
            **_attention("self_attn", "encoder_attn", "out"),
            "mlp.up": "feed_forward.intermediate_dense",
            "mlp.down": "feed_forward.output_dense",
            **{f"norm.{k}": k for k in ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm")},
        },
        {
            "embedding": "/speecht5.decoder.prenet.embed_tokens",
            "head": "/text_decoder_postnet.lm_head",
        },
    ),
}

_KYUTAI = _names(
    "model.",
    {
        **{f"attention.{k}": f"self_attn.{k}_proj.linear" for k in "qkvo"},
        "mlp.gate": "mlp.fc1",
        "mlp.up": "mlp.fc1",
        "mlp.down": "mlp.fc2",
        **{f"norm.{k}": k for k in ("input_layernorm", "post_attention_layernorm")},
    },
    {"embedding": "embed_tokens.embed_tokens", "final_norm": "norm", "head": "/lm_head"},
)

_ENCODERS = {
    name: {role: text.replace("decoder", "encoder", 1) for role, text in _DECODERS[name].items()}
    for name in ("moonshine", "dia")
}
_ENCODERS["moonshine"]["final_norm"] = "model.encoder.layer_norm.weight"
_ENCODERS["dia"] |= {"embedding": "model.encoder.embedding.weight"}
_ENCODERS["dia"] |= {"norm.post_sa_norm": "model.encoder.layers.{}.post_sa_norm.weight"}

SPEECH: dict[str, dict[str, str]] = {
    **_DECODERS,
    "kyutai": _KYUTAI,
    **{f"{name}.encoder": names for name, names in _ENCODERS.items()},
}
