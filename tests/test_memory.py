"""The ledger adds up, capacity follows from it, and parallelism shares or replicates as engines do."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrows.deployment import Deployment, deploy, stages
from narrows.hardware import find_accelerator
from narrows.memory import capacity, growth, ledger, reserve, shards
from narrows.memory.capacity import longest
from narrows.models import load_model
from narrows.text import BadInput
from narrows.units import GIB

NAMES = (
    "llama-2-7b",
    "llama-3.1-8b",
    "deepseek-v2-lite",
    "gemma-3-27b",
    "gpt-oss-20b",
    "jamba-v0.1",
    "qwen3-next-80b-a3b",
    "qwen3-30b-a3b-fp8",
    "mixtral-8x7b",
    "gpt2",
)


def on(gpu: str, model: str = "llama-2-7b", **options: object) -> Deployment:
    return deploy(load_model(model), find_accelerator(gpu), **options)  # type: ignore[arg-type]


def admitted(deployment: Deployment, batch: int, length: int) -> bool:
    """Whether the bytes are there, and the engine's pages too: all but its null block."""
    room = capacity(deployment)
    blocks = batch * room.pages.blocks_per_request(length)
    return ledger(deployment, batch, length).free >= 0 and (batch == 0 or blocks < room.blocks)


def test_the_engine_runs_at_most_max_num_seqs_at_once() -> None:
    room = capacity(on("l40s", max_length=4096, max_num_seqs=4))
    assert (room.max_batch, room.in_memory) == (4, 13)


@given(
    model=st.sampled_from(NAMES),
    gpu=st.sampled_from(("t4", "a10g", "l40s", "h100-sxm", "mi300x")),
    batch=st.integers(1, 300),
    length=st.integers(1, 200_000),
    utilization=st.floats(0.05, 1),
)
def test_the_terms_add_up_to_the_usable_memory(
    model: str, gpu: str, batch: int, length: int, utilization: float
) -> None:
    one = ledger(on(gpu, model, max_length=length, utilization=utilization), batch, length)
    terms = msgspec.structs.asdict(one)
    usable = terms.pop("usable")
    assert sum(terms.values()) == usable
    assert all(value >= 0 for name, value in terms.items() if name != "free")


@given(
    model=st.sampled_from(NAMES),
    gpu=st.sampled_from(("a10g", "l40s", "h100-sxm", "mi300x")),
    length=st.integers(1, 200_000),
)
def test_the_largest_batch_fits_and_one_more_does_not(model: str, gpu: str, length: int) -> None:
    deployment = on(gpu, model, max_length=length)
    room = capacity(deployment)
    if room.pool < 0:
        assert room.max_batch == 0
        assert ledger(deployment, 0, length).free < 0
        return
    assert admitted(deployment, room.in_memory, length)
    assert not admitted(deployment, room.in_memory + 1, length)
    assert room.max_batch == min(room.in_memory, deployment.max_num_seqs)


@given(model=st.sampled_from(NAMES), batch=st.integers(1, 64))
def test_the_longest_length_fits_and_one_more_token_does_not(model: str, batch: int) -> None:
    deployment = on("h200-sxm", model, max_length=1024)
    room = capacity(deployment, batch)
    limit = max(deployment.model.max_length, 1024)
    if room.max_length:
        assert admitted(deployment, batch, room.max_length)
    if room.max_length < limit:
        assert not admitted(deployment, batch, room.max_length + 1)


@given(model=st.sampled_from(NAMES), length=st.integers(1, 100_000), more=st.integers(0, 100_000))
def test_a_longer_sequence_never_costs_less(model: str, length: int, more: int) -> None:
    shard = shards(on("h100-sxm", model))[0]
    assert shard.sequence_bytes(length) <= shard.sequence_bytes(length + more)


@given(model=st.sampled_from(NAMES), length=st.integers(1, 100_000))
def test_fewer_bits_never_cost_more(model: str, length: int) -> None:
    formats = ("fp8", "bf16", "fp32")
    sizes = [shards(on("h100-sxm", model, kv_cache_dtype=kv, dtype="float32"))[0].kv_bytes(length) for kv in formats]
    assert sizes == sorted(sizes)
    weights = [shards(on("h100-sxm", model, dtype=dtype))[0].weights for dtype in ("bf16", "fp32")]
    assert weights == sorted(weights)


@pytest.mark.parametrize("model", NAMES)
def test_weights_and_kv_per_rank_never_grow_with_tensor_parallelism(model: str) -> None:
    spec, before = load_model(model), None
    for tp in (1, 2, 4, 8, 16, 32):
        try:
            shard = shards(on("h100-sxm", model, tensor_parallel=tp))[0]
        except BadInput:
            continue
        now = (shard.weights, shard.kv_bytes(4096), shard.state)
        if before is not None:
            assert all(a <= b for a, b in zip(now, before, strict=True))
        # together, the ranks keep everything at least once
        assert tp * shard.kv_bytes(4096) >= spec.kv_bytes_per_sequence(4096, on("l40s", model).kv)
        before = now


def test_tensor_parallel_8_with_4_kv_heads_saves_nothing_beyond_4() -> None:
    per_rank = {
        tp: shards(on("h100-sxm", "qwen3-30b-a3b", tensor_parallel=tp))[0].kv_bytes(4096) for tp in (1, 2, 4, 8)
    }
    assert per_rank[1] == 2 * per_rank[2] == 4 * per_rank[4]
    assert per_rank[8] == per_rank[4]


def test_the_latent_of_mla_is_whole_on_every_rank() -> None:
    one, eight = (shards(on("h200-sxm", "deepseek-v3", tensor_parallel=tp))[0] for tp in (1, 8))
    assert one.kv_bytes(4096) == eight.kv_bytes(4096) == 61 * (512 + 64) * 2 * 4096
    assert eight.weights < one.weights / 7


def test_layers_that_are_not_served_take_no_memory() -> None:
    """DeepSeek-V3's files hold an MTP layer that an ordinary server does not load."""
    spec = load_model("deepseek-v3")
    shard = shards(on("h200-sxm", "deepseek-v3"))[0]
    assert 15e9 < spec.checkpoint_bytes() - shard.weights < 16e9


def test_a_tied_head_stands_in_the_last_stage_too() -> None:
    spec = load_model("llama-3.2-1b")
    whole = shards(on("l40s", "llama-3.2-1b"))[0].weights
    cut = shards(on("l40s", "llama-3.2-1b", pipeline_parallel=4))
    assert sum(shard.weights for shard in cut) == whole + 2 * spec.vocab * spec.hidden


@given(layers=st.integers(1, 300), pp=st.integers(1, 64))
def test_pipeline_stages_cover_every_layer_once(layers: int, pp: int) -> None:
    if pp > layers:
        return
    cut = stages(layers, pp)
    assert [i for stage in cut for i in stage] == list(range(layers))
    assert max(map(len, cut)) - min(map(len, cut)) <= 1


def test_leftover_layers_go_to_the_stages_before_the_last() -> None:
    assert [len(stage) for stage in stages(61, 4)] == [15, 15, 16, 15]


@pytest.mark.parametrize("model", NAMES)
def test_pipeline_stages_share_what_one_device_keeps(model: str) -> None:
    spec = load_model(model)
    cut = shards(on("h200-sxm", model, pipeline_parallel=2))
    whole = shards(on("h200-sxm", model))[0]
    assert sum(shard.kv_bytes(5000) for shard in cut) == whole.kv_bytes(5000)
    assert sum(shard.state for shard in cut) == whole.state
    extra = spec.vocab * spec.hidden * 2 if spec.head_tied else 0
    assert sum(shard.weights for shard in cut) == whole.weights + extra


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("llama-2-7b", {"tensor_parallel": 3}, "does not divide 32 attention heads"),
        ("llama-2-7b", {"tensor_parallel": 3}, "use one of: 1, 2, 4, 8, 16, 32"),
        ("llama-3.1-8b", {"tensor_parallel": 64}, "attention heads"),
        ("llama-2-7b", {"pipeline_parallel": 33}, "32 layers"),
        ("llama-2-7b", {"tensor_parallel": 0}, "from 1 to"),
        ("llama-2-7b", {"pipeline_parallel": -1}, "from 1 to"),
        ("llama-2-7b", {"tensor_parallel": True}, "from 1 to"),
        ("llama-2-7b", {"max_length": 0}, "--max-len"),
        ("llama-2-7b", {"max_length": 10**12}, "--max-len"),
        ("llama-2-7b", {"utilization": 0.0}, "share"),
        ("llama-2-7b", {"utilization": 1.5}, "share"),
        ("llama-2-7b", {"utilization": float("nan")}, "share"),
        ("llama-2-7b", {"dtype": "int4"}, "--dtype"),
        ("llama-2-7b", {"kv_cache_dtype": "int4"}, "--kv-cache-dtype"),
        ("llama-2-7b", {"device_memory": -5}, "--memory"),
        ("llama-2-7b", {"engine": "tgi"}, "not known"),
        ("llama-2-7b", {"engine": "vllm>=0.6"}, "name one version"),
    ],
)
def test_what_cannot_run_is_refused(model: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        on("l40s", model, **options)


def test_defaults_of_the_scheduler_follow_the_device() -> None:
    found = {
        gpu: (d.max_num_batched_tokens, d.max_num_seqs)
        for gpu in ("a10g", "a100-sxm-80gb", "h100-sxm", "b200-sxm")
        if (d := on(gpu))
    }
    assert found == {
        "a10g": (2048, 256),
        "a100-sxm-80gb": (2048, 256),
        "h100-sxm": (8192, 1024),
        "b200-sxm": (16384, 1024),
    }


def test_a_float32_checkpoint_is_served_in_sixteen_bits_and_says_so() -> None:
    deployment = on("l40s", "gpt2")
    assert deployment.dtype.name == "bfloat16"
    assert any("served in bfloat16" in str(text) for text in deployment.assumptions)
    assert shards(deployment)[0].weights == 2 * load_model("gpt2").unique_parameters()


def test_eager_mode_needs_no_graphs() -> None:
    assert reserve(on("l40s", enforce_eager=True)).graphs == 0
    assert reserve(on("l40s")).graphs > 0


def test_the_reserve_of_llama_2_on_an_l40s_is_under_a_gibibyte() -> None:
    """The chapter's stricter ledger takes about 1 GiB for runtime and activations."""
    assert 0.5 * GIB < reserve(on("l40s")).total < 1.2 * GIB


def test_memory_grows_from_idle_to_peak() -> None:
    moments = growth(on("l40s", max_length=4096), 13, 2048)
    used = [one.usable - one.unclaimed - one.free for _, one in moments]
    assert [name for name, _ in moments] == ["loaded", "first prefill", "mid-decode", "peak"]
    assert used == sorted(used)
    assert moments[0][1].kv_cache == 0
    assert [one.kv_cache for _, one in moments[1:]] == [13 * tokens * 524_288 for tokens in (2048, 3072, 4096)]


def test_constant_state_is_counted_in_its_own_precision() -> None:
    """Jamba: 28 Mamba layers of 8192 channels; 4 conv inputs in bf16 and a state of 16 in fp32 per channel."""
    spec = load_model("jamba-v0.1")
    assert spec.state_elements() == 28 * 8192 * (4 + 16)
    assert spec.state_bytes_per_sequence() == 28 * 8192 * (4 * 2 + 16 * 4)
    assert shards(on("h100-sxm", "jamba-v0.1"))[0].state == spec.state_bytes_per_sequence()


def test_beyond_every_window_the_next_token_costs_nothing() -> None:
    spec = load_model("mistral-7b-v0.1")
    assert spec.kv_bytes_per_token(4095) == 131_072
    assert spec.kv_bytes_per_token(4096) == 0
    assert spec.kv_bytes_per_sequence(32768) == spec.kv_bytes_per_sequence(4096) == 512 * 2**20


def test_gemma_3_slides_by_default_in_five_layers_of_six() -> None:
    spec = load_model("gemma-3-27b")
    per_layer = 2 * 16 * 128
    assert spec.cache_elements(131072) == per_layer * (10 * 131072 + 52 * 1024)
    assert spec.vocab == 262208


@given(pool=st.integers(-(10**9), 10**12), batch=st.integers(1, 100))
def test_longest_never_exceeds_its_limit(pool: int, batch: int) -> None:
    shard = shards(on("l40s"))[0]
    assert 0 <= longest(shard, pool, batch, 4096) <= 4096


def test_a_pool_of_given_size_is_taken_whatever_the_utilization() -> None:
    room = capacity(on("l40s", max_length=4096, kv_cache_memory_bytes=8 * GIB))
    assert room.pool == 8 * GIB
    assert room.kv_tokens == 16384
    one = ledger(on("l40s", max_length=4096, kv_cache_memory_bytes=8 * GIB), 3, 4096)
    assert one.free == 2 * GIB
    too_much = capacity(on("a10g", max_length=4096, kv_cache_memory_bytes=12 * GIB))
    assert too_much.pool < 0
    assert too_much.max_batch == 0


def test_fp8_made_while_loading_halves_the_linear_weights() -> None:
    plain, made = (shards(on("l40s", "llama-3.1-8b", quantization=q))[0].weights for q in (None, "fp8"))
    tables = 2 * 2 * 128256 * 4096
    assert (made - tables) / (plain - tables) == pytest.approx(0.5, rel=1e-3)
    with pytest.raises(BadInput, match="--quantization"):
        on("l40s", "llama-3.1-8b", quantization="gptq")
