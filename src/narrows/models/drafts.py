"""What drafts for another model: heads trained for it (EAGLE, Medusa), and the prediction layers of its own file.

A head is a ModelSpec of its own that lacks what it shares with its target: the embedding, and of EAGLE the output head.
"""

from __future__ import annotations

import os
from typing import Any

import msgspec

from narrows.models.config_file import config_at
from narrows.models.fields import Fields
from narrows.models.mixers import Attention, LatentAttention
from narrows.models.paths import looks_like_path, short
from narrows.models.quantization import with_quantization
from narrows.models.readers.build import attention, dense, grouped, model
from narrows.models.readers.mtp import prediction_layer
from narrows.models.spec import Layer, ModelSpec, Norms, Precision, Tower
from narrows.models.tensors import Tensor
from narrows.precision import UNQUANTIZED
from narrows.precision.selection import overrides
from narrows.text import BadInput, Text

HEADS = ("eagle", "eagle3", "medusa")
"""Methods whose draft is a head that is trained for its target."""
_LIKE_LLAMA = ("llama", "qwen2", "qwen3", "mistral", "eagle", "eagle3", "")
"""Families (`model_type`) of EAGLE heads that are built like a layer of Llama."""
AUXILIARY = 3
"""Layers of the target whose output an EAGLE-3 head reads."""


def draft_config(source: str, *, online: bool = True) -> dict[str, Any]:
    """The config of a head, from a path or the hub. Raises BadInput with what to give."""
    if looks_like_path(source):
        path = os.path.expanduser(source)
        return config_at(os.path.join(path, "config.json") if os.path.isdir(path) else path)
    from narrows.models.hub import find, hub_id

    asked = hub_id(source)
    try:
        found = find(*asked, online=online) if asked is not None else None
    except BadInput as error:
        raise _unread(source, error.text) from None
    if found is None:
        raise _unread(source, Text("it is not in the local cache, and no file of that name is here"))
    return config_at(found.path)


def _unread(source: str, why: Text) -> BadInput:
    return BadInput(
        "the draft '{name}' cannot be read ({why}); give the path of its config.json, or of the directory that holds "
        "it, as the model of the speculative config",
        name=short(source),
        why=why,
    )


def read_head(config: dict[str, Any], method: str, target: ModelSpec, name: str) -> ModelSpec:
    """A head of `method` for `target`, from its decoded config. Raises BadInput for one that is built otherwise.

    Sources of the layout: vLLM's llama_eagle, llama_eagle3 and medusa (Apache-2.0).
    """
    inner = config.get("transformer_layer_config")
    if isinstance(inner, dict):
        config = {**config, **inner}
    c = Fields(with_quantization(config))
    found = _medusa(c, target) if method == "medusa" else _eagle(c, target, method == "eagle3")
    return msgspec.structs.replace(found, name=name, architecture=method)


def _eagle(c: Fields, target: ModelSpec, third: bool) -> ModelSpec:
    """One layer (or few) behind a projection of the target's hidden state and, in EAGLE, the token's embedding."""
    kind = c.raw("model_type") or ""
    names = " ".join(map(str, c.values.get("architectures") or ()))
    if kind not in _LIKE_LLAMA or "Deepseek" in names:
        raise BadInput(
            "an EAGLE head of model_type '{kind}' is not read yet; narrows reads those built like a layer of Llama",
            kind=str(kind)[:40],
        )
    attend = attention(c, qkv_bias=c.flag("attention_bias", kind == "qwen2"), qk_norm=kind == "qwen3")
    hidden, vocab, part = attend.hidden, c.size("vocab_size"), dense(c)
    wide = (hidden,) if third else ()
    beside = tuple(
        Tensor(f"draft.wide_{side}", (heads * attend.head_dim, extra), "linear", heads)
        for extra in wide
        for side, heads in (("q", attend.heads), ("k", attend.kv_heads), ("v", attend.kv_heads))
    )
    first = ("input_layernorm", "hidden_norm", "post_attention_layernorm") if third else ("post_attention_layernorm",)
    layers = [Layer(attend, part, Norms(first), hidden, beside=beside)]
    usual = Norms(("input_layernorm", "post_attention_layernorm"))
    layers += [Layer(attend, part, usual, hidden)] * (c.size("num_hidden_layers", default=1, most=64) - 1)
    spec = model(c, grouped(layers), family="eagle", dialect="drafts")
    if spec.precision.assumed:
        spec = msgspec.structs.replace(
            spec, precision=msgspec.structs.replace(spec.precision, dtype=target.precision.dtype)
        )
    of_target = c.size("target_hidden_size", default=target.hidden if third else hidden)
    if vocab != target.vocab or of_target != target.hidden:
        raise BadInput(
            "the head is made for a model of {hidden} hidden values and {vocab} words, and {target} has {own} and "
            "{words}; give a head of this model",
            hidden=of_target,
            vocab=vocab,
            target=target.name,
            own=target.hidden,
            words=target.vocab,
        )
    frame = []
    if not third:
        frame.append(Tensor("draft.fc", (hidden, 2 * hidden), "plain"))
    else:
        own = c.maybe_size("draft_vocab_size", default=None) or vocab
        settings = c.values.get("eagle_config")
        if not (isinstance(settings, dict) and settings.get("use_aux_hidden_state") is False):
            frame.append(Tensor("draft.fc", (hidden, AUXILIARY * of_target), "plain"))
        frame += [Tensor("draft.norm", (hidden,), "vector"), Tensor("draft.head", (own, hidden), "plain", own)]
        if own != vocab:
            frame.append(Tensor("draft.to_target", (own,), "buffer", format="int64"))
    if hidden != target.hidden:
        frame.append(Tensor("draft.embedding", (vocab, hidden), "table", vocab))
    return msgspec.structs.replace(spec, frame=tuple(("draft", one) for one in frame), head_tied=False)


def _medusa(c: Fields, target: ModelSpec) -> ModelSpec:
    """Heads side by side: residual blocks and an output head each; nothing is kept of a sequence."""
    hidden = c.size("hidden_size", default=target.hidden)
    vocab = c.maybe_size("truncated_vocab_size", default=None) or target.vocab
    heads = c.size("num_heads", "medusa_num_heads", default=5, most=64)
    blocks = c.size("num_hidden_layers", "medusa_num_layers", default=1, most=64)
    frame = (
        Tensor("draft.blocks", (hidden, hidden), "plain", copies=heads * blocks),
        Tensor("draft.heads", (vocab, hidden), "plain", vocab, copies=heads),
    )
    return ModelSpec(
        name="",
        architecture="medusa",
        family="medusa",
        vocab=vocab,
        hidden=hidden,
        max_length=target.max_length,
        groups=(),
        precision=Precision(target.precision.dtype),
        dialect="drafts",
        head_tied=False,
        frame=tuple(("draft", one) for one in frame),
    )


class Prediction(msgspec.Struct, frozen=True):
    """The prediction layers that a model drafts with: what stores them, how each is built, what was assumed.

    unquantized: they are taken to be stored so, whatever the model's other weights are in.
    """

    towers: tuple[Tower, ...]
    layers: tuple[Layer, ...]
    unquantized: bool = False
    notes: tuple[Text, ...] = ()


_LIKE_THE_LAST = frozenset(
    (
        *("deepseek_v3", "deepseek_v32", "glm4_moe", "glm4_moe_lite", "glm_moe_dsa", "ernie4_5_moe", "exaone_moe"),
        *("qwen3_next", "qwen3_5", "qwen3_5_moe", "mimo", "hy_v3", "bailing_hybrid", "longcat_flash"),
    )
)
"""Families of which vLLM drafts with prediction layers (its MTPModelTypes, Apache-2.0) built like their last layer of
whole attention. Qwen3-Next: such a layer has 1,650,471,424 parameters, as its file has beyond the others."""


def prediction_of(target: ModelSpec) -> Prediction:
    """The prediction layers of a model's own file, or one as its family has them. Raises BadInput without either."""
    towers = tuple(tower for tower in target.towers if tower.layers)
    if towers:
        return Prediction(towers, tuple(layer for tower in towers for layer in tower.layers))
    whole = [layer for layer in target.each_layer if _attends_to_all(layer)]
    if target.family not in _LIKE_THE_LAST or not whole:
        raise BadInput(
            "no prediction layers of {model} are known: neither its config names any, nor its family ({family}) has "
            "one that narrows knows",
            model=target.name,
            family=target.family,
        )
    layer = whole[-1]
    kept = msgspec.structs.replace(layer, owner=None, borrowed=())
    said = Text(
        "the config of {model} names no prediction layer: one like its last layer of whole attention is assumed, "
        "unquantized",
        model=target.name,
    )
    cut = target.family.startswith("qwen3")
    return Prediction((prediction_layer(target.layers, kept, 0, target.dialect, cut=cut),), (kept,), True, (said,))


def _attends_to_all(layer: Layer) -> bool:
    mixer = layer.mixer
    return isinstance(mixer, Attention | LatentAttention) and mixer.window is None


def unquantized(target: ModelSpec) -> ModelSpec:
    """The model as if nothing of it were quantized, whatever its files say."""
    precision = msgspec.structs.replace(target.precision, scheme=UNQUANTIZED, overrides=overrides([]))
    return msgspec.structs.replace(target, precision=precision, measured=None, stored=None)
