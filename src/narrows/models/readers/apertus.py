"""Apertus 1.5: pictures and sounds become tokens of the decoder's own vocabulary, by two encoders beside it."""

from __future__ import annotations

from narrows.models.fields import Fields
from narrows.models.readers.families import Family
from narrows.models.readers.janus import middle, stage
from narrows.models.readers.multimodal import text_of
from narrows.models.readers.several import together
from narrows.models.readers.towers.parts import Parts, whole_numbers
from narrows.models.spec import ModelSpec
from narrows.text import BadInput


def read_apertus1p5(c: Fields) -> ModelSpec:
    """The decoder, and the encoders of both tokenizers."""
    family = Family(text="apertus1p5_text", names="model.language_model")
    text = text_of(c, family)
    seen, heard = _picture(c.nested("vision_config")), _sound(c.nested("audio_config"))
    c.read |= {"audio_config", "image_token_offset", "audio_token_offset"}
    return together(c, family, text, "apertus1p5", [seen.tower(), heard.tower("audio tower")])


def _picture(v: Fields) -> Parts:
    """Stages of residual blocks down to the codes; attention where a stage works at one of some resolutions."""
    base, latent = v.size("base_channels", default=256), v.size("latent_channels", default=256)
    multipliers = whole_numbers(v, "channel_multiplier", default=[1, 1, 2, 2, 4], most=2**20)
    attending = v.indices("attn_resolutions") if v.raw("attn_resolutions") is not None else frozenset((16,))
    side, blocks = v.size("resolution", default=256), v.layers("num_res_blocks", default=4)
    parts, width = Parts("model.vision_tokenizer."), base
    parts.add("encoder.conv_in", base, v.size("in_channels", default=3, most=4096), 3, 3, bias=True)
    for level, multiplier in enumerate(multipliers):
        stem = f"encoder.stages.{level}."
        width = stage(parts, stem, width, base * multiplier, blocks, side // 2**level in attending)
        if level < len(multipliers) - 1:
            parts.add(stem + "downsample.conv", width, width, 3, 3, bias=True)
    middle(parts, "encoder.", width)
    parts.add("encoder.norm_out", width, bias=True)
    parts.add("encoder.conv_out", latent, width, 3, 3, bias=True)
    codes = v.size("embed_dim", default=256)
    parts.add("quantize.embedding", v.size("codebook_size", default=131072), codes)
    parts.add("quant_conv", codes, latent, 1, 1, bias=True)
    return parts


class _Convolutions:
    """Convolutions over time whose weight is a direction and a length, or that a norm follows."""

    def __init__(self, a: Fields) -> None:
        self.parts = Parts("model.audio_tokenizer.encoder.")
        self.lengths = a.choice("norm_type", ("weight_norm", "time_group_norm"), "weight_norm") == "weight_norm"

    def add(self, name: str, out: int, inner: int, kernel: int, repeats: int = 1) -> None:
        """One, with its bias."""
        parts = self.parts
        if self.lengths:
            parts.parameter(f"{name}.conv.parametrizations.weight.original0", out, 1, 1, repeats=repeats)
            parts.parameter(f"{name}.conv.parametrizations.weight.original1", out, inner, kernel, repeats=repeats)
            parts.parameter(f"{name}.conv.bias", out, repeats=repeats)
        else:
            parts.add(f"{name}.conv", out, inner, kernel, repeats=repeats, bias=True)
            parts.add(f"{name}.norm", out, repeats=repeats, bias=True)


def _sound(a: Fields) -> Parts:
    """Residual blocks and convolutions that each make time shorter and the width twice as large; then an LSTM."""
    made, width = _Convolutions(a), a.size("num_filters", default=32)
    kernel, narrow = a.size("residual_kernel_size", default=3, most=4096), a.size("compress", default=2)
    blocks, index = a.size("num_residual_layers", default=1, least=0, most=10_000), 1
    made.add(
        "layers.0", width, a.size("audio_channels", default=1, most=4096), a.size("kernel_size", default=7, most=4096)
    )
    for ratio in reversed(whole_numbers(a, "upsampling_ratios", default=[6, 5, 5, 4], most=2**20)):
        inner = width // narrow
        if blocks and not inner:
            raise BadInput(
                "config field '{field}' is smaller than a patch; the file contradicts itself", field="compress"
            )
        made.add("layers.{}.block.1", inner, width, kernel, blocks)
        made.add("layers.{}.block.3", width, inner, 1, blocks)
        if a.flag("use_conv_shortcut", True):
            made.add("layers.{}.shortcut", width, width, 1, blocks)
        index += blocks + 2
        made.add(f"layers.{index - 1}", 2 * width, width, 2 * ratio)
        width *= 2
    for layer in range(a.size("num_lstm_layers", default=2, most=1000)):
        for way in ("ih", "hh"):
            made.parts.parameter(f"layers.{index}.lstm.weight_{way}_l{layer}", 4 * width, width)
            made.parts.parameter(f"layers.{index}.lstm.bias_{way}_l{layer}", 4 * width)
    made.add(
        f"layers.{index + 2}",
        a.size("hidden_size", default=512),
        width,
        a.size("last_kernel_size", default=7, most=4096),
    )
    return made.parts
