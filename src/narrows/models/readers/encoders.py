"""Encoders of text that came after BERT, as language models or bare: what embeds and ranks texts today.

Source of names and defaults: the classes of transformers 5 (Apache-2.0), and for nomic's and GTE's own files the
classes beside them on the hub.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from narrows.models.class_heads import note_of
from narrows.models.feedforward import Dense, MixtureOfExperts
from narrows.models.fields import Fields
from narrows.models.mixers import Attention, Uncached
from narrows.models.mixers.base import linear
from narrows.models.readers.bert import Frame, read
from narrows.models.readers.build import FULL, PRE_NORMS, SLIDING, attention, dense
from narrows.models.readers.seq2seq_parts import class_of, norm, whole_model
from narrows.models.readers.spelling import LAYERS, respell
from narrows.models.readers.unread import unread_setting
from narrows.models.spec import Layer, ModelSpec, Norms
from narrows.models.tensors import Tensor
from narrows.text import BadInput


def read_distilbert(c: Fields) -> ModelSpec:
    """DistilBERT: BERT without token types and pooler."""
    respell(c, {**LAYERS, "hidden_size": ("dim",), "intermediate_size": ("hidden_dim",)})
    c.read |= {"sinusoidal_pos_embds", "qa_dropout", "seq_classif_dropout", "tie_weights_"}
    return read(c, "distilbert")


def read_mpnet(c: Fields) -> ModelSpec:
    """MPNet: BERT with one table of relative positions for all layers."""
    spec = read(c, "mpnet")
    heads = c.size("num_attention_heads")
    table = Tensor("position.relative", (c.size("relative_attention_num_buckets", default=32), heads), "table")
    return msgspec.structs.replace(spec, frame=(*spec.frame, ("embedding", table)))


def read_deberta_v2(c: Fields) -> ModelSpec:
    """DeBERTa 2 and 3: positions relative to each other, with projections of their own unless those are shared."""
    hidden = c.size("hidden_size")
    c.read |= {"legacy", "pooler_hidden_act", "pooler_hidden_size", "pooler_dropout", "conv_act", "share_att_key"}
    c.read |= {"pos_att_type", "norm_rel_ebd", "attention_head_size", "max_relative_positions", "position_buckets"}
    for field, usual in (("attention_head_size", None), ("embedding_size", hidden), ("conv_groups", 1)):
        if c.raw(field) not in (None, usual):
            raise unread_setting("deberta-v2", field)
    spec, extra = read(c, "deberta-v2"), list[tuple[str, Tensor]]()
    relative = c.flag("relative_attention", False)
    layers = [layer for group in spec.groups for layer in [group.layer] * group.repeat]
    if relative:
        buckets = _positive(c, "position_buckets") or _positive(c, "max_relative_positions")
        buckets = buckets or c.size("max_position_embeddings")
        extra.append(("embedding", Tensor("position.relative", (2 * buckets, hidden), "table")))
        if not c.flag("share_att_key", False):
            layers = [msgspec.structs.replace(layers[0], beside=_own_positions(c, hidden))] * len(layers)
    if "layer_norm" in str(c.raw("norm_rel_ebd", default="none")).lower():
        extra += norm("norms", "position.norm", hidden, True)
    kernel = c.maybe_size("conv_kernel_size", default=0, least=0) or 0
    if kernel:
        extra += [("embedding", Tensor("convolution", (hidden, hidden, kernel), "plain"))]
        extra += [("embedding", Tensor("convolution.bias", (hidden,), "vector"))]
        extra += norm("norms", "convolution.norm", hidden, True)
    groups = tuple(msgspec.structs.replace(group, layer=layers[group.first]) for group in spec.groups)
    return msgspec.structs.replace(spec, groups=groups, frame=(*spec.frame, *extra))


def _positive(c: Fields, name: str) -> int:
    """A size; −1, like nothing at all, says that another field decides."""
    value = c.raw(name)
    return 0 if value is None or (isinstance(value, int) and value < 1) else c.size(name)


def _own_positions(c: Fields, hidden: int) -> tuple[Tensor, ...]:
    """Projections of positions, as keys (c2p) and as queries (p2c)."""
    kinds = c.raw("pos_att_type") or ()
    listed = kinds.split("|") if isinstance(kinds, str) else kinds
    if not isinstance(listed, Sequence) or any(not isinstance(kind, str) for kind in listed):
        raise BadInput("config field '{field}' must be a list of names", field=c.path + "pos_att_type")
    heads = c.size("num_attention_heads")
    found: list[Tensor] = []
    for kind, role in (("c2p", "attention.position_k"), ("p2c", "attention.position_q")):
        if kind in [one.strip() for one in listed]:
            found += linear(role, hidden, hidden, shards=heads, bias=True)
    return tuple(found)


def whole(
    c: Fields, family: str, layers: Sequence[Layer], around: Frame, head: Frame, *, dialect: str, tied: bool
) -> ModelSpec:
    """An encoder with the head of a language model, or bare where its class has none."""
    name = class_of(c)
    note = note_of(name, family) if name else None
    if name and note is None and not name.endswith("ForMaskedLM"):
        raise BadInput(
            "class {name} has no language-model head; narrows reads this family as a language model only: give the "
            "config of one, or take 'architectures' out of the file",
            name=name[:60],
        )
    last = head if note is None else []
    spec = whole_model(
        c,
        layers,
        (*around, *last),
        family=family,
        dialect=dialect,
        vocab=c.size("vocab_size"),
        tied=tied,
        max_length=c.maybe_size("max_position_embeddings", default=None) or 0,
        towers=(),
    )
    return spec if note is None else msgspec.structs.replace(spec, assumptions=(note,))


def _transform(c: Fields, hidden: int, *, tied: bool, bias: bool = True, norm_bias: bool = True) -> Frame:
    """A dense layer and a norm before the head, whose matrix has a bias."""
    rows = c.size("vocab_size")
    found: Frame = [("head", tensor) for tensor in linear("head.dense", hidden, hidden, bias=bias)]
    found += norm("head", "head.norm", hidden, norm_bias)
    if not tied:
        found.append(("head", Tensor("head", (rows, hidden), "plain", rows)))
    return found


def _bias(c: Fields) -> Frame:
    rows = c.size("vocab_size")
    return [("head", Tensor("head.bias", (rows,), "vector", rows))]


def _all_heads(c: Fields, bias: bool) -> Attention:
    """Attention whose queries, keys and values have equally many heads."""
    hidden, heads = c.size("hidden_size"), c.size("num_attention_heads")
    width = c.maybe_size("head_dim", default=None) or c.divide(hidden, heads, "hidden_size", "num_attention_heads")
    return Attention(hidden, heads, heads, width, qkv_bias=bias, out_bias=bias)


def read_modernbert(c: Fields) -> ModelSpec:
    """ModernBERT: two layers of three see a window around each token; the first has no norm before its attention."""
    layers, hidden, heads = c.layers("num_hidden_layers"), c.size("hidden_size"), c.size("num_attention_heads")
    linears, norms = c.flag("attention_bias", False), c.flag("norm_bias", False)
    width = c.divide(hidden, heads, "hidden_size", "num_attention_heads")
    every = c.size("global_attn_every_n_layers", default=3)
    kinds = c.kinds("layer_types", layers, (SLIDING, FULL)) or [SLIDING if i % every else FULL for i in range(layers)]
    # a half before the token, a half behind it, and the token itself
    seen = c.size("local_attention", default=128) // 2 * 2 + 1
    part = Dense(hidden, c.size("intermediate_size"), bias=c.flag("mlp_bias", False))
    full = Attention(hidden, heads, heads, width, qkv_bias=linears, out_bias=linears)
    mixers = {FULL: Uncached(full), SLIDING: Uncached(msgspec.structs.replace(full, window=seen))}
    names = [Norms(each, bias=norms) for each in (("mlp_norm",), ("attn_norm", "mlp_norm"))]
    found = [Layer(mixers[kind], part, names[index > 0], hidden) for index, kind in enumerate(kinds)]
    tied = c.flag("tie_word_embeddings", True)
    around: Frame = [("embedding", Tensor("embedding", (c.size("vocab_size"), hidden), "table", c.size("vocab_size")))]
    around += norm("norms", "input.norm", hidden, norms) + norm("norms", "final_norm", hidden, norms)
    head = _transform(c, hidden, tied=tied, bias=c.flag("classifier_bias", False), norm_bias=norms)
    head += _bias(c) if c.flag("decoder_bias", True) else []
    c.read |= {"initializer_cutoff_factor", "mlp_dropout", "classifier_activation", "global_rope_theta", "cls_token_id"}
    c.read |= {"local_rope_theta", "classifier_pooling", "deterministic_flash_attn", "sparse_prediction", "embedding_d"}
    c.read |= {"sparse_pred_ignore_index", "reference_compile", "repad_logits_with_grad", "position_embedding_type"}
    c.read |= {"sliding_window"}
    return whole(c, "modernbert", found, around, head, dialect="modernbert.encoder", tied=tied)


def read_nomic_bert(c: Fields) -> ModelSpec:
    """Nomic's BERT: rotary positions, gated layers, and in every second layer of the newer one experts."""
    given = c.has("n_embd")
    respell(c, {**LAYERS, "intermediate_size": ("n_inner",), "num_experts_per_tok": ("moe_top_k",)})
    hidden, layers = c.size("hidden_size"), c.layers("num_hidden_layers")
    inner = c.maybe_size("intermediate_size", default=None) or 4 * hidden
    # a file of its own names biases; transformers' class has none
    biased = {name: given and c.flag(name, True) for name in ("qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias")}
    linears = biased["qkv_proj_bias"]
    mixer = Uncached(_all_heads(c, linears))
    gated = not given or "glu" in str(c.raw("activation_function", default="gelu")).lower()
    if biased["mlp_fc1_bias"] != biased["mlp_fc2_bias"] or c.flag("prenorm", False) or c.flag("use_rms_norm", False):
        raise unread_setting(
            "nomic_bert", "use_rms_norm" if c.raw("use_rms_norm") else "prenorm" if c.raw("prenorm") else "mlp_fc2_bias"
        )
    plain = Dense(hidden, inner, gated, bias=biased["mlp_fc1_bias"])
    experts = c.maybe_size("num_experts", default=0, least=0) or 0
    every = c.maybe_size("moe_every_n_layers", default=0, least=0) or 0
    sparse = every and experts
    norms = Norms(("norm1", "norm2"), bias=True)
    some = None
    if sparse:
        top_k = c.size("num_experts_per_tok", default=1, most=experts)
        some = MixtureOfExperts(hidden, experts, top_k, inner, gated=False)
        # one bias for what comes out, whichever experts it came from
        shared_bias = (Tensor("experts.out.bias", (hidden,), "vector"),)
    found = [
        Layer(mixer, some, norms, hidden, beside=shared_bias)
        if some is not None and index % every == 1 % every
        else Layer(mixer, plain, norms, hidden)
        for index in range(layers)
    ]
    rows, types = c.size("vocab_size"), c.size("type_vocab_size", default=2, least=0)
    around: Frame = [("embedding", Tensor("embedding", (rows, hidden), "table", rows))]
    around += [("embedding", Tensor("token_types", (types, hidden), "table"))] if types else []
    around += norm("norms", "embedding_norm", hidden, True)
    tied = c.flag("tie_word_embeddings", True)
    c.read |= {name for name in c.values if name.startswith(("rotary_", "moe_", "fused_", "use_", "ffn_", "expert_"))}
    c.read |= {"pad_vocab_size_multiple", "dense_seq_output", "parallel_block", "parallel_block_tied_norm", "causal"}
    c.read |= {"last_layer_subset", "mlp_checkpoint_lvl", "max_trained_positions", "window_size", "activation_function"}
    c.read |= {"scale_attn_by_inverse_layer_idx", "resid_pdrop", "add_pooling_layer", "num_shared_experts"}
    if c.flag("parallel_block", False):
        raise unread_setting("nomic_bert", "parallel_block")
    head = _transform(c, hidden, tied=tied) + _bias(c)
    return whole(c, "nomic_bert", found, around, head, dialect="nomic_bert", tied=tied)


def _gte(c: Fields, family: str) -> ModelSpec:
    layers, hidden = c.layers("num_hidden_layers"), c.size("hidden_size")
    if family == "new":
        c.read |= {"layer_norm_type", "logn_attention_clip1", "logn_attention_scale", "pack_qkv", "unpad_inputs"}
        c.read |= {"use_memory_efficient_attention", "position_embedding_type", "mask_token_id"}
        if c.raw("position_embedding_type", default="rope") != "rope":
            raise unread_setting(family, "position_embedding_type")
        norms = c.raw("layer_norm_type", default="layer_norm") == "layer_norm"
    else:
        norms = True
    mixer = Uncached(_all_heads(c, True))
    part = Dense(hidden, c.size("intermediate_size"), down_bias=True)
    found = [Layer(mixer, part, Norms(("attn_ln", "mlp_ln"), bias=norms), hidden)] * layers
    rows = c.size("vocab_size")
    types = c.maybe_size("type_vocab_size", default=1, least=0) or 0
    around: Frame = [("embedding", Tensor("embedding", (rows, hidden), "table", rows))]
    around += [("embedding", Tensor("token_types", (types, hidden), "table"))] if types else []
    around += norm("norms", "embedding_norm", hidden, norms)
    tied = c.flag("tie_word_embeddings", True)
    head = _transform(c, hidden, tied=tied) + _bias(c)
    return whole(c, family, found, around, head, dialect="gte", tied=tied)


def read_gte(c: Fields) -> ModelSpec:
    """GTE of 2024, multilingual or long, as transformers has it."""
    return _gte(c, "gte")


def read_new(c: Fields) -> ModelSpec:
    """GTE as its own files call it."""
    return _gte(c, "new")


def read_eurobert(c: Fields) -> ModelSpec:
    """EuroBERT: Llama's layers that look both ways."""
    bias, hidden, rows = c.flag("attention_bias", False), c.size("hidden_size"), c.size("vocab_size")
    mixer = Uncached(attention(c, qkv_bias=bias, out_bias=bias))
    layer = Layer(mixer, dense(c, bias=c.flag("mlp_bias", False)), PRE_NORMS, hidden)
    around: Frame = [("embedding", Tensor("embedding", (rows, hidden), "table", rows))]
    around += norm("norms", "final_norm", hidden, False)
    tied = c.flag("tie_word_embeddings", False)
    head: Frame = [] if tied else [("head", Tensor("head", (rows, hidden), "plain", rows))]
    head += _bias(c) if c.flag("mlp_bias", False) else []
    c.read |= {"classifier_pooling", "clf_pooling", "mask_token_id", "mask_token"}
    return whole(c, "eurobert", [layer] * c.layers("num_hidden_layers"), around, head, dialect="llama", tied=tied)


def read_jina_embeddings_v3(c: Fields) -> ModelSpec:
    """Jina's third embeddings: XLM-RoBERTa with rotary positions (as transformers has it, without the adapters)."""
    c.values = {"type_vocab_size": 1, **c.values, "position_embedding_type": "rotary"}
    return read(c, "jina_embeddings_v3")
