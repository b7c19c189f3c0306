"""Which of an engine's cores runs a deployment, in versions that have two (vLLM 0.8 to 0.10.1), and its step."""

from __future__ import annotations

from narrows.engines import Engine, SchedulerDefault, on_first_core
from narrows.engines.types import FallsBack
from narrows.hardware import Accelerator
from narrows.models import ModelSpec
from narrows.models.mixers import Chain, LatentAttention
from narrows.models.spec import Layer
from narrows.precision import Format
from narrows.precision.per_tensor import PerTensor
from narrows.text import BadInput, Text

_LEAST_MAJOR = 8
"""Compute capability from which V1 runs in those versions: FlashAttention needs Ampere (vllm-project/vllm#13726)."""
_HOPPER = (9, 0)
_IMAGES = 5120
"""Tokens of a step that V0 gives models with images at least (vLLM's SchedulerConfig)."""


def core_of(
    engine: Engine,
    model: ModelSpec,
    device: Accelerator,
    *,
    dtype: Format,
    kv: Format,
    pipeline_parallel: int,
    asked: str | None,
    assumptions: list[Text],
) -> Engine:
    """The engine with the facts of the core that runs this. asked: the core that its user named (VLLM_USE_V1)."""
    if engine.core != "V1":
        return engine
    if asked is not None:
        assumptions.append(Text("{engine} runs on its engine core {core}, as told", engine=engine.label, core=asked))
        return on_first_core(engine) if asked == "V0" else engine
    for one in engine.first_core:
        why = _why(one, model, device, dtype, kv, pipeline_parallel)
        if why is not None:
            assumptions.append(
                Text(
                    "{engine} runs this on its older engine core, V0, with that core's defaults: {why}",
                    engine=engine.label,
                    why=why,
                )
            )
            return on_first_core(engine)
    assumptions.append(Text("{engine} runs this on its engine core V1", engine=engine.label))
    return engine


def _why(
    rule: FallsBack, model: ModelSpec, device: Accelerator, dtype: Format, kv: Format, pipeline_parallel: int
) -> Text | None:
    """Why a rule of the engine's list holds here; None where it does not."""
    nvidia = device.vendor == "nvidia"
    if rule == "old device" and nvidia and device.capability is not None and device.capability[0] < _LEAST_MAJOR:
        return Text(
            "{gpu} has compute capability {capability}, and V1 needs 8.0",
            gpu=device.name,
            capability=device.compute_capability or "",
        )
    if rule == "GGUF" and isinstance(model.precision.scheme, PerTensor):
        return Text("V1 does not take GGUF files in this version")
    if rule == "float32" and dtype.bits == 32:
        return Text("V1 does not take float32 in this version")
    if rule in ("fp8 cache", "fp8 cache but Hopper") and nvidia and kv.bits == 8:
        if rule == "fp8 cache" or device.capability != _HOPPER:
            return Text("V1 does not take an 8-bit KV cache on this device in this version")
    elif rule == "pipeline" and pipeline_parallel > 1:
        return Text("V1 runs pipelines only by Ray in this version")
    elif rule == "other vendors" and not nvidia:
        return Text("V1 is not the default on {gpu} in this version", gpu=device.name)
    return None


def step_of(
    engine: Engine,
    model: ModelSpec,
    device: Accelerator,
    length: int,
    default: SchedulerDefault,
    sequences: int | None = None,
) -> int:
    """The default of max_num_batched_tokens.

    V0 leaves some prompts whole at any length, those of images, latent attention and windows, and gives images a step
    of at least 5,120 tokens. Source: vLLM's EngineArgs and SchedulerConfig (Apache-2.0).
    """
    if engine.name != "vllm":
        return engine.step_tokens(length, default, device.compute_capability, sequences)
    images = any(tower.served and not tower.reads and tower.name.endswith("tower") for tower in model.towers)
    windows = any(row.window for _, row in model.cache_rows())
    uncut = engine.whole_prompts and (images or windows or any(latent_parts(layer) for layer, _ in model.kinds))
    step = engine.step_tokens(length, default, device.compute_capability, sequences, uncut=uncut)
    counted = engine.whole_prompts and not engine.counts_reserved
    return max(step, _IMAGES) if images and counted else step


def latent_parts(layer: Layer) -> list[LatentAttention]:
    """The layer's latent attention."""
    mixer = layer.mixer
    parts = mixer.parts if isinstance(mixer, Chain) else (mixer,)
    return [part for part in parts if isinstance(part, LatentAttention)]


def one_token_each(sequences: int, tokens: int) -> None:
    """vLLM's SchedulerConfig refuses a step that does not hold a token of every sequence (all versions)."""
    if tokens < sequences:
        raise BadInput(
            "--max-num-batched-tokens is {tokens}, less than --max-num-seqs {sequences}: vLLM refuses that; raise the "
            "first or lower the second",
            tokens=tokens,
            sequences=sequences,
        )


def within_step(tokens: int, sequences: int, engine: Engine, assumptions: list[Text]) -> int:
    """Sequences that run at once where only a step of fewer tokens than that is given.

    Said in `assumptions`. Raises BadInput where this version of the engine refuses it.
    """
    if not engine.sequences_within_tokens:
        raise BadInput(
            "--max-num-batched-tokens is {tokens}, less than the {sequences} sequences that {engine} runs by itself, "
            "which it refuses; add --max-num-seqs {tokens} or raise it",
            tokens=tokens,
            sequences=sequences,
            engine=engine.label,
        )
    assumptions.append(
        Text(
            "max_num_seqs is taken as {tokens}: the engine lowers its own {sequences} to the tokens of a step",
            tokens=tokens,
            sequences=sequences,
        )
    )
    return tokens
