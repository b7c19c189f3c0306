"""What readers of encoder-decoders share: the encoder as a tower, the frame around the decoder's layers, classes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from narrows.models.dialects import DIALECTS
from narrows.models.fields import Fields
from narrows.models.mixers import Attention, Chain, CrossAttention
from narrows.models.quantization import read_precision
from narrows.models.readers.build import grouped
from narrows.models.spec import Layer, ModelSpec, Tower
from narrows.models.tensors import Tensor
from narrows.text import BadInput

QUIET = frozenset(
    """
    _num_labels add_bias_logits add_final_layer_norm add_router_probs attention_type attention_window
    batch_prioritized_routing block_size dense_act_fn disable_ngram_loss eps expert_capacity extra_pos_embeddings
    feed_forward_proj force_bos_token_to_be_generated is_gated_act langs moe_eval_capacity_token_fraction
    moe_token_dropout normalize_before normalize_embedding normalize_router_prob_before_dropping num_random_blocks
    relative_attention_max_distance relative_max_distance router_dtype router_ignore_padding_tokens
    router_z_loss_coef scale_decoder_outputs second_expert_policy stagger_local_blocks static_position_embeddings
    """.split()  # noqa: SIM905
)
"""Fields of these families that change no size: they say how attention is masked, or how text is generated."""

Rows = Iterable[tuple[str, int, Tensor]]
"""(name in the file, repeats, tensor)"""


def apart(c: Fields, one: str, other: str) -> BadInput:
    """The error of two fields that contradict each other."""
    return BadInput(
        "config fields '{one}' and '{other}' do not go together; take the config.json of the original model",
        one=c.path + one,
        other=c.path + other,
    )


def class_of(c: Fields) -> str:
    """The class that the file names, or nothing."""
    stated = c.raw("architectures")
    return str(stated[0]) if isinstance(stated, list) and stated else ""


def decoder_alone(c: Fields) -> bool:
    """Whether only the decoder of an encoder-decoder is meant: a class for causal language modelling.

    Where the file names no class, `is_encoder_decoder` decides.
    """
    name = class_of(c)
    if name.endswith("EncoderModel"):
        raise BadInput(
            "class {name} is an encoder only, which makes no tokens; give the config of the whole encoder-decoder",
            name=name[:60],
        )
    whole = c.flag("is_encoder_decoder", True)
    return name.endswith("ForCausalLM") or (not name and not whole)


def crossing(
    own: Attention,
    source: int,
    *,
    cross: Attention | None = None,
    merged: bool = False,
    tokens: int | None = None,
    encoded: bool = True,
) -> Chain:
    """Attention to the tokens made so far, then to those of an encoder `source` wide.

    cross: the second one's heads, norms and biases (None: those of the first). merged, tokens: see `CrossAttention`.
    encoded: there is an encoder.
    """
    like = own if cross is None else cross
    seen = CrossAttention(
        like.hidden,
        like.heads,
        like.kv_heads,
        like.head_dim,
        source,
        bias=like.qkv_bias,
        qk_norm=like.qk_norm,
        key_bias=like.key_bias,
        out_bias=like.out_bias,
        merged=merged,
        cached=encoded,
        tokens=tokens,
    )
    return Chain(own.hidden, (own, seen))


def norm(component: str, role: str, width: int, bias: bool) -> list[tuple[str, Tensor]]:
    """A norm outside the layers."""
    found = [(component, Tensor(role, (width,), "vector"))]
    return [*found, (component, Tensor(f"{role}.bias", (width,), "vector"))] if bias else found


def frame(
    vocab: int,
    width: int,
    *,
    tied: bool,
    head: int = 0,
    shared: int = 0,
    positions: int = 0,
    embedding_norm: bool = False,
    final_norm: bool = False,
    bias: bool = True,
    more: Iterable[tuple[str, Tensor]] = (),
) -> tuple[tuple[str, Tensor], ...]:
    """What stands around a decoder's layers. positions: rows of learned positions. bias: norms have biases.
    head: rows of the head (0: as many as of the embedding).

    shared: rows of a third table beside those of encoder and decoder, which the two were once tied to (0: none).
    """
    found = [("embedding", Tensor("embedding", (vocab, width), "table", vocab))]
    if shared:
        found.append(("embedding", Tensor("embedding.shared", (shared, width), "table", shared)))
    if positions:
        found.append(("embedding", Tensor("position_embedding", (positions, width), "table")))
    if embedding_norm:
        found += norm("norms", "embedding_norm", width, bias)
    found += more
    if final_norm:
        found += norm("norms", "final_norm", width, bias)
    if not tied:
        found.append(("head", Tensor("head", (head or vocab, width), "plain", head or vocab)))
    return tuple(found)


def encoder(
    layers: Sequence[Layer],
    dialect: str,
    outer: Iterable[tuple[str, Tensor]] = (),
    more: Rows = (),
    name: str = "encoder",
) -> Tower:
    """Layers of an encoder and what stands around them, with the names of `dialect`; `more`: further tensors."""
    names = DIALECTS[dialect]
    rows = [(names[tensor.role], 1, tensor) for _, tensor in outer]
    for group in grouped(layers):
        rows += [(names[tensor.role], group.repeat, tensor) for tensor in group.layer.tensors()]
    return Tower(name, (*rows, *more), reads=True)


def whole_model(
    c: Fields,
    layers: Sequence[Layer],
    around: tuple[tuple[str, Tensor], ...],
    *,
    family: str,
    dialect: str,
    vocab: int,
    tied: bool,
    max_length: int,
    towers: tuple[Tower, ...],
) -> ModelSpec:
    """The decoder with its frame, and the towers beside it."""
    return ModelSpec(
        name="",
        architecture="",
        family=family,
        vocab=vocab,
        hidden=layers[0].hidden,
        max_length=max_length,
        groups=grouped(layers),
        precision=read_precision(c),
        dialect=dialect,
        head_tied=tied,
        frame=around,
        towers=towers,
    )
