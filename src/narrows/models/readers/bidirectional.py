"""Language models of BERT's time and shape: XLM, XLNet, and ModernBERT made a decoder."""

from __future__ import annotations

from narrows.models.feedforward import Dense
from narrows.models.fields import Fields
from narrows.models.mixers import Attention, RememberingAttention, Uncached
from narrows.models.readers.build import FULL, SLIDING, grouped, model, stack, windowed
from narrows.models.spec import Layer, ModelSpec, Norms
from narrows.models.tensors import Tensor
from narrows.text import BadInput, Text


def read_xlm(c: Fields) -> ModelSpec:
    """XLM: an encoder with a head; transformers keeps nothing between steps."""
    hidden, layers = c.size("emb_dim", "hidden_size"), c.layers("n_layers", "num_hidden_layers")
    heads = c.size("n_heads", "num_attention_heads", default=16)
    if c.flag("asm", False) or not c.flag("is_encoder", True):
        raise BadInput(
            "this xlm config sets '{field}' in a way that narrows does not read yet; use a plain encoder",
            field="asm" if c.flag("asm", False) else "is_encoder",
        )
    width = c.divide(hidden, heads, "emb_dim", "n_heads")
    mixer = Uncached(Attention(hidden, heads, heads, width, qkv_bias=True, out_bias=True))
    part = Dense(hidden, 4 * hidden, gated=False, bias=True)
    languages = c.size("n_langs", default=1)
    extra: tuple[tuple[str, Tensor], ...] = ()
    if languages > 1 and c.flag("use_lang_emb", True):
        extra = (("embedding", Tensor("input.languages", (languages, hidden), "table")),)
    c.read |= {"use_lang_emb", "causal", "sinusoidal_embeddings", "gelu_activation", "embed_init_std", "lang_id"}
    c.read |= {"start_n_top", "end_n_top", "lang2id", "id2lang", "mask_token_id", "max_vocab", "min_count"}
    c.read |= {name for name in c.values if name.endswith("_index")}
    if not c.has("vocab_size"):
        c.values = {**c.values, "vocab_size": c.size("n_words")}
    return model(
        c,
        stack([mixer] * layers, [part] * layers, Norms(("layer_norm1", "layer_norm2"), bias=True)),
        family="xlm",
        dialect="xlm",
        tied=True,
        positions=c.size("max_position_embeddings", default=512),
        embedding_norm=True,
        final_norm=False,
        head_bias=True,
        extra=extra,
        assumptions=(Text("nothing is kept between steps: transformers computes all keys and values anew"),),
    )


def read_xlnet(c: Fields) -> ModelSpec:
    """XLNet: relative attention over the tokens and over the hidden states of earlier ones."""
    hidden, layers = c.size("d_model", "hidden_size"), c.layers("n_layer", "num_hidden_layers")
    heads = c.size("n_head", "num_attention_heads", default=16)
    width = c.divide(hidden, heads, "d_model", "n_head")
    stated = c.maybe_size("d_head", default=None)
    if stated is not None and stated != width:
        raise BadInput(
            "config field '{field}' is {value}, and {hidden} / {heads} is {width}; the file contradicts itself",
            field=c.path + "d_head",
            value=stated,
            hidden=hidden,
            heads=heads,
            width=width,
        )
    # a memory of 0 is one without an end; a step keeps at most as much as may be reused
    memory = c.maybe_size("mem_len", default=512, least=0) or None
    reused = c.maybe_size("reuse_len", default=None, least=0) or None
    kept = min((size for size in (memory, reused) if size is not None), default=None)
    mixer = RememberingAttention(hidden, heads, width, kept, c.flag("use_mems_eval", True))
    part = Dense(hidden, c.size("d_inner", default=4096), gated=False, bias=True)
    c.read |= {"use_mems_train", "bi_data", "clamp_len", "same_length", "ff_activation", "start_n_top", "end_n_top"}
    c.read |= {"summary_last_dropout", "untie_r", "mem_len", "n_token"}
    return model(
        c,
        stack([mixer] * layers, [part] * layers, Norms(("rel_attn.layer_norm", "ff.layer_norm"), bias=True)),
        family="xlnet",
        dialect="xlnet",
        tied=True,
        final_norm=False,
        head_bias=True,
        extra=(("embedding", Tensor("input.mask", (1, 1, hidden), "vector")),),
    )


def read_modernbert_decoder(c: Fields) -> ModelSpec:
    """ModernBERT's decoder (Ettin): two layers of three slide; the first layer has no norm before its attention."""
    layers, bias = c.layers("num_hidden_layers"), c.flag("norm_bias", False)
    linear = c.flag("attention_bias", False)
    hidden, heads = c.size("hidden_size"), c.size("num_attention_heads")
    width = c.divide(hidden, heads, "hidden_size", "num_attention_heads")
    full = Attention(hidden, heads, heads, width, qkv_bias=linear, out_bias=linear)
    every = c.size("global_attn_every_n_layers", default=3)
    kinds = c.kinds("layer_types", layers, (SLIDING, FULL)) or [SLIDING if i % every else FULL for i in range(layers)]
    # half of it lies before a token, half after
    local = c.maybe_size("local_attention", default=128, least=0)
    window = c.maybe_size("sliding_window", default=None) or (local or 0) // 2 or None
    part = Dense(hidden, c.size("intermediate_size"), bias=c.flag("mlp_bias", False))
    norms = [Norms(names, bias=bias) for names in (("mlp_norm",), ("attn_norm", "mlp_norm"))]
    made: dict[tuple[int, bool], Layer] = {}
    found = []
    for index, mixer in enumerate(windowed(full, window, kinds)):
        key = (mixer.window or 0, index > 0)
        found.append(made.setdefault(key, Layer(mixer, part, norms[index > 0], hidden)))
    extra = [("norms", Tensor("input.norm", (hidden,), "vector"))]
    extra += [("head", Tensor("transform.dense", (hidden, hidden), "plain"))]
    extra += [("head", Tensor("transform.norm", (hidden,), "vector"))]
    if c.flag("classifier_bias", False):
        extra.append(("head", Tensor("transform.dense.bias", (hidden,), "vector")))
    if bias:
        extra += [("norms", Tensor(f"{name}.norm.bias", (hidden,), "vector")) for name in ("input", "transform")]
    c.read |= {"initializer_cutoff_factor", "mlp_dropout", "classifier_activation", "global_rope_theta"}
    c.read |= {"local_rope_theta", "cls_token_id"}
    return model(
        c,
        grouped(found),
        family="modernbert-decoder",
        dialect="modernbert",
        tied=True,
        final_norm_bias=bias,
        head_bias=c.flag("decoder_bias", True),
        extra=tuple(extra),
    )
