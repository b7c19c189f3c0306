"""The widest place of a layer, from the step's kernels: values derived by hand, and laws that every model obeys."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from narrows.deployment import Deployment, deploy
from narrows.hardware import find_accelerator
from narrows.memory.activations import dense_elements, expert_elements
from narrows.models import load_model
from narrows.models.catalogue import catalogue
from narrows.models.experts import has_experts
from narrows.models.mixers import Attention, GatedDeltaNet, LatentAttention, Mamba
from narrows.models.spec import Layer
from narrows.step import flows


def deployed(model: str, **split: int) -> Deployment:
    """The model on an H200, split so; what would not fit is not asked here."""
    found = deploy(load_model("llama-3.1-8b"), find_accelerator("h200-sxm"))
    return msgspec.structs.replace(found, model=load_model(model), **split)


def layer_with(deployment: Deployment, kind: Any) -> Layer:
    return next(layer for layer, _ in deployment.model.kinds if isinstance(layer.mixer, kind))


def last_layer(deployment: Deployment) -> Layer:
    return deployment.model.kinds[-1][0]


@pytest.mark.parametrize(
    ("model", "tp", "elements"),
    [
        # gate, up and their product; residual, input and output
        ("llama-3.1-8b", 1, 3 * 14336 + 3 * 4096),
        ("llama-3.1-8b", 8, 3 * 1792 + 3 * 4096),
        ("gemma-3-4b-it", 1, 3 * 10240 + 3 * 2560),
        ("gemma-3-27b-it", 8, 3 * 2688 + 3 * 5376),
    ],
)
def test_a_dense_layer_is_widest_at_its_activation(model: str, tp: int, elements: int) -> None:
    where = deployed(model, tensor_parallel=tp)
    assert {dense_elements(layer, where) for layer, _ in where.model.kinds} == {elements}


def test_outside_its_experts_mixtral_is_widest_at_attention() -> None:
    where = deployed("mixtral-8x7b")
    queries, keys_and_values, output = 4096, 2 * 1024, 4096
    assert dense_elements(last_layer(where), where) == queries + keys_and_values + output + 3 * 4096


def test_prompts_of_deepseek_v3_make_keys_and_values_of_every_head() -> None:
    whole, cut = deployed("DeepSeek-V3"), deployed("DeepSeek-V3", tensor_parallel=8)
    down, heads = 1536 + 512 + 64, 128
    assert dense_elements(last_layer(whole), whole) == down + heads * (192 + 256 + 128) + 3 * 7168
    # the projections down stand whole on every rank
    assert dense_elements(last_layer(cut), cut) == down + heads // 8 * (192 + 256 + 128) + 3 * 7168


def test_absorbed_products_live_inside_attention_which_is_not_profiled() -> None:
    where = deployed("DeepSeek-V3.2")
    down, queries, indexer, values = 1536 + 512 + 64, 128 * 192, 64 * 128 + 128 + 64, 128 * 128
    mixer = down + queries + indexer + values  # a prompt's queries and outputs as wide as the latent would add 147,456
    assert mixer < 3 * 18432
    assert dense_elements(layer_with(where, LatentAttention), where) == 3 * 18432 + 3 * 7168


def test_layers_of_qwen3_next_are_widest_at_their_mixers() -> None:
    where = deployed("Qwen/Qwen3-Next-80B-A3B-Instruct")
    delta = 2 * 2048 + 2 * 4096 + 2 * 32 + 4096
    assert dense_elements(layer_with(where, GatedDeltaNet), where) == delta + 3 * 2048
    # queries and their gates
    attention = 2 * 4096 + 2 * 512 + 4096
    assert dense_elements(layer_with(where, Attention), where) == attention + 3 * 2048


def test_a_mamba_layer_keeps_whole_what_is_summed_over_ranks() -> None:
    where = deployed("ai21labs/Jamba-v0.1", tensor_parallel=2)
    inner, steps_and_states = 8192 // 2, 256 + 2 * 16
    mixing = 2 * inner + steps_and_states + inner + inner + 3 * 4096
    # layers with experts have no wider feed-forward part
    assert (
        min(dense_elements(layer, where) for layer, _ in where.model.kinds if isinstance(layer.mixer, Mamba)) == mixing
    )


@pytest.mark.parametrize(
    ("model", "split", "elements"),
    [
        # for each chosen expert: gate and up, or the output in the same buffer if that is wider, and their product
        ("mixtral-8x7b", {}, 2 * (2 * 14336 + 14336)),
        ("mixtral-8x7b", {"tensor_parallel": 2}, 2 * (14336 + 7168)),
        ("DeepSeek-V3", {}, 8 * (7168 + 2048)),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", {}, 10 * (2048 + 512)),
        # experts without a gate
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", {}, 6 * (2688 + 1856)),
        # experts shared out one by one keep their width, and a row is there for each, whichever rank computes it
        ("mixtral-8x7b", {"tensor_parallel": 2, "expert_parallel": 2}, 2 * (2 * 14336 + 14336)),
        # eight replicas send each of eight ranks as many rows as its own tokens have
        ("DeepSeek-V3", {"attention_data_parallel": 8, "expert_parallel": 8}, 8 * (7168 + 2048)),
        ("DeepSeek-V3", {"attention_data_parallel": 8}, 8 * 8 * (7168 + 2048 // 8)),
        ("llama-3.1-8b", {}, 0),
    ],
)
def test_workspaces_of_experts(model: str, split: dict[str, int], elements: int) -> None:
    where = deployed(model, **split)
    assert max(expert_elements(layer, where) for layer, _ in where.model.kinds) == elements
    assert has_experts(where.model) is bool(elements)


@pytest.mark.parametrize("name", [entry.id for entry in catalogue()])
def test_no_rank_keeps_more_than_one_device_alone_would(name: str) -> None:
    alone = deployed(name)
    for layer, _ in alone.model.kinds:
        widest = [
            (dense_elements(layer, where), expert_elements(layer, where))
            for where in (alone, *(msgspec.structs.replace(alone, tensor_parallel=tp) for tp in (2, 8)))
        ]
        assert widest == sorted(widest, reverse=True)
        assert widest[-1][0] > 3 * layer.hidden or not any(flow.kind == "last" for flow in flows(layer, alone))
