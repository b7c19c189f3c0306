"""`check` predicts what a log says of offloaded weights, drafts and shared experts, or says that it does not."""

from __future__ import annotations

import io

import pytest

from narrows.answers.check import Check, check
from narrows.diagnosis.deployed import deployed
from narrows.diagnosis.drafted import draft_seen
from narrows.diagnosis.situation import Situation
from narrows.models import load_model
from narrows.observe import observe
from narrows.text import Text
from narrows.units import GIB

OFFLOADED = """\
# TheBuccaneer/vllm-offload-profiles, gpu_memory_configuration/fixd_llama_gmem086_offload12.log
(APIServer pid=1) INFO 07-26 11:05:19 [utils.py:238] non-default args: {'model': 'meta-llama/Llama-3.1-8B-Instruct',\
 'max_model_len': 8192, 'gpu_memory_utilization': 0.86,\
 'cpu_offload_gb': 12.0}
(EngineCore_DP0 pid=2) INFO 07-26 11:05:51 [gpu_model_runner.py:4364] Model loading took 2.91 GiB memory and 21.6 s
(EngineCore_DP0 pid=2) INFO 07-26 11:06:08 [gpu_worker.py:424] Available KV cache memory: 16.79 GiB
(EngineCore_DP0 pid=2) INFO 07-26 11:06:08 [kv_cache_utils.py:1314] GPU KV cache size: 137,552 tokens
"""


def _checked(text: str, **options: str) -> Check:
    return check(io.BytesIO(text.encode()), **options)  # type: ignore[arg-type]


def _term(answer: Check, name: str) -> tuple[float, float]:
    one = next(term for term in answer.terms if term.name == name)
    assert one.predicted is not None
    assert one.reported is not None
    return one.predicted.value, one.reported


def test_offloaded_weights_are_predicted_as_they_are_reported() -> None:
    answer = _checked(OFFLOADED, gpu="rtx-3090", engine="vllm==0.17.1")
    predicted, reported = _term(answer, "weights")
    assert reported == pytest.approx(2.91 * GIB, abs=0.01 * GIB)
    assert predicted == pytest.approx(reported, abs=0.011 * GIB)


def test_a_draft_is_read_from_the_settings_that_a_log_prints() -> None:
    said: list[Text] = []
    deepseek = load_model("deepseek-v3")
    for written in (
        "SpeculativeConfig(method='mtp', model='/models/DeepSeek-V3', num_spec_tokens=1)",
        "{'method': 'deepseek_mtp', 'num_speculative_tokens': 1}",
    ):
        found = draft_seen(written, deepseek, said)
        assert found is not None
        assert (found.method, found.tokens, len(found.layers)) == ("mtp", 1, 1)
    small = draft_seen(
        "SpeculativeConfig(method='draft_model', model='llama-3.2-1b', num_spec_tokens=5)", deepseek, said
    )
    assert small is not None
    assert small.model is not None
    assert not said
    assert draft_seen("none", deepseek, said) is draft_seen(None, deepseek, said) is None


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("SpeculativeConfig(method='dflash', model='poolside/Laguna-S-2.1-DFlash-INT4', num_spec_tokens=15)", "dflash"),
        ("SpeculativeConfig(method='eagle3', model='nobody/no-such-head', num_spec_tokens=3)", "no-such-head"),
        ("SpeculativeConfig(method='mtp', model='x')", "no prediction layers"),
        ("True", "neither a method nor a model"),
    ],
)
def test_a_draft_of_which_nothing_is_known_is_said_to_be_left_out(written: str, why: str) -> None:
    said: list[Text] = []
    assert draft_seen(written, load_model("llama-3.1-8b"), said) is None
    assert why in str(said[0])
    assert "the prediction is without it" in str(said[0])


WHOLE_EXPERTS = (
    "(APIServer pid=1) INFO 07-26 11:05:18 [utils.py:238] non-default args: {'model': 'deepseek-ai/DeepSeek-V3', "
    "'data_parallel_size': 8, 'enable_expert_parallel': True, 'max_model_len': 8192}\n"
    "(EngineCore pid=2) INFO 07-26 11:05:19 [core.py:114] Initializing a V1 LLM engine (v0.20.0) with config: "
    "model='deepseek-ai/DeepSeek-V3', dtype=torch.bfloat16, max_seq_len=8192, tensor_parallel_size=1, "
    "pipeline_parallel_size=1, data_parallel_size=8, enforce_eager=False, kv_cache_dtype=auto, "
    "quantization=fp8, device_config=cuda\n"
)


def test_experts_that_a_log_says_are_given_out_whole_are_predicted_so() -> None:
    loaded = (
        "(EngineCore pid=2) INFO 07-26 11:06:18 [gpu_model_runner.py:1] Model loading took 95.8 GiB and 60.1 seconds\n"
    )
    predicted, reported = _term(_checked(WHOLE_EXPERTS + loaded, gpu="h200-sxm"), "weights")
    assert predicted == pytest.approx(reported, rel=0.02)


def test_other_splits_of_such_a_server_give_out_the_experts_over_the_ranks_of_all_replicas() -> None:
    (seen,) = observe(io.BytesIO(WHOLE_EXPERTS.encode()))
    found = Situation(seen, deployed(seen, gpu="h200-sxm"), ()).tried(tensor_parallel=2)
    assert found is not None
    assert (found.deployment.expert_parallel, found.deployment.expert_width_parallel) == (16, 1)
