"""The names of encoder-decoders and of BERT's family (see `dialects`).

Every encoder-decoder has three dialects: `NAME` for a decoder whose embedding is the one that all share,
`NAME.decoder` for one with an embedding of its own, and `NAME.encoder`. Source of the names: the state dicts of the
model classes in transformers (Apache-2.0).
"""

from __future__ import annotations

_QKV = "qkv"


def _both(names: dict[str, str]) -> dict[str, str]:
    """Each name as weight and as bias."""
    return {f"{role}{bias}": f"{name}{bias or '.weight'}" for role, name in names.items() for bias in ("", ".bias")}


def _sides(
    layer: str, parts: dict[str, str], outer: dict[str, str], shared: str, **encoder: str
) -> dict[str, dict[str, str]]:
    """The three dialects: "" , ".decoder", ".encoder"; `encoder` are the parts that the encoder names differently."""
    own = _both({**outer, **{role: layer + name for role, name in parts.items()}})
    other = _both({**outer, **{role: layer + name for role, name in {**parts, **encoder}.items()}})
    tables = {"embedding.shared": shared}
    return {
        "": {**own, **tables, "embedding": shared},
        ".decoder": {**own, **tables},
        ".encoder": {role: name.replace("decoder", "encoder", 1) for role, name in other.items()},
    }


def _attention(part: str, name: str, projection: str = "{}_proj", out: str = "out_proj") -> dict[str, str]:
    found = {f"{part}.{k}": f"{name}.{projection.format(k)}" for k in _QKV}
    return {**found, f"{part}.o": f"{name}.{out}"}


def _bart(
    decoder: str = "model.decoder.", shared: str = "model.shared.weight", **changes: str
) -> dict[str, dict[str, str]]:
    """BART's names, with another root, or with parts named otherwise (`encoder__ROLE`: in the encoder only)."""
    encoder = {role[9:]: name for role, name in changes.items() if role.startswith("encoder__")}
    parts = {
        **_attention("attention", "self_attn"),
        **_attention("cross", "encoder_attn"),
        "mlp.up": "fc1",
        "mlp.down": "fc2",
        **{f"norm.{k}": k for k in ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm")},
        **{role: name for role, name in changes.items() if not role.startswith("encoder__")},
    }
    head = parts.pop("head", "lm_head")
    outer = {
        "embedding": f"{decoder}embed_tokens",
        "position_embedding": f"{decoder}embed_positions",
        "embedding_norm": f"{decoder}layernorm_embedding",
        "final_norm": f"{decoder}layer_norm",
        "head": head,
    }
    return _sides(f"{decoder}layers.{{}}.", parts, outer, shared, **encoder)


_FFN = {
    **_attention("cross", "cross_attention"),
    "norm.cross_attention_layer_norm": "cross_attention_layer_norm",
    "mlp.up": "ffn.fc1",
    "mlp.down": "ffn.fc2",
}


def _t5(gated: bool, *, feed: str = "DenseReluDense", attention: str = "SelfAttention") -> dict[str, dict[str, str]]:
    """T5's names: parts of a layer are numbered, and an encoder has one part fewer."""
    up = {"mlp.gate": "wi_0", "mlp.up": "wi_1"} if gated else {"mlp.up": "wi"}
    feeds = {**up, "mlp.down": "wo"}

    def parts(last: int) -> dict[str, str]:
        return {
            **{role: f"layer.{last}.{feed}.{name}" for role, name in feeds.items()},
            "router": f"layer.{last}.mlp.router.classifier",
            **{f"experts.{k}": f"layer.{last}.mlp.experts.expert_{{}}.{n}" for k, n in (("up", "wi"), ("down", "wo"))},
            **{f"norm.layer.{i}.layer_norm": f"layer.{i}.layer_norm" for i in range(last + 1)},
        }

    decoder = {
        **_attention("attention", "layer.0.SelfAttention", "{}", "o"),
        "attention.relative": "layer.0.SelfAttention.relative_attention_bias",
        **_attention("cross", "layer.1.EncDecAttention", "{}", "o"),
        **parts(2),
    }
    encoder = {
        **_attention("attention", f"layer.0.{attention}", "{}", "o"),
        "attention.relative": f"layer.0.{attention}.relative_attention_bias",
        "attention.global_relative": f"layer.0.{attention}.global_relative_attention_bias",
        "attention.global_norm": f"layer.0.{attention}.global_input_layer_norm",
        **parts(1),
    }
    outer = {"embedding": "decoder.embed_tokens", "final_norm": "decoder.final_layer_norm", "head": "lm_head"}
    return _sides("decoder.block.{}.", decoder, outer, "shared.weight", **encoder)


_GEMMA = {
    **_attention("attention", "self_attn", out="o_proj"),
    **_attention("cross", "cross_attn", out="o_proj"),
    "attention.q_norm": "self_attn.q_norm",
    "attention.k_norm": "self_attn.k_norm",
    **{f"mlp.{k}": f"mlp.{k}_proj" for k in ("gate", "up", "down")},
    **{
        f"norm.{side}_{part}_layernorm": f"{side}_{part}_layernorm"
        for side in ("pre", "post")
        for part in ("self_attn", "cross_attn", "feedforward")
    },
}


def _gemma(encoder: str, root: str, shared: str) -> dict[str, dict[str, str]]:
    """T5Gemma's: Gemma's layers, in an encoder too."""
    outer = {
        "embedding": f"{root}embed_tokens",
        "embedding.end": f"{root}embed_tokens.eoi_embedding",
        "final_norm": f"{root}norm",
        "head": "lm_head.out_proj",
    }
    found = _sides(f"{root}layers.{{}}.", _GEMMA, outer, shared)
    found[".encoder"] = {role: name.replace("model.encoder.", encoder, 1) for role, name in found[".encoder"].items()}
    return found


_PROPHET = {
    **{
        f"{part}.{k}": f"{name}.{word}_proj"
        for part, name in (("attention", "self_attn"), ("cross", "cross_attn"))
        for k, word in (("q", "query"), ("k", "key"), ("v", "value"), ("o", "out"))
    },
    "attention.relative": "self_attn.relative_pos_embeddings",
    "mlp.up": "feed_forward.intermediate",
    "mlp.down": "feed_forward.output",
    **{f"norm.{k}": k for k in ("self_attn_layer_norm", "cross_attn_layer_norm", "feed_forward_layer_norm")},
}
_PROPHET_OUTER = {
    "embedding": "prophetnet.decoder.word_embeddings",
    "position_embedding": "prophetnet.decoder.position_embeddings",
    "position_embedding.ngram": "prophetnet.decoder.ngram_embeddings",
    "embedding_norm": "prophetnet.decoder.embeddings_layer_norm",
    "head": "lm_head",
}

_LONGFORMER = "self_attn.longformer_self_attn."
_WORDS = {"q": "query", "k": "key", "v": "value"}

_FAMILIES: dict[str, dict[str, dict[str, str]]] = {
    "bart": _bart(),
    "fsmt": _bart(shared="model.encoder.embed_tokens.weight", head="model.decoder.output_projection"),
    "led": _bart(
        "led.decoder.",
        "led.shared.weight",
        **{f"encoder__attention.{k}": _LONGFORMER + word for k, word in _WORDS.items()},
        **{"encoder__attention.o": "self_attn.output"},
    ),
    "bigbird_pegasus": _bart(
        **{f"encoder__attention.{k}": f"self_attn.self.{word}" for k, word in _WORDS.items()},
        **{"encoder__attention.o": "self_attn.output"},
    ),
    "nllb_moe": _bart(
        **_FFN,
        **{
            "norm.ff_layer_norm": "ff_layer_norm",
            "router": "ffn.router.classifier",
            **{f"experts.{k}": f"ffn.experts.expert_{{}}.{n}" for k, n in (("up", "fc1"), ("down", "fc2"))},
        },
    ),
    "seamless": _bart("text_decoder.", "shared.weight", **_FFN, **{"norm.ffn_layer_norm": "ffn_layer_norm"}),
    "prophetnet": _sides(
        "prophetnet.decoder.layers.{}.", _PROPHET, _PROPHET_OUTER, "prophetnet.word_embeddings.weight"
    ),
    "t5": _t5(False),
    "t5_gated": _t5(True),
    "longt5_local": _t5(False, attention="LocalSelfAttention"),
    "longt5_local_gated": _t5(True, attention="LocalSelfAttention"),
    "longt5_global": _t5(False, attention="TransientGlobalSelfAttention"),
    "longt5_global_gated": _t5(True, attention="TransientGlobalSelfAttention"),
    "switch": _t5(False, feed="mlp"),
    "t5gemma": _gemma("model.encoder.", "model.decoder.", "model.decoder.embed_tokens.weight"),
    "t5gemma2": _gemma("model.encoder.text_model.", "model.decoder.", "model.encoder.text_model.embed_tokens.weight"),
}

SEQ2SEQ: dict[str, dict[str, str]] = {
    name + side: names for name, sides in _FAMILIES.items() for side, names in sides.items()
}
