"""Layers for multi-token prediction: stored in the file, not built by transformers, not loaded by most servers."""

from __future__ import annotations

import msgspec

from narrows.models.dialects import DIALECTS
from narrows.models.fields import Fields
from narrows.models.spec import Layer, ModelSpec, Tower
from narrows.models.tensors import Tensor


def with_prediction(c: Fields, spec: ModelSpec, layer: Layer, *, own_vocab: bool = True) -> ModelSpec:
    """The model with as many prediction layers as `num_nextn_predict_layers` says, each built like `layer`.

    own_vocab: each has an embedding and a head of its own.
    """
    predicted = c.maybe_size("num_nextn_predict_layers", "num_mtp_layers", default=0, least=0, most=16) or 0
    towers = tuple(
        prediction_layer(spec.layers + i, layer, spec.vocab if own_vocab else 0, spec.dialect) for i in range(predicted)
    )
    return msgspec.structs.replace(spec, towers=spec.towers + towers) if towers else spec


def prediction_layer(index: int, layer: Layer, vocab: int, dialect: str, *, cut: bool = False) -> Tower:
    """A multi-token prediction layer: a whole decoder layer, its own embedding and head, a projection and norms.

    vocab: 0 where it has neither embedding nor head of its own. cut: tensor-parallel ranks share the projection, as
    of Qwen3-Next; of the others each has it whole (vLLM's eh_proj is a plain nn.Linear, Apache-2.0).
    Sources: DeepSeek-V3's published weight layout (61 layers + 1 MTP of 14 B with embedding and head); GLM-5.3's
    published total, which is without them.
    """
    hidden, names = layer.hidden, DIALECTS[dialect]
    inside = [(names[t.role].replace("{}", str(index), 1), 1, t) for t in layer.tensors()]
    own = [
        ("enorm.weight", Tensor("mtp.norm", (hidden,), "vector")),
        ("hnorm.weight", Tensor("mtp.norm", (hidden,), "vector")),
        ("eh_proj.weight", Tensor("mtp.projection", (hidden, 2 * hidden), "plain", hidden if cut else 1)),
        ("shared_head.norm.weight", Tensor("mtp.norm", (hidden,), "vector")),
    ]
    if vocab:
        own.append(("embed_tokens.weight", Tensor("mtp.embedding", (vocab, hidden), "table", vocab)))
        own.append(("shared_head.head.weight", Tensor("mtp.head", (vocab, hidden), "plain", vocab)))
    return Tower(
        "MTP layer",
        tuple(inside) + tuple((f"model.layers.{index}.{name}", 1, tensor) for name, tensor in own),
        served=False,
        unique=False,
        layers=(layer,),
    )


def block_prediction(c: Fields, spec: ModelSpec, layer: Layer) -> ModelSpec:
    """The model with its prediction layers as ERNIE 4.5 stores them: a dense layer, a projection and two norms.

    Source: the published total of ERNIE-4.5-21B-A3B, which is the model and one of them.
    """
    predicted = c.maybe_size("num_nextn_predict_layers", default=0, least=0, most=16) or 0
    hidden, names = layer.hidden, DIALECTS[spec.dialect]
    towers = []
    for index in range(predicted):
        block = f"model.mtp_block.{index}."
        inside = [(names[t.role].replace("model.layers.{}.", block, 1), 1, t) for t in layer.tensors()]
        own = [
            (f"model.mtp_emb_norm.{index}.weight", 1, Tensor("mtp.norm", (hidden,), "vector")),
            (f"model.mtp_hidden_norm.{index}.weight", 1, Tensor("mtp.norm", (hidden,), "vector")),
            (f"model.mtp_linear_proj.{index}.weight", 1, Tensor("mtp.projection", (hidden, 2 * hidden), "plain")),
        ]
        towers.append(Tower("MTP layer", (*inside, *own), served=False, unique=False))
    return msgspec.structs.replace(spec, towers=spec.towers + tuple(towers)) if towers else spec
