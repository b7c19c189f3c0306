"""Encoder-decoders, encoders and models that hear: what they count, cache, share out, and refuse."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from narrows.deployment import deploy
from narrows.hardware import find_accelerator
from narrows.memory.paging import paging
from narrows.memory.shard import shards
from narrows.models import ModelSpec, read_config
from narrows.text import BadInput

from .conftest import DATA, Cli

BART: dict[str, Any] = {
    "model_type": "bart",
    "architectures": ["BartForConditionalGeneration"],
    "is_encoder_decoder": True,
    "vocab_size": 50264,
    "d_model": 1024,
    "encoder_layers": 12,
    "decoder_layers": 12,
    "encoder_attention_heads": 16,
    "decoder_attention_heads": 16,
    "encoder_ffn_dim": 4096,
    "decoder_ffn_dim": 4096,
    "max_position_embeddings": 1024,
}
T5: dict[str, Any] = {
    "model_type": "t5",
    "architectures": ["T5ForConditionalGeneration"],
    "is_encoder_decoder": True,
    "vocab_size": 32128,
    "d_model": 768,
    "d_kv": 64,
    "d_ff": 3072,
    "num_layers": 12,
    "num_decoder_layers": 12,
    "num_heads": 12,
    "n_positions": 512,
}
WHISPER: dict[str, Any] = {
    "model_type": "whisper",
    "architectures": ["WhisperForConditionalGeneration"],
    "is_encoder_decoder": True,
    "vocab_size": 51866,
    "num_mel_bins": 128,
    "d_model": 1280,
    "encoder_layers": 32,
    "decoder_layers": 32,
    "encoder_attention_heads": 20,
    "decoder_attention_heads": 20,
    "encoder_ffn_dim": 5120,
    "decoder_ffn_dim": 5120,
    "max_source_positions": 1500,
    "max_target_positions": 448,
    "torch_dtype": "float16",
}
ROBERTA: dict[str, Any] = {
    "model_type": "roberta",
    "architectures": ["RobertaForMaskedLM"],
    "vocab_size": 50265,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 514,
    "type_vocab_size": 1,
}
QWEN2_AUDIO: dict[str, Any] = {
    "model_type": "qwen2_audio",
    "architectures": ["Qwen2AudioForConditionalGeneration"],
    "audio_config": {
        "model_type": "qwen2_audio_encoder",
        "d_model": 1280,
        "encoder_layers": 32,
        "encoder_attention_heads": 20,
        "encoder_ffn_dim": 5120,
        "num_mel_bins": 128,
        "max_source_positions": 1500,
    },
    "text_config": {
        "model_type": "qwen2",
        "vocab_size": 156032,
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
    },
}
OMNI: dict[str, Any] = {
    "model_type": "qwen2_5_omni",
    "thinker_config": {
        "model_type": "qwen2_5_omni_thinker",
        "audio_config": {
            "d_model": 1280,
            "encoder_layers": 32,
            "encoder_attention_heads": 20,
            "encoder_ffn_dim": 5120,
            "output_dim": 3584,
        },
        "vision_config": {"depth": 32, "hidden_size": 1280, "out_hidden_size": 3584},
        "text_config": {
            "vocab_size": 152064,
            "hidden_size": 3584,
            "intermediate_size": 18944,
            "num_hidden_layers": 28,
            "num_attention_heads": 28,
            "num_key_value_heads": 4,
        },
    },
    "talker_config": {
        "vocab_size": 8448,
        "embedding_size": 3584,
        "hidden_size": 896,
        "intermediate_size": 18944,
        "num_hidden_layers": 24,
        "num_attention_heads": 12,
        "num_key_value_heads": 4,
        "head_dim": 128,
    },
    "token2wav_config": {"dit_config": {}, "bigvgan_config": {}},
}
OMNI3: dict[str, Any] = {
    "model_type": "qwen3_omni_moe",
    "thinker_config": {
        "model_type": "qwen3_omni_moe_thinker",
        "audio_config": {**OMNI["thinker_config"]["audio_config"], "output_dim": 2048},
        "vision_config": {"out_hidden_size": 2048},
        "text_config": {
            "vocab_size": 152064,
            "hidden_size": 2048,
            "intermediate_size": 768,
            "moe_intermediate_size": 768,
            "num_hidden_layers": 48,
            "num_attention_heads": 32,
            "num_key_value_heads": 4,
            "head_dim": 128,
        },
    },
    "talker_config": {
        "text_config": {
            "vocab_size": 3072,
            "hidden_size": 1024,
            "intermediate_size": 2048,
            "moe_intermediate_size": 384,
            "shared_expert_intermediate_size": 768,
            "num_hidden_layers": 20,
            "num_attention_heads": 16,
            "num_key_value_heads": 2,
            "head_dim": 128,
            "num_experts_per_tok": 6,
        },
        "code_predictor_config": {
            "hidden_size": 1024,
            "intermediate_size": 3072,
            "num_hidden_layers": 5,
            "num_attention_heads": 16,
            "num_code_groups": 16,
        },
    },
    "code2wav_config": {
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_hidden_layers": 8,
        "num_attention_heads": 16,
    },
}
FLAN_T5 = {**T5, "d_ff": 2048, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
MT5 = {**FLAN_T5, "model_type": "mt5", "d_model": 512, "d_ff": 1024, "num_heads": 6, "vocab_size": 250112}
MT5 |= {"architectures": ["MT5ForConditionalGeneration"], "num_layers": 8, "num_decoder_layers": 8}
NLLB = {**BART, "model_type": "m2m_100", "architectures": ["M2M100ForConditionalGeneration"], "vocab_size": 256206}
XLM = {**ROBERTA, "model_type": "xlm-roberta", "architectures": ["XLMRobertaForMaskedLM"], "vocab_size": 250002}


def spec_of(config: dict[str, Any], **changes: Any) -> ModelSpec:
    return read_config({**config, **changes}, name="model")


@pytest.mark.parametrize(
    ("config", "published"),
    [
        (BART, 406_290_432),  # bart-large-cnn
        (T5, 222_903_552),  # t5-base
        (FLAN_T5, 247_577_856),  # flan-t5-base, whose head is a matrix of its own
        (MT5, 300_176_768),  # mt5-small
        (NLLB, 615_073_792),  # nllb-200-distilled-600M
        (WHISPER, 1_543_490_560),  # whisper-large-v3
        (ROBERTA, 124_697_433),  # roberta-base
        (XLM, 278_295_186),  # xlm-roberta-base
        (QWEN2_AUDIO, 8_397_094_912),  # Qwen2-Audio-7B
        (OMNI, 10_732_225_408),  # Qwen2.5-Omni-7B, talker and vocoder included
        (OMNI3, 35_259_818_545),  # Qwen3-Omni-30B-A3B, likewise
    ],
)
def test_real_models_have_the_parameters_that_their_files_hold(config: dict[str, Any], published: int) -> None:
    assert spec_of(config).unique_parameters() == published


def test_an_encoder_decoder_caches_its_own_tokens_and_as_many_of_the_encoder() -> None:
    # 12 layers × (self + cross) × keys and values × 12 heads of 64
    assert spec_of(T5).cache_elements(100) == 12 * 2 * 2 * 12 * 64 * 100


def test_whisper_caches_1500_tokens_of_the_encoder_whatever_it_writes() -> None:
    spec, layer = spec_of(WHISPER), 2 * 20 * 64
    assert spec.cache_elements(1) == 32 * layer * (1 + 1500)
    assert spec.cache_elements(448) == 32 * layer * (448 + 1500)
    assert spec.kv_bytes_per_token(10) == 32 * layer * 2


def test_the_engine_pages_the_encoders_tokens_apart() -> None:
    """1500 tokens are 94 pages of 16, beside 28 of the 448 that the decoder writes."""
    spec = spec_of(WHISPER)
    pages = paging(deploy(spec, find_accelerator("h100-sxm"), engine="vllm==0.32"))
    assert pages.blocks_per_request(448) == 94 + 28
    assert pages.blocks_per_request(16) == 94 + 1
    # one page: keys and values of 20 heads of 64 in 2 bytes
    assert pages.block_bytes == 32 * 16 * 2 * 20 * 64 * 2


def test_tensor_parallelism_cuts_the_encoder_too() -> None:
    accelerator = find_accelerator("h100-sxm")
    whole, half = (shards(deploy(spec_of(WHISPER), accelerator, tensor_parallel=tp))[0].weights for tp in (1, 2))
    # positions, convolutions and norms stay whole
    assert 0.5 < half / whole < 0.515
    audio = spec_of(QWEN2_AUDIO)
    kept = [tensor for tower in audio.towers for _, _, tensor in tower.tensors if tensor.shards > 1]
    assert not kept, "beside a decoder, an encoder of sound is kept whole"


@pytest.mark.parametrize(
    "changes",
    [{"architectures": ["BartForCausalLM"]}, {"architectures": None, "is_encoder_decoder": False}],
)
def test_a_decoder_alone_has_cross_attention_and_caches_nothing_for_it(changes: dict[str, Any]) -> None:
    spec = spec_of(BART, **changes)
    assert spec.unique_parameters() == 406_290_432 - 12 * 12_596_224 - (1026 * 1024 + 2 * 1024)
    assert spec.cache_elements(10) == 12 * 2 * 1024 * 10
    assert not spec.towers


def test_untied_tables_of_both_sides_are_counted_each() -> None:
    """transformers keeps the shared one as a third, and the head as a fourth."""
    tied, untied = spec_of(BART), spec_of(BART, tie_word_embeddings=False)
    assert untied.unique_parameters() - tied.unique_parameters() == 3 * 50264 * 1024


def test_a_seamless_file_without_a_class_is_read_as_text_to_text_and_says_so() -> None:
    seamless = {**BART, "model_type": "seamless_m4t", "hidden_size": 1024, "architectures": None}
    assert "names no class" in " ".join(map(str, spec_of(seamless).assumptions))
    named = spec_of(seamless, architectures=["SeamlessM4TForTextToText"])
    assert named.unique_parameters() == spec_of(seamless).unique_parameters()


def test_only_the_first_layer_of_t5_has_relative_positions_and_all_of_umt5() -> None:
    umt5 = {**T5, "model_type": "umt5", "architectures": ["UMT5ForConditionalGeneration"], "is_gated_act": False}
    more = spec_of(umt5).unique_parameters() - spec_of(T5).unique_parameters()
    assert more == 2 * 11 * 32 * 12


def test_an_encoder_of_text_caches_nothing_and_a_decoder_does() -> None:
    assert spec_of(ROBERTA).cache_elements(512) == 0
    assert spec_of(ROBERTA, is_decoder=True).cache_elements(10) == 12 * 2 * 768 * 10


def test_fit_refuses_what_writes_no_tokens(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(ROBERTA))
    code, _, error = cli("fit", str(path), "--gpu", "h100-sxm")
    assert code == 2
    assert "reads all tokens at once and keeps nothing of them" in error


def test_models_and_fit_tell_of_the_encoders_cache(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(WHISPER))
    code, out, _ = cli("models", str(path))
    assert code == 0
    assert "cross-attention to 1,500 tokens, 20 heads, 20 KV heads of 64" in out
    code, out, _ = cli("fit", str(path), "--gpu", "h100-sxm", "--engine", "vllm==0.32", "--json")
    assert code == 0
    assert json.loads(out)["candidates"][0]["terms"]["kv_cache"] % (32 * 2 * 20 * 64 * 2 * (448 + 1500)) == 0


@pytest.mark.parametrize(
    ("config", "changes"),
    [
        (T5, {"architectures": ["T5EncoderModel"]}),
        (ROBERTA, {"architectures": ["RobertaForMultipleChoice"]}),
        ({**BART, "model_type": "seamless_m4t"}, {"architectures": ["SeamlessM4TForTextToSpeech"]}),
        (QWEN2_AUDIO, {"text_config": {**QWEN2_AUDIO}}),
        (QWEN2_AUDIO, {"text_config": T5}),
        ({**BART, "model_type": "encoder-decoder"}, {"encoder": {"model_type": "gpt2"}, "decoder": {}}),
    ],
)
def test_parts_and_classes_of_another_kind_are_refused(config: dict[str, Any], changes: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        spec_of(config, **changes)


def test_a_decoder_that_its_file_leaves_without_cross_attention_has_none() -> None:
    rows = [json.loads(line) for line in gzip.decompress((DATA / "oracle.jsonl.gz").read_bytes()).splitlines()]
    row = next(one for one in rows if one["config"]["model_type"] == "vision-encoder-decoder")
    decoder = row["config"]["decoder"]
    hidden, layers = decoder["hidden_size"], decoder["num_hidden_layers"]
    blind = row["config"] | {"decoder": decoder | {"add_cross_attention": False}}
    # four projections with biases, and a norm, in every layer
    assert row["total_params"] - read_config(blind, name="m").unique_parameters() == layers * (
        4 * hidden**2 + 6 * hidden
    )
