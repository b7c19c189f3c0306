"""Facts of an engine hold from a version on; unknown versions get the nearest facts, and ranges are refused."""

from __future__ import annotations

import pytest

from narrows.deployment import deploy
from narrows.engines import find_engine
from narrows.engines.version import parse_version
from narrows.hardware import find_accelerator
from narrows.memory import reserve
from narrows.memory.activations import graphs_inside, sampler_of
from narrows.models import load_model
from narrows.text import BadInput


@pytest.mark.parametrize(
    ("written", "version"),
    [
        ("0.32", (0, 32, 0)),
        ("v0.8.5", (0, 8, 5)),
        ("0.6.4.post1", (0, 6, 4)),
        ("0.11.0+torch271", (0, 11, 0)),
        ("0.19.2rc1", (0, 19, 2)),
        ("v0.19.2rc1.dev134+gfe9c3d6c5", (0, 20, 0)),
        ("newest", None),
        ("", None),
        ("1", None),
    ],
)
def test_versions_are_read_as_logs_write_them(written: str, version: tuple[int, int, int] | None) -> None:
    assert parse_version(written) == version


@pytest.mark.parametrize(
    ("engine", "utilization", "graphs", "nccl"),
    [
        ("vllm==0.6.4.post1", 0.9, False, True),
        ("vllm==0.11.0", 0.9, False, True),
        ("vllm==0.11.1", 0.9, False, False),
        ("vllm==0.19.1", 0.9, False, False),
        ("vllm==0.20.0", 0.92, True, False),
        ("vllm==0.24", 0.92, True, False),
        ("vllm", 0.92, True, False),
    ],
)
def test_the_memory_law_follows_the_version(engine: str, utilization: float, graphs: bool, nccl: bool) -> None:
    facts = find_engine(engine)
    assert (facts.gpu_memory_utilization, facts.graphs_in_budget, facts.nccl_in_budget) == (utilization, graphs, nccl)
    assert facts.assumptions == ()


@pytest.mark.parametrize(
    ("engine", "sampler", "graphs"),
    [
        ("0.24", "flashinfer", True),
        ("0.25", "none", False),
        ("0.26", "second_runner", False),
        ("0.28", "second_runner", True),
    ],
)
def test_what_the_second_runner_counts_for_a_dense_model(engine: str, sampler: str, graphs: bool) -> None:
    one = deploy(load_model("llama-3.1-8b"), find_accelerator("l40s"), engine=f"vllm=={engine}")
    assert (sampler_of(one), graphs_inside(one)) == (sampler, graphs)


def test_intervals_are_wider_for_versions_without_a_scored_start() -> None:
    widths = []
    for engine in ("0.22.1", "0.23"):
        one = reserve(deploy(load_model("llama-3.1-8b"), find_accelerator("l40s"), engine=f"vllm=={engine}"))
        widths.append(one.high - one.low)
        assert ("too few starts of" in " ".join(map(str, one.basis))) == (engine == "0.23")
    assert widths[1] > 2 * widths[0]


def test_every_fact_names_its_source() -> None:
    for engine in ("vllm==0.5", "vllm==0.9", "vllm"):
        sources = find_engine(engine).sources
        assert "scheduler_defaults" in sources
        assert all(len(source) > 20 for source in sources.values())


@pytest.mark.parametrize(
    ("asked", "taken"),
    [("0.1", "0.4"), ("0.3.3", "0.4"), ("0.33", "0.32"), ("1.0", "0.32"), ("0.32.1", "0.32.1")],
)
def test_an_unknown_version_takes_the_nearest_facts_and_says_so(asked: str, taken: str) -> None:
    facts = find_engine(f"vllm=={asked}")
    assert facts.label == f"vllm=={taken}"
    said = [str(text) for text in facts.assumptions]
    assert said == (
        [] if asked == taken else [f"vllm {asked} is not known yet; the facts of {taken}, the nearest known, are taken"]
    )
    deployment = deploy(load_model("llama-2-7b"), find_accelerator("l40s"), engine=f"vllm=={asked}")
    assert [str(text) for text in deployment.assumptions] == said


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("vllm>=0.6", "name one version, such as vllm==0.32"),
        ("vllm<1", "range"),
        ("vllm 0.6", "with =="),
        ("vllm==latest", "not a version of vllm"),
        ("vllm==", "not a version of vllm"),
        ("tgi", "not known"),
        ("", "not known"),
        ("==0.6", "not known"),
    ],
)
def test_what_is_no_version_is_refused(text: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        find_engine(text)


@pytest.mark.parametrize(
    ("engine", "gpu", "tokens", "sequences"),
    [
        ("0.6.6", "h100-sxm", 4096, 256),  # V0: whole prompts
        ("0.8.1", "a100-sxm-80gb", 2048, 1024),
        ("0.8.5", "a100-sxm-80gb", 2048, 256),
        ("0.8.5", "h100-sxm", 8192, 1024),
        ("0.8.5", "mi300x", 4096, 256),  # V0 too, where V1 is not the default yet
        ("0.10", "mi300x", 8192, 1024),
        ("0.10", "a100-sxm-80gb", 2048, 256),
        ("0.24", "b200-sxm", 8192, 1024),
        ("0.32", "b200-sxm", 16384, 1024),
    ],
)
def test_scheduler_defaults_follow_version_and_device(engine: str, gpu: str, tokens: int, sequences: int) -> None:
    one = deploy(load_model("llama-2-7b"), find_accelerator(gpu), engine=f"vllm=={engine}", max_length=4096)
    assert (one.max_num_batched_tokens, one.max_num_seqs) == (tokens, sequences)


def test_v0_cuts_prompts_into_chunks_above_32768_tokens() -> None:
    """vllm-project/vllm#10517: 29,000 tokens do not start where 35,000 do."""
    tokens = [
        deploy(
            load_model("llama-3.1-8b"), find_accelerator("rtx-3090"), engine="vllm==0.6.4", max_length=length
        ).max_num_batched_tokens
        for length in (1000, 29_000, 35_000)
    ]
    assert tokens == [2048, 29_000, 512]


def test_a_development_build_has_the_facts_of_the_release_it_leads_to() -> None:
    facts = find_engine("vllm==v0.19.2rc1.dev134+gfe9c3d6c5")
    assert facts.graphs_in_budget
    assert "development build" in str(facts.assumptions[0])
