"""Decoders from before Llama: LayerNorms with biases, no gate, q, k and v often fused, field names of their own."""

from __future__ import annotations

from msgspec.structs import replace

from narrows.models.feedforward import Dense
from narrows.models.fields import Fields
from narrows.models.mixers import Attention
from narrows.models.readers.build import model, stack
from narrows.models.spec import ModelSpec, Norms
from narrows.text import BadInput


def read_gpt_bigcode(c: Fields) -> ModelSpec:
    """StarCoder 1 and SantaCoder: GPT-2 with one KV head, unless `multi_query` is off."""
    if c.flag("add_cross_attention", False):
        raise BadInput(
            "this gpt_bigcode config adds cross-attention, which narrows does not read yet; use a plain decoder"
        )
    c.read |= {"num_key_value_heads"}  # derived from multi_query
    hidden, heads = c.size("n_embd", "hidden_size"), c.size("n_head", "num_attention_heads")
    layers = c.layers("n_layer", "num_hidden_layers")
    kv = 1 if c.flag("multi_query", True) else heads
    mixer = Attention(hidden, heads, kv, c.divide(hidden, heads, "n_embd", "n_head"), qkv_bias=True, out_bias=True)
    inner = c.maybe_size("n_inner", default=None) or 4 * hidden
    groups = stack([mixer] * layers, [Dense(hidden, inner, False, True)] * layers, Norms(("ln_1", "ln_2"), bias=True))
    positions = c.size("n_positions", "max_position_embeddings", default=1024)
    return model(
        c, groups, family="gpt_bigcode", dialect="gpt_bigcode", tied=True, positions=positions, final_norm_bias=True
    )


def read_gptj(c: Fields) -> ModelSpec:
    """GPT-J: one norm, no biases in the attention, a bias in the head."""
    return _gptj(c, "gptj")


def read_codegen(c: Fields) -> ModelSpec:
    """CodeGen: GPT-J with q, k and v fused."""
    return _gptj(c, "codegen")


def _gptj(c: Fields, family: str) -> ModelSpec:
    hidden, heads = c.size("n_embd", "hidden_size"), c.size("n_head", "num_attention_heads")
    layers = c.layers("n_layer", "num_hidden_layers")
    mixer = Attention(hidden, heads, heads, c.divide(hidden, heads, "n_embd", "n_head"))
    inner = c.maybe_size("n_inner", default=None) or 4 * hidden
    groups = stack([mixer] * layers, [Dense(hidden, inner, False, True)] * layers, Norms(("ln_1",), bias=True))
    return model(c, groups, family=family, dialect=family, final_norm_bias=True, head_bias=True)


def read_gpt_neox(c: Fields) -> ModelSpec:
    """GPT-NeoX and Pythia; with a parallel residual or without, there are two norms."""
    c.read |= {"use_parallel_residual", "num_key_value_heads"}
    hidden, heads = c.size("hidden_size"), c.size("num_attention_heads")
    layers, bias = c.layers("num_hidden_layers"), c.flag("attention_bias", True)
    width = c.divide(hidden, heads, "hidden_size", "num_attention_heads")
    mixer = Attention(hidden, heads, heads, width, qkv_bias=bias, out_bias=bias)
    feed_forward = Dense(hidden, c.size("intermediate_size"), False, True)
    norms = Norms(("input_layernorm", "post_attention_layernorm"), bias=True)
    groups = stack([mixer] * layers, [feed_forward] * layers, norms)
    return model(c, groups, family="gpt_neox", dialect="gpt_neox", final_norm_bias=True)


def read_opt(c: Fields) -> ModelSpec:
    """OPT: learned positions with two more rows than named; the smallest project a narrow embedding."""
    hidden, heads = c.size("hidden_size"), c.size("num_attention_heads")
    layers, bias = c.layers("num_hidden_layers"), c.flag("enable_bias", True)
    width = c.divide(hidden, heads, "hidden_size", "num_attention_heads")
    mixer = Attention(hidden, heads, heads, width, qkv_bias=bias, out_bias=bias)
    affine = c.flag("layer_norm_elementwise_affine", True)
    final = c.flag("do_layer_norm_before", True) and not c.flag("_remove_final_layer_norm", False) and affine
    narrow = c.maybe_size("word_embed_proj_dim", default=None) or hidden
    norms = Norms(("self_attn_layer_norm", "final_layer_norm") if affine else (), bias=True)
    groups = stack([mixer] * layers, [Dense(hidden, c.size("ffn_dim"), False, bias)] * layers, norms)
    return model(
        c,
        groups,
        family="opt",
        dialect="opt",
        tied=True,
        positions=c.size("max_position_embeddings", default=2048) + 2,
        final_norm=final,
        final_norm_bias=final,
        embedding_width=0 if narrow == hidden else narrow,
    )


def read_bloom(c: Fields) -> ModelSpec:
    """BLOOM: a norm after the embedding, positions by ALiBi."""
    hidden, heads = c.size("n_embed", "hidden_size"), c.size("n_head", "num_attention_heads")
    layers = c.layers("n_layer", "num_hidden_layers")
    width = c.divide(hidden, heads, "hidden_size", "n_head")
    mixer = Attention(hidden, heads, heads, width, qkv_bias=True, out_bias=True)
    norms = Norms(("input_layernorm", "post_attention_layernorm"), bias=True)
    groups = stack([mixer] * layers, [Dense(hidden, 4 * hidden, False, True)] * layers, norms)
    c.read |= {"seq_length", "num_hidden_layers", "num_attention_heads"}
    return model(c, groups, family="bloom", dialect="bloom", tied=True, embedding_norm=True, final_norm_bias=True)


def read_mpt(c: Fields) -> ModelSpec:
    """MPT: no biases at all, positions by ALiBi."""
    hidden, heads, layers = c.size("d_model"), c.size("n_heads"), c.layers("n_layers")
    attention = c.raw("attn_config")
    if isinstance(attention, dict) and attention.get("attn_type", "multihead_attention") != "multihead_attention":
        raise BadInput(
            "this mpt config has '{kind}', which narrows does not read yet; use one with multihead_attention",
            kind=str(attention["attn_type"])[:40],
        )
    c.values = {**c.values, "max_position_embeddings": c.raw("max_seq_len", default=2048)}
    c.read |= {"expansion_ratio", "learned_pos_emb", "no_bias", "norm_type", "embedding_fraction", "init_device"}
    c.read |= {"emb_pdrop"}
    mixer = Attention(hidden, heads, heads, c.divide(hidden, heads, "d_model", "n_heads"))
    groups = stack([mixer] * layers, [Dense(hidden, 4 * hidden, False)] * layers, Norms(("norm_1", "norm_2")))
    return model(c, groups, family="mpt", dialect="mpt", tied=True)


def read_falcon(c: Fields) -> ModelSpec:
    """Falcon: one KV head (7B), some (40B, 180B: the new architecture), or as many as heads (RW)."""
    hidden, heads = c.size("n_embed", "hidden_size"), c.size("num_attention_heads", "n_head")
    layers = c.layers("num_hidden_layers", "n_layer")
    new, parallel = c.flag("new_decoder_architecture", False), c.flag("parallel_attn", True)
    stated = c.maybe_size("num_kv_heads", "n_head_kv", default=None) or heads
    kv = stated if new else 1 if c.flag("multi_query", True) else heads
    bias = c.flag("bias", False)
    mixer = Attention(
        hidden,
        heads,
        kv,
        c.divide(hidden, heads, "hidden_size", "num_attention_heads"),
        qkv_bias=bias,
        out_bias=bias,
    )
    inner = c.maybe_size("ffn_hidden_size", default=None) or 4 * hidden
    two = c.maybe_size("num_ln_in_parallel_attn", default=None)
    names: tuple[str, ...] = ("input_layernorm",)
    if not parallel:
        names = ("input_layernorm", "post_attention_layernorm")
    elif (2 if two is None and new else two) == 2:
        names = ("ln_attn", "ln_mlp")
    c.read |= {
        "multi_query",
        "alibi",
        "hidden_size",
        "n_head",
        "num_attention_heads",
        "n_layer",
        "num_hidden_layers",
        "n_head_kv",
    }
    groups = stack([mixer] * layers, [Dense(hidden, inner, False, bias)] * layers, Norms(names, bias=True))
    if new or parallel:
        groups = tuple(replace(group, layer=replace(group.layer, one_sum=True)) for group in groups)
    return model(c, groups, family="falcon", dialect="falcon", tied=True, final_norm_bias=True)
