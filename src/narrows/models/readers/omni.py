"""Qwen 2.5-Omni and 3-Omni: a thinker that sees and hears, and (in the whole model) a talker with its vocoder."""

from __future__ import annotations

import msgspec

from narrows.models.fields import Fields
from narrows.models.mixers import Attention
from narrows.models.mixers.base import linear
from narrows.models.readers.audio import with_towers
from narrows.models.readers.build import (
    PRE_NORMS,
    attention,
    dense,
    from_the_top,
    model,
    routed,
    stack,
    text_part,
    windowed,
)
from narrows.models.readers.qwen import experts, sliding_from, window_of
from narrows.models.readers.seq2seq_parts import apart
from narrows.models.readers.sound import Gathered, numbers, qwen3_encoder, renamed, whisper_encoder
from narrows.models.readers.vision import qwen3_vision
from narrows.models.spec import ModelSpec, Tower
from narrows.models.tensors import Tensor

_QUIET = frozenset(
    """
    audio_end_token_id audio_start_token_id audio_token_id audio_token_index initializer_range pad_token_id
    position_id_per_seconds seconds_per_chunk user_token_id video_token_index vision_end_token_id
    vision_start_token_id vision_token_id
    """.split()  # noqa: SIM905
)


def _text(c: Fields) -> Fields:
    text = text_part(c, tied=False)
    text.read |= {"model_type", "mrope_section", "rope_deltas", "shared_expert_intermediate_size"}
    c.read |= _QUIET
    return text


def read_qwen2_5_omni_thinker(c: Fields) -> ModelSpec:
    """The thinker of Qwen 2.5-Omni: Qwen 2.5 beside eyes and ears."""
    text = _text(c)
    layers = text.layers("num_hidden_layers")
    own = attention(text, kv_heads=4, qkv_bias=True)
    groups = stack(windowed(own, window_of(text), sliding_from(text, layers)), [dense(text)] * layers, PRE_NORMS)
    spec = model(text, groups, family="qwen2_5_omni_thinker", dialect="llama/inner")
    heard = c.nested("audio_config")
    ears = whisper_encoder(heard, "model.audio_tower.", known=False, last="ln_post")
    out, width = heard.size("output_dim", default=3584), heard.size("d_model")
    marks = Tensor("sound.marks", (2, out), "table")
    weight, bias = linear("sound.proj", out, width, bias=True)
    more = (
        ("model.audio_tower.audio_bos_eos_token.weight", 1, marks),
        ("model.audio_tower.proj.weight", 1, weight),
        ("model.audio_tower.proj.bias", 1, bias),
    )
    ears = msgspec.structs.replace(ears, tensors=(*ears.tensors, *more))
    return with_towers(spec, ears, _eyes(c.nested("vision_config")))


def _eyes(c: Fields) -> Tower:
    """Qwen 2.5's vision transformer with its merger."""
    hidden, inner = c.size("hidden_size", default=3584), c.size("intermediate_size", default=3420)
    patch, merge = c.size("patch_size", default=14), c.size("spatial_merge_size", default=2, most=64) ** 2
    out = c.size("out_hidden_size", default=3584)
    found = Gathered("model.visual.")
    frames = c.size("temporal_patch_size", default=2)
    found.conv("patch_embed.proj", hidden, c.size("in_channels", default=3), frames, patch, patch, bias=False)
    layer = found.below("blocks.{}.", c.layers("depth", default=32))
    for name in ("norm1", "norm2"):
        layer.norm(name, hidden, bias=False)
    for name in ("q", "k", "v", "proj"):
        layer.linear(f"attn.{name}", hidden, hidden)
    for name in ("gate_proj", "up_proj"):
        layer.linear(f"mlp.{name}", inner, hidden)
    layer.linear("mlp.down_proj", hidden, inner)
    found.norm("merger.ln_q", hidden, bias=False)
    found.linear("merger.mlp.0", hidden * merge, hidden * merge)
    found.linear("merger.mlp.2", out, hidden * merge)
    return Tower("vision tower", tuple(found.found))


def read_qwen3_omni_moe_thinker(c: Fields) -> ModelSpec:
    """The thinker of Qwen 3-Omni: Qwen 3's mixture of experts beside eyes and ears."""
    text = _text(c)
    layers, hidden, heads = text.layers("num_hidden_layers"), text.size("hidden_size"), text.size("num_attention_heads")
    bias = text.flag("attention_bias", False)
    kv = text.maybe_size("num_key_value_heads", default=4) or heads
    text.divide(heads, kv, "num_attention_heads", "num_key_value_heads")
    # a head is hidden ÷ heads wide, rounded down, where the file says nothing
    width = text.maybe_size("head_dim", default=None) or max(hidden // heads, 1)
    own = Attention(
        hidden,
        heads,
        kv,
        width,
        qk_norm=True,
        qkv_bias=bias,
        out_bias=bias,
        window=text.maybe_size("sliding_window", default=None),
    )
    feeds = routed(text, layers, experts(text, 128, 8), dense(text))
    spec = model(text, stack([own] * layers, feeds, PRE_NORMS), family="qwen3_omni_moe_thinker", dialect="llama/inner")
    heard = c.nested("audio_config")
    ears = qwen3_encoder(heard, "model.audio_tower.")
    width, out = heard.size("d_model"), heard.size("output_dim", default=3584)
    joined = Gathered("model.audio_tower.")
    joined.linear("proj1", width, width)
    joined.linear("proj2", out, width)
    ears = msgspec.structs.replace(ears, tensors=(*ears.tensors, *joined.found))
    eyes = qwen3_vision(c.nested("vision_config"), deepstack=True)
    for old, new in (
        ("deepstack_merger_list", "merger_list"),
        ("merger.norm", "merger.ln_q"),
        ("merger_list.{}.norm", "merger_list.{}.ln_q"),
        ("merger.linear_fc1", "merger.mlp.0"),
        ("merger.linear_fc2", "merger.mlp.2"),
        ("merger_list.{}.linear_fc1", "merger_list.{}.mlp.0"),
        ("merger_list.{}.linear_fc2", "merger_list.{}.mlp.2"),
    ):
        eyes = renamed(eyes, old, new)
    return with_towers(spec, ears, eyes)


def read_qwen2_5_omni(c: Fields) -> ModelSpec:
    """Qwen 2.5-Omni: servers of text load the thinker; the talker and its vocoder stand beside it."""
    thinker = c.nested("thinker_config")
    from_the_top(c, thinker)
    spec = read_qwen2_5_omni_thinker(thinker)
    c.read |= {"talker_config", "token2wav_config"}
    seen = tuple(renamed(tower, "model.", "thinker.model.") for tower in spec.towers)
    said: tuple[Tower, ...] = ()
    if c.flag("enable_audio_output", True) and c.flag("enable_talker", True):
        speech = c.nested("token2wav_config")
        wave = _diffusion(speech.nested("dit_config")) + _vocoder(speech.nested("bigvgan_config"))
        said = (_talker(c.nested("talker_config")), Tower("vocoder", tuple(wave), served=False))
    return msgspec.structs.replace(spec, family="qwen2_5_omni", dialect="llama/thinker", towers=(*seen, *said))


def _talker(c: Fields) -> Tower:
    """A decoder like the thinker's that writes sound; its embedding is as wide as the thinker."""
    own = attention(c, kv_heads=4, head_dim=128, qkv_bias=True)
    feed, wide, rows = dense(c), c.size("embedding_size", default=3584), c.size("vocab_size", default=8448)
    out = Gathered("talker.")
    out.linear("thinker_to_talker_proj", own.hidden, wide)
    out.add("model.embed_tokens.weight", Tensor("talker.embedding", (rows, wide), "table"))
    layer = out.below("model.layers.{}.", c.layers("num_hidden_layers"))
    for tensor in (*own.tensors(), *feed.tensors()):
        part, kind, *bias = tensor.role.split(".")
        name = f"{'self_attn' if part == 'attention' else part}.{kind}_proj.{'bias' if bias else 'weight'}"
        layer.add(name, msgspec.structs.replace(tensor, shards=1))
    for name in PRE_NORMS.names:
        layer.norm(name, own.hidden, bias=False)
    out.norm("model.norm", own.hidden, bias=False)
    out.linear("codec_head", rows, own.hidden, bias=False)
    return Tower("talker", tuple(out.found), served=False)


def _diffusion(c: Fields) -> list[tuple[str, int, Tensor]]:
    """The diffusion transformer that turns codes into a spectrogram, and its encoder of a speaker (ECAPA-TDNN)."""
    hidden, inner = c.size("hidden_size", default=1024), c.size("ff_mult", default=2)
    heads, width = c.size("num_attention_heads", default=16), c.size("head_dim", default=64)
    bands, code = c.size("mel_dim", default=80), c.size("emb_dim", default=512)
    voice = c.size("enc_dim", default=128)
    out = Gathered("token2wav.code2wav_dit_model.")
    out.linear("time_embed.time_mlp.0", hidden, 256)
    out.linear("time_embed.time_mlp.2", hidden, hidden)
    rows = c.size("num_embeds", default=8193) + 1
    out.add("text_embed.codec_embed.weight", Tensor("sound.codes", (rows, code), "table"))
    out.linear("input_embed.proj", hidden, bands + voice + c.size("enc_emb_dim", default=192) + code)
    _speaker(c, out.below("input_embed.spk_encoder."), bands, voice)
    layer = out.below("transformer_blocks.{}.", c.layers("num_hidden_layers", default=22))
    layer.linear("attn_norm.linear", 6 * hidden, hidden)
    for name in ("to_q", "to_k", "to_v"):
        layer.linear(f"attn.{name}", heads * width, hidden)
    layer.linear("attn.to_out.0", hidden, heads * width)
    layer.linear("ff.ff.0", hidden * inner, hidden)
    layer.linear("ff.ff.3", hidden, hidden * inner)
    out.linear("norm_out.linear", 2 * hidden, hidden)
    out.linear("proj_out", bands, hidden)
    return out.found


def _speaker(c: Fields, out: Gathered, bands: int, voice: int) -> None:
    """Time-delay layers, three of them with squeeze and excitation, then pooling."""
    widths = numbers(c, "enc_channels", [256, 256, 256, 256, 768])
    kernels = numbers(c, "enc_kernel_sizes", [5, 3, 3, 3, 1])
    scale, squeezed = c.size("enc_res2net_scale", default=2), c.size("enc_se_channels", default=64)
    if len(widths) != len(kernels) or len(widths) < 2:
        raise apart(c, "enc_channels", "enc_kernel_sizes")
    out.conv("blocks.0.conv", widths[0], bands, kernels[0])
    for i in range(1, len(widths) - 1):
        block, before, wide = out.below(f"blocks.{i}."), widths[i - 1], widths[i]
        block.conv("tdnn1.conv", wide, before, 1)
        block.below("res2net_block.blocks.{}.", scale - 1).conv("conv", wide // scale, wide // scale, kernels[i])
        block.conv("tdnn2.conv", wide, wide, 1)
        block.conv("se_block.conv1", squeezed, wide, 1)
        block.conv("se_block.conv2", wide, squeezed, 1)
    last, heeded = widths[-1], c.size("enc_attention_channels", default=64)
    out.conv("mfa.conv", last, last, kernels[-1])
    out.conv("asp.tdnn.conv", heeded, 3 * last, 1)
    out.conv("asp.conv", last, heeded, 1)
    out.conv("fc", voice, 2 * last, 1)


def _vocoder(c: Fields) -> list[tuple[str, int, Tensor]]:
    """BigVGAN: from a spectrogram to a wave, every stage twice as narrow."""
    wide = c.size("upsample_initial_channel", default=1536)
    kernels = numbers(c, "resblock_kernel_sizes", [3, 7, 11])
    stages = numbers(c, "upsample_kernel_sizes", [11, 7, 4, 4, 4, 4])
    dilations = c.raw("resblock_dilation_sizes", default=[[1, 3, 5]] * 3)
    lists = isinstance(dilations, list) and all(isinstance(one, list) and len(one) <= 100 for one in dilations)
    rates = numbers(c, "upsample_rates", [5, 3, 2, 2, 2, 2])
    if not lists or len(dilations) != len(kernels) or len(rates) != len(stages) or len(stages) > 40:
        raise apart(c, "resblock_kernel_sizes", "resblock_dilation_sizes")
    out = Gathered("token2wav.code2wav_bigvgan_model.")
    out.conv("conv_pre", wide, c.size("mel_dim", default=80), 7)
    for i, stage in enumerate(stages):
        narrow = max(wide >> (i + 1), 1)
        # a transposed convolution is stored [in, out, width], and its bias is as wide as what comes out
        out.conv(f"ups.{i}.0", max(wide >> i, 1), narrow, stage, bias=False)
        out.add(f"ups.{i}.0.bias", Tensor("sound.ups.bias", (narrow,), "vector"))
        for j, (kernel, steps) in enumerate(zip(kernels, dilations, strict=True)):
            block = out.below(f"resblocks.{i * len(kernels) + j}.")
            for name in ("convs1.{}", "convs2.{}"):
                block.below(f"{name}.", len(steps)).add(
                    "weight", Tensor("sound.conv", (narrow, narrow, kernel), "plain")
                )
                block.below(f"{name}.", len(steps)).add("bias", Tensor("sound.conv.bias", (narrow,), "vector"))
            for name in ("alpha", "beta"):
                row = Tensor(f"sound.{name}", (narrow,), "vector")
                block.below("activations.{}.act.", 2 * len(steps)).add(name, row)
    last = max(wide >> len(stages), 1)
    for name in ("alpha", "beta"):
        out.add(f"activation_post.act.{name}", Tensor(f"sound.{name}", (last,), "vector"))
    out.conv("conv_post", 1, last, 7, bias=False)
    return out.found
