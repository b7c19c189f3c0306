"""Encoder-decoders that read documents: UDOP, PP-FormulaNet, and a vision transformer before a decoder of text."""

from __future__ import annotations

import msgspec

from narrows.models.fields import Fields
from narrows.models.readers.seq2seq import Sides, attention_of, decoder_layers
from narrows.models.readers.seq2seq_parts import QUIET, crossing, frame, whole_model
from narrows.models.readers.sound import Gathered
from narrows.models.readers.t5 import build, is_gated
from narrows.models.readers.towers.parts import Parts
from narrows.models.readers.towers.sam import sam
from narrows.models.readers.two_halves import half_of, together
from narrows.models.spec import ModelSpec, Tower
from narrows.models.tensors import Tensor
from narrows.text import BadInput


def read_udop(c: Fields) -> ModelSpec:
    """UDOP: a T5 that also reads where words stand and how the page looks; all of it is tied, or nothing."""
    gated = is_gated(c, "t5")
    spec = build(c, "udop", "t5_gated" if gated else "t5", gated=gated, untie_all=True)
    hidden, heads = spec.hidden, c.size("num_heads")
    patch, channels = c.size("patch_size", default=16), c.size("num_channels", default=3)
    places = c.size("max_2d_position_embeddings", default=1024)
    biases = c.raw("relative_bias_args")
    biases = [{"type": "1d"}, {"type": "horizontal"}, {"type": "vertical"}] if biases is None else biases
    if not isinstance(biases, list) or len(biases) > 100 or not all(isinstance(one, dict) for one in biases):
        raise BadInput("config field '{field}' must be a list of objects", field=c.path + "relative_bias_args")
    c.read |= {"image_size", "add_cross_attention"}
    out = Gathered("")
    tied = spec.head_tied
    for name in ("patch_embed", "decoder.embed_patches", *(() if tied else ("encoder.embed_patches",))):
        out.conv(f"{name}.proj", hidden, channels, patch, patch)
    for axis in "xy":
        table = Tensor("layout.places", (places, hidden), "table")
        out.add(f"encoder.cell_2d_embedding.{axis}_position_embeddings.weight", table)
    for side in ("encoder", "decoder"):
        for i, one in enumerate(biases):
            if i == 0 and tied:
                continue  # the table of the encoder's first layer
            rows = Fields(one, f"{c.path}relative_bias_args.").size("relative_attention_num_buckets", default=32)
            table = Tensor("attention.relative", (rows, heads), "table", heads)
            out.add(f"{side}.relative_bias.biases.{i}.relative_attention_bias.weight", table)
    return msgspec.structs.replace(spec, towers=(*spec.towers, Tower("layout", tuple(out.found), reads=True)))


def read_pp_formulanet(c: Fields) -> ModelSpec:
    """PP-FormulaNet: a window transformer that sees, and BART's decoder that writes; its head is never tied."""
    text, seen = c.nested("text_config"), c.nested("vision_config")
    text.read |= QUIET
    hidden, vocab = text.size("d_model"), text.size("vocab_size")
    longest = text.size("max_position_embeddings")
    sides = Sides(offset=2, embedding_norm=True, final_norm=True)
    own = attention_of(text, sides, "decoder")
    c.read |= {"tie_word_embeddings"}
    text.read |= {"encoder_layers", "encoder_attention_heads", "encoder_ffn_dim", "tie_word_embeddings"}
    text.read |= {"dtype", "torch_dtype"}
    return whole_model(
        c,
        decoder_layers(text, sides, crossing(own, hidden)),
        frame(vocab, hidden, tied=False, positions=longest + 2, embedding_norm=True, final_norm=True),
        family="pp_formulanet",
        dialect="bart.decoder",
        vocab=vocab,
        tied=False,
        max_length=longest,
        towers=_windowed(seen),
    )


def _windowed(c: Fields) -> tuple[Tower, Tower]:
    """Segment Anything's transformer, and the convolutions and layers between it and the decoder."""
    c.values = {"image_size": 512, **c.values}
    body = sam(c, "model.encoder.")
    first, middle = c.size("post_conv_in_channels", default=256), c.size("post_conv_mid_channels", default=512)
    last, text = c.size("post_conv_out_channels", default=1024), c.size("decoder_hidden_size", default=512)
    parts = Parts("model.encoder.multi_modal_projector.")
    parts.add("conv1", middle, first, 3, 3)
    parts.add("conv2", last, middle, 3, 3)
    parts.mlp("", last, last, text, names=("linear_1", "linear_2"))
    return body.parts.tower(), parts.tower("projector")


def read_vision_encoder_decoder(c: Fields) -> ModelSpec:
    """ViT or DeiT, and a decoder of BERT's family."""
    half, kind = half_of(c, "encoder", ("vit", "deit"))
    hidden, inner = half.size("hidden_size", default=768), half.size("intermediate_size", default=3072)
    patch, layers = half.size("patch_size", default=16), half.layers("num_hidden_layers", default=12)
    side = half.size("image_size", default=224) // patch
    out = Gathered("encoder.")
    marks = ("cls_token", "distillation_token") if kind == "deit" else ("cls_token",)
    for name in marks:
        out.add(f"embeddings.{name}", Tensor("vision.mark", (1, 1, hidden), "vector"))
    places = Tensor("vision.positions", (1, side * side + len(marks), hidden), "vector")
    out.add("embeddings.position_embeddings", places)
    channels = half.size("num_channels", default=3)
    out.conv("embeddings.patch_embeddings.projection", hidden, channels, patch, patch)
    layer, bias = out.below("layers.{}.", layers), half.flag("qkv_bias", True)
    for name in "qkv":
        layer.conv(f"attention.{name}_proj", hidden, hidden, bias=bias)
    layer.conv("attention.o_proj", hidden, hidden)
    layer.conv("mlp.fc1", inner, hidden)
    layer.conv("mlp.fc2", hidden, inner)
    for name in ("layernorm_before", "layernorm_after"):
        layer.norm(name, hidden)
    out.norm("layernorm", hidden)
    pooled = half.maybe_size("pooler_output_size", default=None) or hidden
    out.conv("pooler.dense", pooled, hidden)
    return together(c, "vision-encoder-decoder", Tower("vision tower", tuple(out.found)), hidden)
