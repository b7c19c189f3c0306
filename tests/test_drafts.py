"""Speculative decoding in memory: what drafts has weights and a cache of its own, and joins the target's pool."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from narrows import fit
from narrows.answers.fit_types import Candidate
from narrows.answers.roofline import roofline
from narrows.deployment import Deployment, deploy
from narrows.deployment.asked_draft import draft_of
from narrows.engines.llamacpp_command import read_llama_command
from narrows.engines.speculative import read_speculative
from narrows.hardware import find_accelerator
from narrows.memory import shards
from narrows.memory.capacity import stated_tokens
from narrows.memory.draft import draft_share
from narrows.memory.paging import paging
from narrows.models import load_model
from narrows.models.drafts import prediction_of, read_head
from narrows.text import BadInput

GIB = 2**30
_LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": 1,
    "vocab_size": 128256,
    "torch_dtype": "float16",
    "max_position_embeddings": 2048,
}
EAGLE3 = {**_LLAMA, "draft_vocab_size": 32000}
EAGLE = {**_LLAMA, "architectures": ["LlamaForCausalLM"]}
MEDUSA = {"medusa_num_heads": 4, "medusa_num_layers": 1}


def _written(config: dict[str, Any], folder: Path) -> str:
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


def _asked(**config: Any) -> str:
    return json.dumps({"num_speculative_tokens": 3, **config})


def _of(model: str = "llama-3.1-8b", gpu: str = "l40s", max_len: int = 8192, **options: Any) -> Candidate:
    return fit(model, gpu, max_len=max_len, **options).candidates[0]


def _deployed(model: str, gpu: str, *, method: str = "mtp", tokens: int = 1, **options: Any) -> Deployment:
    target = load_model(model)
    asked = read_speculative({"method": method, "num_speculative_tokens": tokens})
    return deploy(target, find_accelerator(gpu), draft=draft_of(asked, target), **options)


def test_a_server_of_qwen3_6_that_drafts_by_its_prediction_layer_has_the_pool_it_reports() -> None:
    """tm-153 (0.25.1, DGX Spark): 74.22 GiB hold 3,366,051 tokens at 12.84x; blocks of 1072, three layers padded.

    Its log is cut before the number of tokens; of 1 to 4 only 2 have both.
    """
    found = _deployed(
        "qwen3.5-35b-a3b", "gb10-dgx-spark", tokens=2, engine="vllm==0.25.1", max_length=262144, max_num_seqs=32
    )
    pages, pool = paging(found), int(74.22 * GIB)
    assert pages.block == 1072
    assert [(group.number, group.layers) for group in pages.groups] == [(3, 10), (1, 11)]
    assert round(pages.concurrency(pool, 262144), 2) == 12.84
    assert stated_tokens(found, pages, pool) == pytest.approx(3_366_051, rel=5e-4)


def test_without_the_draft_that_pool_would_hold_an_eighth_more() -> None:
    with_it = _deployed("qwen3.5-35b-a3b", "gb10-dgx-spark", tokens=2, engine="vllm==0.25.1", max_length=262144)
    alone = deploy(with_it.model, with_it.accelerator, engine="vllm==0.25.1", max_length=262144)
    pool = int(74.22 * GIB)
    ratio = paging(alone).concurrency(pool, 262144) / paging(with_it).concurrency(pool, 262144)
    assert ratio == pytest.approx(1.125, abs=0.01)


def test_an_eagle3_head_weighs_what_its_published_file_has() -> None:
    """yuhuili/EAGLE3-LLaMA3.1-Instruct-8B: inputs of twice the width, fc over three layers, 32,000 words."""
    head = read_head(EAGLE3, "eagle3", load_model("llama-3.1-8b"), "head")
    layer = 4096 * 2 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14336 + 3 * 4096
    around = 3 * 4096 * 4096 + 4096 + 32000 * 4096
    assert head.unique_parameters() == layer + around
    assert head.checkpoint_bytes() == 2 * (layer + around) + 8 * 32000  # where each of its words is in the target's


def test_a_head_of_the_first_eagle_shares_embedding_and_output() -> None:
    head = read_head(EAGLE, "eagle", load_model("llama-3.1-8b"), "head")
    layer = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336 + 4096
    assert head.unique_parameters() == layer + 2 * 4096 * 4096


def test_a_head_joins_the_pool_with_one_layer_more(tmp_path: Path) -> None:
    alone = _of()
    one = _of(speculative_config=_asked(method="eagle3", model=_written(EAGLE3, tmp_path)))
    assert one.draft is not None
    assert one.terms.weights == alone.terms.weights + one.draft.weights
    assert one.draft.kv_bytes_per_sequence == 8192 * 2 * 8 * 128 * 2
    assert one.terms.kv_cache / one.batch == alone.terms.kv_cache / alone.batch * 33 / 32
    assert (one.max_batch, alone.max_batch) == (22, 24)
    assert one.kv_tokens < alone.kv_tokens
    assert one.draft.slots == 3


def test_the_terms_add_up_with_a_draft(tmp_path: Path) -> None:
    terms = _of(speculative_config=_asked(method="eagle", model=_written(EAGLE, tmp_path))).terms
    parts = (terms.weights, terms.kv_cache, terms.state, terms.activations, terms.graphs, terms.runtime)
    assert sum(parts) + terms.unclaimed + terms.free == terms.usable


def test_medusa_keeps_weights_and_nothing_of_a_sequence(tmp_path: Path) -> None:
    one = _of(speculative_config=_asked(method="medusa", model=_written(MEDUSA, tmp_path)))
    assert one.draft is not None
    assert one.draft.weights == 2 * 4 * (4096 * 4096 + 128256 * 4096)
    assert (one.draft.kv_bytes_per_sequence, one.draft.slots) == (0, 0)


@pytest.mark.parametrize("method", ["ngram", "suffix"])
def test_looking_tokens_up_keeps_nothing_on_the_device(method: str) -> None:
    one, alone = _of(speculative_config=_asked(method=method)), _of()
    assert one.terms == alone.terms
    assert one.draft is not None
    assert one.draft.weights == one.draft.kv_bytes_per_sequence == one.draft.slots == 0
    assert one.kv_cache_available.low is not None
    assert alone.kv_cache_available.low is not None


def test_a_whole_model_that_drafts_has_all_its_weights_and_pages_of_its_own_width() -> None:
    """Llama-3.2-1B keeps 16 layers of 8 heads of 64: a block of both has 32 × 2048 + 16 × 1024 elements a token."""
    one = _of(speculative_config=_asked(model="meta-llama/Llama-3.2-1B"))
    assert one.draft is not None
    alone = _of("llama-3.2-1b")
    assert one.draft.weights == alone.terms.weights
    assert one.paged_bytes_per_sequence == 8192 * 2 * (32 * 2048 + 16 * 1024)
    assert one.paged_bytes_per_sequence == _of().paged_bytes_per_sequence + alone.paged_bytes_per_sequence


def test_tensor_parallelism_cuts_what_drafts_unless_it_runs_on_one_rank(tmp_path: Path) -> None:
    model = "meta-llama/Llama-3.2-1B"
    cut = _of(tp=2, speculative_config=_asked(model=model)).draft
    whole = _of(tp=2, speculative_config=_asked(model=model, draft_tensor_parallel_size=1)).draft
    assert cut is not None
    assert whole is not None
    assert whole.weights == pytest.approx(2 * cut.weights, rel=0.01)
    assert whole.kv_bytes_per_sequence == 2 * cut.kv_bytes_per_sequence
    with pytest.raises(BadInput, match="runs on one, or on all 4"):
        _of(tp=4, speculative_config=_asked(model=model, draft_tensor_parallel_size=2))


def test_prediction_layers_of_deepseek_share_embedding_and_head_in_newer_versions() -> None:
    layer = shards(_deployed("deepseek-v3", "h200-sxm", tensor_parallel=8, max_length=8192, engine="vllm==0.25"))
    older = shards(_deployed("deepseek-v3", "h200-sxm", tensor_parallel=8, max_length=8192, engine="vllm==0.10"))
    oldest = shards(_deployed("deepseek-v3", "h200-sxm", tensor_parallel=8, max_length=8192, engine="vllm==0.8"))
    vocabulary = 129280 * 7168 * 2 // 8
    assert older[0].weights - layer[0].weights == vocabulary
    assert oldest[0].weights - layer[0].weights == 2 * vocabulary


def test_each_rank_has_the_projection_of_a_prediction_layer_of_deepseek_whole() -> None:
    """By hand: a layer of experts, norms, and eh_proj of 7168 × 14336 in 16 bits, on 8 ranks."""
    shares = draft_share(_deployed("deepseek-v3", "h200-sxm", tensor_parallel=8, max_length=8192))
    assert shares is not None
    scaled = 1 + 4 / 128**2
    latents = (7168 * 1536 + 7168 * 576) * scaled
    cut = (1536 * 128 * 192 + 512 * 128 * 256 + 128 * 128 * 7168 + 257 * 3 * 7168 * 2048) * scaled
    small = 256 * 7168 * 2 + 256 * 4 + (5 * 7168 + 2048) * 2
    assert shares.weights == pytest.approx(latents + cut / 8 + small + 7168 * 14336 * 2, rel=1e-4)


def test_experts_of_a_prediction_layer_are_given_out_as_the_others() -> None:
    cut = _deployed("deepseek-v3", "h200-sxm", tensor_parallel=8, max_length=8192)
    whole = _deployed("deepseek-v3", "h200-sxm", tensor_parallel=8, max_length=8192, expert_parallel=8)
    shares = draft_share(cut), draft_share(whole)
    assert shares[0] is not None
    assert shares[1] is not None
    assert shares[0].weights == pytest.approx(shares[1].weights, rel=1e-2)


def test_what_drafts_stands_in_the_last_stage_with_an_embedding_of_its_own(tmp_path: Path) -> None:
    target = load_model("llama-3.1-8b")
    asked = read_speculative(_asked(method="eagle3", model=_written(EAGLE3, tmp_path)))
    options: dict[str, Any] = {"pipeline_parallel": 2, "max_length": 8192}
    found = shards(deploy(target, find_accelerator("l40s"), draft=draft_of(asked, target), **options))
    alone = shards(deploy(target, find_accelerator("l40s"), **options))
    assert found[0] == alone[0]
    embedding = 2 * 128256 * 4096
    assert found[1].weights - alone[1].weights == read_head(EAGLE3, "eagle3", target, "").checkpoint_bytes() + embedding
    assert len(found[1].cache) > len(alone[1].cache)


def test_qwen3_next_has_one_layer_beyond_those_its_config_names() -> None:
    """Its published file has 1,650,471,424 parameters beside the model's."""
    found = prediction_of(load_model("qwen3-next-80b-a3b-instruct"))
    assert sum(repeats * tensor.elements for _, repeats, tensor in found.towers[0].tensors) == 1_650_471_424
    assert "is assumed" in str(found.notes[0])


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"method": "mtp"}, "no prediction layers of meta-llama/Llama-3.1-8B are known"),
        ({"method": "eagle3"}, "needs the draft's name or path"),
        ({"method": "eagle3", "model": "/nowhere/at/all"}, "does not exist"),
        ({"method": "dflash", "model": "z-lab/x"}, "by 'dflash' keeps on the device is not known"),
        ({"model": "z-lab/Qwen3-8B-DFlash"}, "by 'dflash' keeps on the device is not known"),
        ({"model": "qwen2.5-0.5b"}, "of the same vocabulary only"),
        ({}, "neither a method nor a model"),
        ({"method": "ngram", "num_speculative_tokens": 0}, "must be a whole number from 1"),
        ({"method": "ngram", "num_speculative_tokens": None}, "says not how many tokens"),
        ({"method": "mtp", "model": "x/y"}, "in files of their own"),
    ],
)
def test_a_draft_of_which_nothing_is_known_is_refused_with_what_to_give(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        _of(speculative_config=_asked(**asked))


@pytest.mark.parametrize("text", ["{", "[1]", "mtp", "3"])
def test_what_is_no_json_object_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="must be a JSON object"):
        _of(speculative_config=text)


def test_a_head_of_another_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="give a head of this model"):
        _of("qwen3-8b", speculative_config=_asked(method="eagle3", model=_written(EAGLE3, tmp_path)))
    latent = {**EAGLE3, "model_type": "kimi_k2", "architectures": ["Eagle3DeepseekV2ForCausalLM"]}
    with pytest.raises(BadInput, match="is not read yet"):
        read_head(latent, "eagle3", load_model("llama-3.1-8b"), "head")


@pytest.mark.parametrize(("engine", "refused"), [("vllm==0.9.1", False), ("vllm==0.13", True), ("vllm==0.25", False)])
def test_versions_between_the_cores_draft_with_heads_only(engine: str, refused: bool) -> None:
    """vllm-project/vllm#31883: 0.13.0 refuses a model as a draft."""
    if not refused:
        assert _of(engine=engine, speculative_config=_asked(model="llama-3.2-1b")).draft is not None
        return
    with pytest.raises(BadInput, match="takes no model as a draft"):
        _of(
            engine=engine,
            quantization=None if "==" in engine else "Q8_0",
            speculative_config=_asked(model="llama-3.2-1b"),
        )


def test_pasted_commands_say_it_in_either_way() -> None:
    base = "vllm serve meta-llama/Llama-3.1-8B --max-model-len 8192 "
    newer = fit(base + """--speculative-config '{"model": "llama-3.2-1b", "num_speculative_tokens": 5}'""", "l40s")
    older = fit(base + "--speculative-model llama-3.2-1b --num-speculative-tokens 5", "l40s")
    assert newer.candidates[0].terms == older.candidates[0].terms
    assert newer.candidates[0].draft == older.candidates[0].draft
    assert not newer.warnings
    ngram = fit(base + "--speculative-model [ngram] --num-speculative-tokens 5", "l40s").candidates[0].draft
    assert ngram is not None
    assert ngram.method == "ngram"


def test_the_command_of_a_deployment_names_its_draft() -> None:
    one = _of(speculative_config=_asked(model="llama-3.2-1b"))
    assert fit(one.serve_command, "l40s").candidates[0].terms == one.terms


def test_a_mend_keeps_the_draft() -> None:
    one = _of(batch=40, speculative_config=_asked(model="llama-3.2-1b"))
    shorter = next(mend for mend in (one.mend, *one.other_mends) if mend and mend.change.startswith("--max-len"))
    again = _of(batch=40, max_len=shorter.length, speculative_config=_asked(model="llama-3.2-1b"))
    assert again.fits
    assert shorter.length < _of(batch=40).max_length


def test_roofline_counts_a_draft_in_what_fits_and_says_that_no_time_has_it() -> None:
    answer = roofline("llama-3.1-8b", "l40s", max_len=8192, speculative_config=_asked(model="llama-3.2-1b"))
    assert "not in the times" in str(answer.cautions[-1])


def test_the_interval_is_wider_where_no_start_was_scored() -> None:
    alone, one = (
        _of(engine="vllm==0.20", max_len=8192, **options)
        for options in ({}, {"speculative_config": _asked(method="ngram")})
    )
    widths = []
    for each in (alone.kv_cache_available, one.kv_cache_available):
        assert each.low is not None
        assert each.high is not None
        widths.append(each.high - each.low)
    assert widths[1] > 2 * widths[0]


_SGLANG = "python -m sglang.launch_server --context-length 8192 --mem-fraction-static 0.85 --model-path "


def test_sglang_sizes_its_pool_with_a_layer_more_and_vocabulary_tables_twice() -> None:
    """sgl-project/sglang#36452: embedding and head of the draft are released after the pool is sized."""
    alone = fit(_SGLANG + "deepseek-ai/DeepSeek-V3 --tp 8", "h200-sxm").candidates[0]
    one = fit(_SGLANG + "deepseek-ai/DeepSeek-V3 --tp 8 --speculative-algorithm EAGLE", "h200-sxm").candidates[0]
    assert one.draft is not None
    assert one.draft.method == "mtp"
    layer = shards(_deployed("deepseek-v3", "h200-sxm", tensor_parallel=8, max_length=8192))[0].weights
    without = deploy(load_model("deepseek-v3"), find_accelerator("h200-sxm"), tensor_parallel=8, max_length=8192)
    tables = 2 * 129280 * 7168 * 2 // 8
    assert one.draft.weights == layer - shards(without)[0].weights + tables
    pool = alone.kv_cache_available.value - one.draft.weights
    assert one.kv_tokens == pytest.approx(pool / (576 * 2 * 62), rel=1e-3)


def test_sglang_counts_a_whole_draft_by_its_layers_whatever_their_width() -> None:
    alone = fit(_SGLANG + "llama-3.1-8b", "l40s").candidates[0]
    one = fit(
        _SGLANG + "llama-3.1-8b --speculative-algorithm STANDALONE --speculative-draft-model-path llama-3.2-1b "
        "--speculative-num-steps 3",
        "l40s",
    ).candidates[0]
    assert one.draft is not None
    assert one.paged_bytes_per_sequence == alone.paged_bytes_per_sequence * 48 // 32
    assert fit(one.serve_command, "l40s").candidates[0].terms == one.terms


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("llama-3.1-8b --speculative-algorithm MAGIC", "by 'magic' keeps on the device is not known"),
        ("qwen3.5-35b-a3b --speculative-algorithm NEXTN", "when it drafts by mtp is not known"),
        ("gemma-3-27b --speculative-algorithm STANDALONE --speculative-draft-model gemma-3-1b", "is not known"),
    ],
)
def test_sglang_is_refused_where_its_pools_with_drafts_are_not_known(more: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        fit(_SGLANG + more, "h200-sxm")


def test_older_sglang_is_refused_and_a_share_that_nobody_stated_is_assumed() -> None:
    asked = "deepseek-ai/DeepSeek-V3 --tp 8 --speculative-algorithm NEXTN"
    with pytest.raises(BadInput, match="beside its static share"):
        fit("docker run lmsysorg/sglang:v0.5.9 " + _SGLANG + asked, "h200-sxm")
    command = (_SGLANG + asked).replace("--mem-fraction-static 0.85", "")
    drafting, alone = fit(command, "h200-sxm"), fit(command.partition("--spec")[0], "h200-sxm")
    more = drafting.candidates[0].terms.unclaimed - alone.candidates[0].terms.unclaimed
    assert more == pytest.approx(2**31, rel=0.05)  # set aside for layers that draft; shares have three digits
    assert any("is assumed of later ones" in str(text) for text in drafting.assumptions)
    assert fit("sglang serve --model-path llama-3.1-8b --speculative-algorithm NGRAM", "l40s").candidates[0].draft


def test_llama_cpp_gives_every_slot_a_context_of_the_draft_in_16_bits() -> None:
    options: dict[str, Any] = {"engine": "llama.cpp", "quantization": "Q4_K_M", "batch": 4, "kv_cache_dtype": "q8_0"}
    alone, one = _of(**options), _of(**options, speculative_config=_asked(model="llama-3.2-1b"))
    draft = _of("llama-3.2-1b", engine="llama.cpp", batch=4)
    assert one.draft is not None
    assert one.draft.weights == draft.terms.weights == one.terms.weights - alone.terms.weights
    assert one.terms.kv_cache - alone.terms.kv_cache == draft.terms.kv_cache == 4 * 8192 * 2 * 16 * 8 * 64 * 2
    assert one.terms.activations - alone.terms.activations == draft.terms.activations
    assert one.serve_command.endswith("-md Llama-3.2-1B-BF16.gguf")
    terms = one.terms
    parts = (terms.weights, terms.kv_cache, terms.state, terms.activations, terms.graphs, terms.runtime)
    assert sum(parts) + terms.unclaimed + terms.free == terms.usable


def test_drafts_of_llama_cpp_that_are_not_known_are_refused() -> None:
    options: dict[str, Any] = {"engine": "llama.cpp", "quantization": "Q4_K_M"}
    for more in ({"pp": 2}, {"model": "deepseek-v3"}):
        method = {"method": "mtp"} if "model" in more else {"model": "llama-3.2-1b"}
        with pytest.raises(BadInput, match="on one device"):
            _of(**options, **more, speculative_config=_asked(**method))
    with pytest.raises(BadInput, match="which narrows does not model for llama"):
        fit("llama-server -m a.gguf -md b.gguf -cd 4096", "l40s")


def test_a_pasted_command_of_llama_cpp_names_its_draft() -> None:
    found = read_llama_command("llama-server -m a.gguf -md b.gguf --draft-max 8 -c 8192")
    assert found.options["speculative_config"] == {
        "method": "draft_model",
        "model": "b.gguf",
        "num_speculative_tokens": 8,
    }


def test_smaller_steps_as_a_mend_stand_in_the_command() -> None:
    options: dict[str, Any] = {"tp": 2, "pp": 4, "ep": 2, "kv_cache_dtype": "fp8", "gpu_memory_utilization": 0.8}
    asked = _asked(method="mtp", num_speculative_tokens=3)
    model, engine = "zai-org/GLM-4.5-Air", "vllm==0.10"
    one = fit(model, "l40s", engine=engine, max_len=32768, speculative_config=asked, **options).candidates[0]
    assert one.mend is not None
    assert one.mend.change == "--max-num-batched-tokens 16384"
    again = fit(one.serve_command, "l40s", engine=engine).candidates[0]
    assert (again.fits, again.max_batch) == (True, one.mend.max_batch)


def test_a_speculative_config_that_is_nested_too_deep_is_refused() -> None:
    with pytest.raises(BadInput, match="must be a JSON object"):
        fit("llama-3.1-8b", "l40s", speculative_config='{"method":' + "[" * 5000 + "]" * 5000 + "}")
