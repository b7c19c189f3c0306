"""Decoders that hear: an encoder of sound and a projector beside a decoder of any family that is read."""

from __future__ import annotations

from typing import Any

import msgspec

from narrows.models.dialects import INNER
from narrows.models.fields import Fields
from narrows.models.mixers.base import linear
from narrows.models.readers import reader_of
from narrows.models.readers.audio_towers import (
    fun_encoder,
    fun_projector,
    glm_encoder,
    granite_encoder,
    projector,
    query_projector,
    realtime_encoder,
    tokenizer,
    wave_tower,
)
from narrows.models.readers.build import PRE_NORMS, attention, dense, model, stack, text_part
from narrows.models.readers.seq2seq_parts import apart
from narrows.models.readers.sound import Gathered, kept_whole, qwen3_encoder, whisper_encoder
from narrows.models.spec import ModelSpec, Tower
from narrows.text import BadInput

_INNER = "model.multi_modal_projector."


def beside(c: Fields, family: str, *, tied: bool, usual: str) -> ModelSpec:
    """The decoder of a config, as its `text_config` says. tied: the default at the top; usual: its `model_type`."""
    text = text_part(c, tied=tied)
    text.values = {**_TEXTS.get(family, {}), **text.values}
    kind = text.raw("model_type", default=usual)
    # a config with a text part of its own is no decoder, and could hold another, and so on
    reader = reader_of(kind) if isinstance(kind, str) and not text.has("text_config") else None
    spec = None if reader is None else reader(text)
    if spec is None or spec.frame or any(tower.served for tower in spec.towers):
        raise BadInput(
            "'text_config.model_type' is {value}, which narrows does not read as the decoder of a {family} model",
            value=str(kind)[:60],
            family=family,
        )
    text.read.add("model_type")
    c.read |= _QUIET
    inner = f"{spec.dialect}/inner" if spec.dialect in INNER else spec.dialect
    return msgspec.structs.replace(spec, family=family, dialect=inner)


def with_towers(spec: ModelSpec, *towers: Tower) -> ModelSpec:
    """The decoder with what stands beside it, kept whole."""
    whole = (kept_whole(tower, _NAMES.get(tower.name, tower.name)) for tower in towers)
    return msgspec.structs.replace(spec, towers=(*spec.towers, *whole))


_TEXTS: dict[str, dict[str, int]] = {
    "voxtral": {
        "vocab_size": 131072,
        "hidden_size": 3072,
        "intermediate_size": 8192,
        "num_hidden_layers": 30,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "max_position_embeddings": 131072,
        "head_dim": 128,
    },
    "voxtral_realtime": {
        "vocab_size": 131072,
        "hidden_size": 3072,
        "intermediate_size": 9216,
        "num_hidden_layers": 26,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "max_position_embeddings": 131072,
        "head_dim": 128,
    },
    "glmasr": {
        "vocab_size": 59264,
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 4,
        "max_position_embeddings": 8192,
    },
}
"""Architectures that have numbers of their own for what their `text_config` leaves out."""
_NAMES = {"encoder": "audio encoder"}
_QUIET = frozenset(
    """
    audio_token_id audio_token_index audio_bos_token_id audio_eos_token_id audio_frame_step audio_length_per_tok
    audio_end_token_id audio_start_token_id default_num_delay_tokens has_lora_adapter head_dim hidden_size
    max_position_embeddings position_id_per_seconds seconds_per_chunk timestamp_token_id token_classification_bias
    user_token_id vocab_size acoustic_tokenizer_chunk_size rope_parameters initializer_range support_language
    video_token_index
    """.split()  # noqa: SIM905
)


def _as_whisper(c: Fields) -> Fields:
    """A config that has Whisper's numbers under the names of decoders."""
    for old, new in (
        ("hidden_size", "d_model"),
        ("num_hidden_layers", "encoder_layers"),
        ("num_attention_heads", "encoder_attention_heads"),
        ("intermediate_size", "encoder_ffn_dim"),
    ):
        if not c.has(new) and c.has(old):
            c.values = {**c.values, new: c.raw(old)}
    return c


def read_qwen2_audio(c: Fields) -> ModelSpec:
    """Qwen2-Audio: Whisper's encoder and one linear layer."""
    spec, heard = beside(c, "qwen2_audio", tied=False, usual="qwen2"), c.nested("audio_config")
    tower = whisper_encoder(heard, "model.audio_tower.")
    return with_towers(spec, tower, projector(_INNER, ("linear", spec.hidden, heard.size("d_model"))))


def read_voxtral(c: Fields) -> ModelSpec:
    """Voxtral: Whisper's encoder, four of whose tokens become one."""
    spec, heard = beside(c, "voxtral", tied=False, usual="llama"), _as_whisper(c.nested("audio_config"))
    layers = ("linear_1", spec.hidden, heard.size("encoder_ffn_dim")), ("linear_2", spec.hidden, spec.hidden)
    return with_towers(spec, whisper_encoder(heard, "model.audio_tower."), projector(_INNER, *layers, bias=False))


def _flamingo(c: Fields, family: str) -> ModelSpec:
    spec, heard = beside(c, family, tied=False, usual="qwen2"), _as_whisper(c.nested("audio_config"))
    layers = ("linear_1", spec.hidden, heard.size("d_model")), ("linear_2", spec.hidden, spec.hidden)
    bias = c.flag("projector_bias", True)
    return with_towers(spec, whisper_encoder(heard, "model.audio_tower."), projector(_INNER, *layers, bias=bias))


def read_audioflamingo3(c: Fields) -> ModelSpec:
    """Audio Flamingo 3."""
    return _flamingo(c, "audioflamingo3")


def read_musicflamingo(c: Fields) -> ModelSpec:
    """Music Flamingo: rotary positions in time beside Audio Flamingo's."""
    return _flamingo(c, "musicflamingo")


def read_glmasr(c: Fields) -> ModelSpec:
    """GLM-ASR."""
    spec, heard = beside(c, "glmasr", tied=True, usual="llama"), c.nested("audio_config")
    wide = 2 * spec.hidden
    inner = heard.size("intermediate_size", default=5120)
    layers = ("linear_1", wide, inner), ("linear_2", spec.hidden, wide)
    return with_towers(spec, glm_encoder(heard), projector(_INNER, *layers))


def read_qwen3_asr(c: Fields) -> ModelSpec:
    """Qwen3-ASR."""
    spec, heard = beside(c, "qwen3_asr", tied=True, usual="qwen3"), c.nested("audio_config")
    width = heard.size("d_model")
    layers = ("linear_1", width, width), ("linear_2", heard.size("output_dim", default=3584), width)
    return with_towers(spec, qwen3_encoder(heard, "model.audio_tower."), projector(_INNER, *layers))


def _granite(c: Fields, family: str) -> ModelSpec:
    """A conformer, and a query transformer over windows of what it heard. Adapters are files of their own."""
    spec = beside(c, family, tied=True, usual="granite")
    queries = c.size("window_size", default=15) // c.size("downsample_rate", default=5)
    if not queries:
        raise apart(c, "downsample_rate", "window_size")
    tower = granite_encoder(c.nested("encoder_config"))
    return with_towers(spec, tower, query_projector(c.nested("projector_config"), spec.hidden, queries))


def read_granite_speech(c: Fields) -> ModelSpec:
    """Granite Speech."""
    return _granite(c, "granite_speech")


def read_granite_speech_plus(c: Fields) -> ModelSpec:
    """Granite Speech Plus: the projector can see several layers of the encoder."""
    return _granite(c, "granite_speech_plus")


def read_fun_asr_nano(c: Fields) -> ModelSpec:
    """Fun-ASR Nano."""
    spec, heard = beside(c, "fun_asr_nano", tied=True, usual="qwen3"), c.nested("audio_config")
    width = heard.size("hidden_size", default=512)
    return with_towers(spec, fun_encoder(heard), fun_projector(c.nested("adaptor_config"), width))


def read_omniasr(c: Fields) -> ModelSpec:
    """OmniASR: wav2vec 2.0 and one linear layer."""
    spec, heard = beside(c, "omniasr", tied=False, usual="llama"), c.nested("audio_config")
    width = heard.size("hidden_size", default=1024)
    layer = projector("model.", ("multi_modal_projector", spec.hidden, width))
    return with_towers(spec, wave_tower(heard), layer)


def read_vibevoice_asr(c: Fields) -> ModelSpec:
    """VibeVoice-ASR: two tokenizers of sound."""
    spec = beside(c, "vibevoice_asr", tied=False, usual="qwen2")
    towers, layers = [], []
    for kind in ("acoustic", "semantic"):
        part = c.nested(f"{kind}_tokenizer_encoder_config")
        towers += tokenizer(part, f"model.{kind}_tokenizer_encoder.")
        layers += [(kind, part.size("hidden_size", default=64))]
    joined = _normed_projector(spec.hidden, layers)
    return with_towers(spec, Tower("audio encoder", tuple(towers)), joined)


def _normed_projector(hidden: int, parts: list[tuple[str, int]]) -> Tower:
    """Two linear layers with a norm between them, for each part."""
    out = Gathered(_INNER)
    for kind, width in parts:
        out.linear(f"{kind}_linear_1", hidden, width)
        out.norm(f"{kind}_norm", hidden, bias=False)
        out.linear(f"{kind}_linear_2", hidden, hidden)
    return Tower("projector", tuple(out.found))


def read_voxtral_realtime_text(c: Fields) -> ModelSpec:
    """The decoder of Voxtral Realtime: Mistral with a window, and norms that are told the delay."""
    layers = c.layers("num_hidden_layers")
    window = c.maybe_size("sliding_window", default=4096)
    mixer: Any = attention(c, kv_heads=8, window=window)
    return model(c, stack([mixer] * layers, [dense(c)] * layers, PRE_NORMS), family="voxtral_realtime_text")


def read_voxtral_realtime(c: Fields) -> ModelSpec:
    """Voxtral Realtime: sound and text advance together."""
    text, heard = text_part(c, tied=True), c.nested("audio_config")
    text.values = {**_TEXTS["voxtral_realtime"], **text.values}
    text.read.add("model_type")
    spec = msgspec.structs.replace(read_voxtral_realtime_text(text), family="voxtral_realtime", dialect="llama/inner")
    c.read |= _QUIET
    told = []
    for name, out, inner in (("linear1", 32, spec.hidden), ("linear2", spec.hidden, 32)):
        pattern = f"model.language_model.layers.{{}}.ada_rms_norm.{name}.weight"
        told.append((pattern, spec.layers, linear("delay", out, inner)[0]))
    width = heard.size("hidden_size", default=1280) * c.size("downsample_factor", default=4)
    layers = ("linear_1", spec.hidden, width), ("linear_2", spec.hidden, spec.hidden)
    towers = realtime_encoder(heard), projector(_INNER, *layers, bias=False), Tower("delay", tuple(told))
    return with_towers(spec, *towers)
