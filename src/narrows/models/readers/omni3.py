"""The whole Qwen 3-Omni: beside the thinker a talker that predicts codes, and a vocoder that plays them."""

from __future__ import annotations

import msgspec

from narrows.models.fields import Fields
from narrows.models.mixers import Attention
from narrows.models.readers.build import PRE_NORMS, attention, dense, from_the_top
from narrows.models.readers.omni import read_qwen3_omni_moe_thinker
from narrows.models.readers.qwen import experts
from narrows.models.readers.seq2seq_parts import apart
from narrows.models.readers.sound import Gathered, numbers, renamed
from narrows.models.spec import ModelSpec, Tower
from narrows.models.tensors import Tensor


def read_qwen3_omni_moe(c: Fields) -> ModelSpec:
    """Qwen 3-Omni: servers of text load the thinker."""
    thinker = c.nested("thinker_config")
    from_the_top(c, thinker)
    spec = read_qwen3_omni_moe_thinker(thinker)
    c.read |= {key for key in c.values if key.endswith(("_token_id", "_audio_output"))}
    c.read |= {"talker_config", "code2wav_config"}
    towers = tuple(renamed(tower, "model.", "thinker.model.") for tower in spec.towers)
    if c.flag("enable_audio_output", True):
        towers += _talker(c.nested("talker_config")), _vocoder(c.nested("code2wav_config"))
    return msgspec.structs.replace(spec, family="qwen3_omni_moe", dialect="llama/thinker", towers=towers)


def _layers(c: Fields, out: Gathered, own: Attention, feed: list[Tensor], name: str = "layers.{}.") -> None:
    """Layers of a decoder as they stand in the file, whole."""
    layer = out.below(name, c.layers("num_hidden_layers"))
    for tensor in (*own.tensors(), *feed):
        part, _, rest = tensor.role.partition(".")
        rest, *bias = rest.split(".")
        where = {"attention": "self_attn.", "mlp": "mlp.", "experts": "mlp.experts.{}.", "shared": "mlp.shared_expert."}
        if part in ("router", "shared_gate"):
            full = f"mlp.{'gate' if part == 'router' else 'shared_expert_gate'}.weight"
        else:
            full = f"{where[part]}{rest}{'' if rest.endswith('norm') else '_proj'}.{'bias' if bias else 'weight'}"
        layer.add(
            full, msgspec.structs.replace(tensor, shards=1, use="plain" if tensor.use == "linear" else tensor.use)
        )
    for norm in PRE_NORMS.names:
        layer.norm(norm, own.hidden, bias=False)
    out.norm("norm", own.hidden, bias=False)


def _decoder(c: Fields, kv: int, head: int | None) -> Attention:
    bias = c.flag("attention_bias", False)
    return attention(c, kv_heads=kv, head_dim=head, qk_norm=True, qkv_bias=bias, out_bias=bias)


def _talker(c: Fields) -> Tower:
    """A mixture of experts for the first code of a frame, and a small decoder for the others."""
    text, codes = c.nested("text_config"), c.nested("code_predictor_config")
    own, thought = _decoder(text, 2, None), c.size("thinker_hidden_size", default=2048)
    out = Gathered("talker.")
    sparse = experts(text, 128, 8, text.size("shared_expert_intermediate_size"))
    _layers(text, out.below("model."), own, sparse.tensors())
    rows, inner = text.size("vocab_size", default=3072), text.size("intermediate_size")
    out.add("model.codec_embedding.weight", Tensor("talker.embedding", (rows, own.hidden), "table"))
    for name in ("text_projection", "hidden_projection"):
        out.conv(f"{name}.linear_fc1", inner, thought)
        out.conv(f"{name}.linear_fc2", own.hidden, inner)
    out.conv("codec_head", rows, own.hidden, bias=False)
    small = _decoder(codes, 8, 128)
    predictor = out.below("code_predictor.")
    _layers(codes, predictor.below("model."), small, dense(codes).tensors())
    others, known = codes.size("num_code_groups", default=32) - 1, codes.size("vocab_size", default=2048)
    for name in ("model.codec_embedding", "lm_head"):
        table = Tensor("talker.codes", (known, small.hidden), "table")
        predictor.below(f"{name}.{{}}.", others).add("weight", table)
    return Tower("talker", tuple(out.found), served=False)


def _vocoder(c: Fields) -> Tower:
    """From codes to a wave: a transformer, two steps that lengthen it, and convolutions with learned sines."""
    hidden, wide = c.size("hidden_size", default=1024), c.size("decoder_dim", default=1536)
    stretched, rates = numbers(c, "upsampling_ratios", [2, 2]), numbers(c, "upsample_rates", [8, 5, 4, 3])
    if len(rates) > 20:
        raise apart(c, "upsample_rates", "decoder_dim")
    own = attention(c, kv_heads=16, qkv_bias=c.flag("attention_bias", False), out_bias=c.flag("attention_bias", False))
    out = Gathered("code2wav.")
    inside = out.below("pre_transformer.")
    _layers(c, inside, own, dense(c).tensors())
    for name in ("self_attn_layer_scale", "mlp_layer_scale"):
        scale = Tensor("sound.scale", (hidden,), "vector")
        inside.below("layers.{}.", c.layers("num_hidden_layers")).add(f"{name}.scale", scale)
    rows = c.size("codebook_size", default=2048) * c.size("num_quantizers", default=16)
    out.add("code_embedding.weight", Tensor("sound.codes", (rows, hidden), "table"))
    for i, ratio in enumerate(stretched):
        step = out.below(f"upsample.{i}.")
        step.conv("0.conv", hidden, hidden, ratio)
        step.add("1.gamma", Tensor("sound.gamma", (hidden,), "vector"))
        step.conv("1.dwconv.conv", hidden, 1, 7)
        step.norm("1.norm", hidden)
        step.conv("1.pwconv1", 4 * hidden, hidden)
        step.conv("1.pwconv2", hidden, 4 * hidden)
    out.conv("decoder.0.conv", wide, hidden, 7)
    for i, rate in enumerate(rates, 1):
        before, after = max(wide >> (i - 1), 1), max(wide >> i, 1)
        block = out.below(f"decoder.{i}.block.")
        _sine(block, "0.", before)
        # a transposed convolution is stored [in, out, width], and its bias is as wide as what comes out
        block.conv("1.conv", before, after, 2 * rate, bias=False)
        block.add("1.conv.bias", Tensor("sound.ups.bias", (after,), "vector"))
        for j in range(3):
            for part, kernel in (("1", 7), ("2", 1)):
                _sine(block, f"{j + 2}.act{part}.", after)
                block.conv(f"{j + 2}.conv{part}.conv", after, after, kernel)
    last = max(wide >> len(rates), 1)
    _sine(out, f"decoder.{len(rates) + 1}.", last)
    out.conv(f"decoder.{len(rates) + 2}.conv", 1, last, 7)
    return Tower("vocoder", tuple(out.found), served=False)


def _sine(out: Gathered, name: str, width: int) -> None:
    for part in ("alpha", "beta"):
        out.add(name + part, Tensor(f"sound.{part}", (width,), "vector"))
