"""Decoders of 2023 that came with classes of their own: Qwen 1, ChatGLM, TeleChat, Phi 1 and 3 small, old Falcons."""

from __future__ import annotations

import msgspec

from narrows.models.feedforward import Dense
from narrows.models.fields import Fields
from narrows.models.mixers import Attention
from narrows.models.readers.build import PRE_NORMS, model, outside, stack
from narrows.models.readers.older import read_falcon
from narrows.models.readers.spelling import LAYERS, respell
from narrows.models.spec import ModelSpec, Norms, Tower
from narrows.models.tensors import Tensor
from narrows.text import BadInput


def read_qwen(c: Fields) -> ModelSpec:
    """Qwen 1: `intermediate_size` is both halves of the gated feed-forward; biases on q, k and v alone."""
    respell(c, {**LAYERS, "intermediate_size": ("ffn_hidden_size",)})
    hidden, heads, layers = c.size("hidden_size"), c.size("num_attention_heads"), c.layers("num_hidden_layers")
    width = c.size("kv_channels", default=hidden // heads or 1)
    bias = not c.flag("no_bias", True)
    inner = c.divide(c.size("intermediate_size"), 2, "intermediate_size", "2")
    mixer = Attention(hidden, heads, heads, width, qkv_bias=True, out_bias=bias)
    c.read |= {"padded_vocab_size", "onnx_safe", "seq_length", "softmax_in_fp32", "bf16", "fp16", "fp32"}
    c.read |= {"use_dynamic_ntk", "use_flash_attn", "use_logn_attn", "use_cache_kernel", "use_cache_quantization"}
    c.read |= {"attn_dropout_prob", "emb_dropout_prob", "tokenizer_type"}
    if c.raw("audio"):
        raise BadInput("Qwen-Audio is not read yet, only Qwen's text models and Qwen-VL")
    towers: tuple[Tower, ...] = ()
    if c.raw("visual"):
        from narrows.models.readers.remote_seeing import qwen_vl

        towers = qwen_vl(c.nested("visual"), hidden)
    groups = stack([mixer] * layers, [Dense(hidden, inner, True, bias)] * layers, Norms(("ln_1", "ln_2")))
    return model(c, groups, family="qwen", dialect="qwen", towers=towers)


def read_chatglm(c: Fields) -> ModelSpec:
    """ChatGLM 2 and 3, GLM-4 9B and what was made from them; ChatGLM 1 by its own fields."""
    if c.raw("position_encoding_2d") is not None or c.raw("inner_hidden_size") is not None:
        return _chatglm1(c)
    if c.raw("vision_config"):
        raise BadInput("GLM-4V is not read as 'chatglm' yet, only the text models; use a text model's config.json")
    hidden, heads = c.size("hidden_size"), c.size("num_attention_heads")
    layers, width = c.layers("num_layers", "num_hidden_layers"), c.size("kv_channels", default=128)
    kv = c.size("multi_query_group_num", default=1, most=heads) if c.flag("multi_query_attention", False) else heads
    c.divide(heads, kv, "num_attention_heads", "multi_query_group_num")
    bias, norm_bias = c.flag("add_bias_linear", False), not c.flag("rmsnorm", True)
    mixer = Attention(hidden, heads, kv, width, qkv_bias=c.flag("add_qkv_bias", False) or bias, out_bias=bias)
    part = Dense(hidden, c.size("ffn_hidden_size", default=13696), True, bias)
    c.values = {
        **c.values,
        "vocab_size": c.size("padded_vocab_size", "vocab_size", default=65024),
        "max_position_embeddings": c.raw("seq_length", default=2048),
    }
    c.read |= {"num_hidden_layers", "multi_query_group_num", "vocab_size", *_GLM_IDLE}
    final = c.flag("post_layer_norm", True)
    # half of every head is rotated, in pairs: the published files hold the frequencies
    frequencies = Tensor("before.rotary", (max(width // 4, 1),), "buffer")
    return model(
        c,
        stack([mixer] * layers, [part] * layers, Norms(PRE_NORMS.names, bias=norm_bias)),
        family="chatglm",
        dialect="chatglm",
        final_norm=final,
        final_norm_bias=final and norm_bias,
        extra=outside(before=[frequencies]),
    )


_GLM_IDLE = [
    "apply_query_key_layer_scaling",
    "attention_softmax_in_fp32",
    "bias_dropout_fusion",
    "fp32_residual_connection",
    "layernorm_epsilon",
    "original_rope",
    "rope_ratio",
    "quantization_bit",
    "pre_seq_len",
    "prefix_projection",
    "interleaved_qkv",
]


def _chatglm1(c: Fields) -> ModelSpec:
    """ChatGLM 6B: GLM-130B's layers, LayerNorms and biases everywhere, no gate."""
    hidden, heads, layers = c.size("hidden_size"), c.size("num_attention_heads"), c.layers("num_layers")
    width = c.divide(hidden, heads, "hidden_size", "num_attention_heads")
    frequencies = Tensor("attention.rotary", (max(width // 4, 1),), "buffer")
    mixer = Attention(hidden, heads, heads, width, qkv_bias=True, out_bias=True, beside=(frequencies,))
    part = Dense(hidden, c.maybe_size("inner_hidden_size", default=None) or 4 * hidden, False, True)
    c.values = {**c.values, "max_position_embeddings": c.raw("max_sequence_length", default=2048)}
    c.read |= {"inner_hidden_size", "position_encoding_2d", "gmask_token_id", "mask_token_id", *_GLM_IDLE}
    groups = stack([mixer] * layers, [part] * layers, Norms(PRE_NORMS.names, bias=True))
    return model(c, groups, family="chatglm", dialect="chatglm1", tied=True, final_norm_bias=True)


def read_telechat(c: Fields) -> ModelSpec:
    """TeleChat 1 and 2: keys and values fused apart from queries; biases on what goes back into the residual."""
    respell(c, {**LAYERS, "intermediate_size": ("ffn_hidden_size",)})
    hidden, heads, layers = c.size("hidden_size"), c.size("num_attention_heads"), c.layers("num_hidden_layers")
    kv = c.maybe_size("num_key_value_heads", default=heads, most=heads) or heads
    c.divide(heads, kv, "num_attention_heads", "num_key_value_heads")
    width = c.divide(hidden, heads, "hidden_size", "n_head")
    mixer = Attention(hidden, heads, kv, width, out_bias=True)
    part = Dense(hidden, c.size("intermediate_size"), True, down_bias=True)
    if c.flag("embed_layernorm", False):
        raise BadInput("this telechat config has a norm after the embedding, which narrows does not read yet")
    c.read |= {
        "apply_residual_connection_post_layernorm",
        "flash_attn",
        "training_seqlen",
        "base_seqlen",
        "use_RMSNorm",
    }
    c.read |= {"logn", "unk_token_id", "semi_causal", "skip_bias_add", "seq_length"}
    return model(c, stack([mixer] * layers, [part] * layers, PRE_NORMS), family="telechat", dialect="telechat")


read_telechat2 = read_telechat


def read_phi_msft(c: Fields) -> ModelSpec:
    """Phi 1, 1.5 and 2 as their first files had them: one norm, q, k and v fused, biases everywhere."""
    respell(c, LAYERS)
    hidden, heads, layers = c.size("hidden_size"), c.size("num_attention_heads"), c.layers("num_hidden_layers")
    kv = c.maybe_size("n_head_kv", default=None, most=heads) or heads
    c.divide(heads, kv, "n_head", "n_head_kv")
    mixer = Attention(hidden, heads, kv, c.divide(hidden, heads, "n_embd", "n_head"), qkv_bias=True, out_bias=True)
    part = Dense(hidden, c.maybe_size("n_inner", default=None) or 4 * hidden, False, True)
    c.read |= {"flash_attn", "flash_rotary", "fused_dense", "img_processor", "architecture", "phyagi_version"}
    groups = stack([mixer] * layers, [part] * layers, Norms(("ln",), bias=True))
    return model(c, groups, family="phi-msft", dialect="phi_msft", final_norm_bias=True, head_bias=True)


def read_phi3small(c: Fields) -> ModelSpec:
    """Phi-3 small: biases and LayerNorms everywhere; its block-sparse layers keep all keys and values."""
    hidden, heads, layers = c.size("hidden_size"), c.size("num_attention_heads"), c.layers("num_hidden_layers")
    kv = c.size("num_key_value_heads", default=8, most=heads)
    c.divide(heads, kv, "num_attention_heads", "num_key_value_heads")
    mixer = Attention(
        hidden,
        heads,
        kv,
        c.divide(hidden, heads, "hidden_size", "num_attention_heads"),
        qkv_bias=True,
        out_bias=True,
    )
    part = Dense(hidden, c.size("ff_intermediate_size", "intermediate_size"), True, True)
    c.read |= {name for name in c.values if name.startswith(("blocksparse_", "mup_", "gegelu_", "dummy_token"))}
    c.read |= {"ff_dim_multiplier", "dense_attention_every_n_layers", "rope_embedding_base", "rope_position_scale"}
    c.read |= {
        "attention_bias",
        "attention_dropout_prob",
        "embedding_dropout_prob",
        "ffn_dropout_prob",
        "intermediate_size",
    }
    groups = stack([mixer] * layers, [part] * layers, Norms(PRE_NORMS.names, bias=True))
    return model(c, groups, family="phi3small", dialect="phi3small", tied=True, final_norm_bias=True)


def read(c: Fields, model_type: str) -> ModelSpec:
    """Falcon as its first files had it: RefinedWeb is the 40B (several KV heads, two norms), RefinedWebModel others."""
    new = model_type == "RefinedWeb"
    # 2,048 tokens: what transformers plans for where a file of that time says nothing
    usual = {
        "new_decoder_architecture": new,
        "parallel_attn": new,
        "multi_query": False,
        "max_position_embeddings": 2048,
    }
    c.values = {**{name: value for name, value in usual.items() if not c.has(name)}, **c.values}
    c.read |= usual.keys()
    return msgspec.structs.replace(read_falcon(c), family=model_type)
