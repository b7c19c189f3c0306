"""The ledger of one device: every byte of its usable memory under one name, adding up exactly."""

from __future__ import annotations

import msgspec

from narrows.calibration import Coefficients, coefficients
from narrows.calibration.store import correction_for
from narrows.deployment import Deployment
from narrows.memory.activations import (
    Peak,
    captures,
    encoded_tokens,
    graphs_inside,
    peak,
    vision_bytes,
)
from narrows.memory.adapters import adapter_bytes
from narrows.memory.delta import delta_note, delta_term
from narrows.memory.draft import UNSCORED, draft_buffers, draft_notes, draft_tables, drafting_layers
from narrows.memory.offload import copied_bytes, offload_notes
from narrows.memory.reserve import Reserve
from narrows.memory.resident import loaded_beside
from narrows.memory.shard import Shard, binding_shard, shards
from narrows.models.experts import has_experts
from narrows.text import Text
from narrows.units import binary

GRAPH_BASE = 15
"""The first capture takes as much as this many: servers with 2 to 5 captures report 0.06 GiB, with 86 about 0.3."""


_NVLINK_SHARP = (9, 10)
"""Major compute capabilities of devices whose NVLink reduces in the switch: data-centre Hopper and Blackwell."""

UNMEASURED = 3.0
"""Intervals of versions newer than the newest scored one are this many times as wide.

Of 21 start-up reports found after the fit, 10 are of such versions. With this width all 10 lie inside.
"""


class Ledger(msgspec.Struct, frozen=True, omit_defaults=True):
    """Bytes per device: the others add up to `usable`.

    `others` is what other processes hold (in JSON only where they hold any). `unclaimed` lies outside the engine's
    utilization (where older versions capture graphs); `free` is what its share leaves over (negative: short of).
    """

    usable: int
    weights: int
    kv_cache: int
    state: int
    activations: int
    graphs: int
    runtime: int
    unclaimed: int
    free: int
    others: int = 0


def reserve(deployment: Deployment, given: Coefficients | None = None) -> Reserve:
    """Activation peak, CUDA graphs and runtime: first principles with the coefficients of the engine, and an interval.

    runtime is what the process takes outside its allocator while it runs: kernels and workspaces, and the
    communication library's buffers in versions that measure before it starts. given: other coefficients.
    """
    if deployment.engine.name == "llama.cpp":
        from narrows.memory.llamacpp import llama_reserve

        return llama_reserve(deployment, given)
    if deployment.engine.name == "sglang":
        from narrows.memory.sglang import sglang_reserve

        found = sglang_reserve(deployment, given)
        return found if given is not None else _corrected(found, deployment)
    known = coefficients(deployment.engine.name) if given is None else given
    moments = peak(deployment, known)
    cached = int(known["reserved_bytes"].value) if deployment.engine.counts_reserved else 0
    runtime, runtime_basis = _runtime(deployment, known)
    delta = delta_term(deployment, known)
    runtime += int(delta.value) if delta is not None else 0
    per_layer = known[graph_name(deployment)]
    each = per_layer.value * layers_of(deployment)
    old = known["graph_times_old_driver"].value if old_driver(deployment) else 1.0
    graphs = int((captures(deployment) + GRAPH_BASE) * each * old) if deployment.graphs else 0
    inside = graphs_inside(deployment)
    fewest, most_graphs, driver_basis = _graph_interval(deployment, known, graphs)
    copied = copied_bytes(deployment) + draft_buffers(deployment)
    estimated = moments.largest + copied + cached + runtime + (graphs if inside else 0)
    tables = loaded_beside(deployment) + draft_tables(deployment)
    error, scale = known[error_name(deployment)], spread(estimated)
    if not deployment.engine.measured and given is None:
        scale *= UNMEASURED
    elif deployment.draft is not None:
        scale *= UNSCORED
    least, most = (peak(deployment, _assumed_at(known, end)).largest - moments.largest for end in ("low", "high"))
    basis = [_peak_basis(deployment, moments, known), *_whole_towers(deployment), runtime_basis]
    if delta is not None:
        least, most = int(least + delta.low - delta.value), int(most + delta.high - delta.value)
        basis.append(delta_note(delta))
    basis += [*offload_notes(deployment), *draft_notes(deployment)]
    if deployment.adapters is not None:
        basis.append(
            Text(
                "LoRA: room for {slots} adapters of rank {rank} takes {size} beside the weights, by the shapes of the "
                "matrices outside experts (not scored)",
                slots=deployment.adapters[0],
                rank=deployment.adapters[1],
                size=binary(adapter_bytes(deployment)),
            )
        )
    if cached:
        basis.append(
            Text(
                "{engine} counts what its allocator has reserved, {size} more than was in use at the peak ({basis})",
                engine=deployment.engine.label,
                size=binary(cached),
                basis=known["reserved_bytes"].told,
            )
        )
    if not deployment.engine.measured:
        basis.append(
            Text(
                "too few starts of {engine} were scored: the interval is {times} times as wide as for scored versions",
                engine=deployment.engine.label,
                times=int(UNMEASURED),
            )
        )
    if deployment.graphs:
        basis.append(
            Text(
                "graphs: {number} captures (and as much as {base} for the first) × {size} ({basis}), {where}",
                number=captures(deployment),
                base=GRAPH_BASE,
                size=binary(each),
                basis=per_layer.told,
                where=Text("inside the engine's share") if inside else Text("on top of the engine's share"),
            )
        )
        basis += driver_basis
    found = Reserve(
        moments.largest + copied + cached,
        graphs,
        runtime,
        tables,
        inside,
        tables + max(0, int(estimated + error.low * scale + least)),
        tables + int(estimated + error.high * scale + most),
        tuple(basis),
        graphs_low=fewest,
        graphs_high=most_graphs,
    )
    return found if given is not None else _corrected(found, deployment)


NEWER_DRIVER = 550
"""Major version of the driver from which graphs take little (CUDA 12.4, vllm-project/vllm#5517)."""


def driver_matters(deployment: Deployment) -> bool:
    """Whether a driver can be old: versions with graphs in their share come with CUDA 13, which needs R580."""
    return deployment.accelerator.vendor == "nvidia" and not deployment.engine.graphs_in_budget


def old_driver(deployment: Deployment) -> bool:
    """Whether the driver is known to be one that keeps more for graphs."""
    return driver_matters(deployment) and deployment.driver is not None and deployment.driver < NEWER_DRIVER


def _graph_interval(deployment: Deployment, known: Coefficients, graphs: int) -> tuple[int, int, list[Text]]:
    """(least, most) that graphs take, and what is said of the driver."""
    each, old = known[graph_name(deployment)], known["graph_times_old_driver"]
    if not graphs or deployment.accelerator.vendor != "nvidia":
        return graphs, graphs, []
    least, most = int(graphs * each.low / each.value), graphs * each.high / each.value
    if not driver_matters(deployment) or (deployment.driver or 0) >= NEWER_DRIVER:
        return least, int(most), []
    if deployment.driver is not None:
        told = Text(
            "graphs: {times} times as much with driver {driver} ({basis})",
            times=old.value,
            driver=deployment.driver,
            basis=old.told,
        )
        return least, int(most), [told]
    return (
        least,
        int(most * old.value),
        [
            Text(
                "graphs: up to {times} times as much with a driver before {newer} ({basis})",
                times=old.value,
                newer=NEWER_DRIVER,
                basis=old.told,
            )
        ],
    )


def _corrected(found: Reserve, deployment: Deployment) -> Reserve:
    """The reserve with what starts on record showed: more KV than predicted means that less was reserved."""
    applied = correction_for(
        deployment.engine.name,
        deployment.engine.version,
        deployment.accelerator.id,
        deployment.model.name,
        deployment.tensor_parallel,
    )
    if applied is None:
        return found
    runtime = found.runtime - applied.kv_bytes
    activations = found.activations + min(0, runtime)
    moved = (max(0, activations) + max(0, runtime)) - (found.activations + found.runtime)
    return msgspec.structs.replace(
        found,
        activations=max(0, activations),
        runtime=max(0, runtime),
        low=max(0, found.low + moved),
        high=max(0, found.high + moved),
        basis=(*found.basis, applied.basis),
    )


def _assumed_at(known: Coefficients, end: str) -> Coefficients:
    """The coefficients with the assumed ones at one end of their interval: errors of fits say nothing of those."""
    return {
        name: one if one.n else msgspec.structs.replace(one, value=getattr(one, end)) for name, one in known.items()
    }


def layers_of(deployment: Deployment) -> int:
    """Layers of one rank: a captured graph holds the operators of each."""
    layers = sum(len(indices) for _, indices in deployment.model.kinds)
    return -(-layers // deployment.pipeline_parallel) + drafting_layers(deployment)


def graph_name(deployment: Deployment) -> str:
    """The coefficient of one captured layer: experts cut over devices take twice what others do."""
    cut = deployment.tensor_parallel > 1
    return "graph_bytes_per_layer_cut_experts" if cut and has_experts(deployment.model) else "graph_bytes_per_layer"


MEASURED_PEERS = 7
"""Further devices of the largest start whose log teaches NCCL's buffers: all have eight or fewer, of one stage."""


def spread(estimated: float) -> float:
    """The unit in which errors of a reserve are stated: 100 MiB and a tenth of it. Bytes."""
    return 100 * 2**20 + estimated / 10


def _runtime(deployment: Deployment, known: Coefficients) -> tuple[int, Text]:
    used, peers = known[runtime_name(deployment)], deployment.count - 1
    if not peers:
        return int(used.value), Text("runtime: {basis}", basis=used.told)
    named = peer_name(deployment)
    if named is None:
        return int(used.value), Text("runtime: {basis}; NCCL's buffers are outside the engine's share", basis=used.told)
    each, reached = known[named], min(peers, MEASURED_PEERS)
    figures = {"basis": used.told, "peers": reached, "size": binary(each.value), "each": each.told}
    found = int(used.value + reached * each.value)
    if peers > reached:
        return found, Text(
            "runtime: {basis}; NCCL's buffers: {peers} peers × {size} ({each}), as of {devices} devices, the most that "
            "were measured; {count} are assumed to take no more, since rings and trees join each with a few others",
            **figures,
            devices=MEASURED_PEERS + 1,
            count=deployment.count,
        )
    return found, Text("runtime: {basis}; NCCL's buffers: {peers} peers × {size} ({each})", **figures)


def runtime_name(deployment: Deployment) -> str:
    """The coefficient that says what the process takes outside its allocator."""
    if deployment.accelerator.vendor == "amd":
        return "runtime_bytes_rocm"
    if deployment.count > 1:
        return "runtime_bytes_parallel"
    return "runtime_bytes_whole_prompts" if deployment.engine.whole_prompts else "runtime_bytes"


def peer_name(deployment: Deployment) -> str | None:
    """The coefficient of buffers for each further device that come out of the engine's share; None: none do."""
    if deployment.engine.nccl_in_budget:
        return "nccl_bytes_per_peer"
    capability = deployment.accelerator.capability
    if deployment.engine.nvlink_in_budget and capability is not None and capability[0] in _NVLINK_SHARP:
        return "nvlink_bytes_per_peer"
    return None


def error_name(deployment: Deployment) -> str:
    """The interval that a reserve has: by version, and by whether anything is there beside one device and text."""
    if deployment.engine.whole_prompts:
        return "reserve_error_whole_prompts"
    device = deployment.accelerator
    text_alone = not any(tower.served for tower in deployment.model.towers)
    if deployment.count == 1 and device.vendor == "nvidia" and device.memory_kind == "device" and text_alone:
        return "reserve_error"
    return "reserve_error_beyond_sorted" if deployment.engine.sampler == "sort" else "reserve_error_beyond"


def _whole_towers(deployment: Deployment) -> list[Text]:
    """What is said of towers that the engine may cut, and that are counted uncut.

    vLLM cuts a tower's layers as it cuts the decoder's (mm_encoder_tp_mode "weights", its default), where the tower's
    code can: which one can is not on record.
    """
    looking = any(one.served and not one.reads and one.name.endswith("tower") for one in deployment.model.towers)
    if deployment.tensor_parallel == 1 or not looking:
        return []
    return [Text("weights: towers beside the decoder are counted whole on every rank, though the engine may cut them")]


def _peak_basis(deployment: Deployment, moments: Peak, known: Coefficients) -> Text:
    if moments.largest == moments.sampling and moments.sampler != "none":
        per_logit = known[f"sampler_{moments.sampler}_bytes_per_logit"]
        return Text(
            "activations: {sequences} sequences × {vocab} logits × {bytes} B of sampler work ({basis})",
            sequences=moments.rows,
            vocab=deployment.model.vocab,
            bytes=per_logit.value,
            basis=per_logit.told,
        )
    if moments.largest == moments.vision:
        tower = max(
            (one for one in deployment.model.towers if one.served and not one.reads),
            key=lambda one: vision_bytes(deployment, one, known),
        )
        return Text(
            "activations: images of a step of {tokens} tokens, {patches} patches per token ({basis})",
            tokens=encoded_tokens(deployment, tower),
            patches=tower.patches,
            basis=known["vision_copies"].told,
        )
    copies = known["forward_copies"]
    return Text(
        "activations: {tokens} tokens × {size} at the widest layer ({basis})",
        tokens=deployment.max_num_batched_tokens,
        size=binary(moments.forward / deployment.max_num_batched_tokens),
        basis=copies.told,
    )


def binding(deployment: Deployment, found: list[Shard], kept: Reserve) -> Shard:
    """The rank that decides for all: the fewest sequences fit there; in a pool of given size, the largest ones."""
    if deployment.kv_cache_bytes is not None:
        return max(found, key=lambda shard: (shard.sequence_bytes(deployment.max_length), shard.weights))
    room = share_of(deployment, kept) - kept.claimed - deployment.others_inside
    return binding_shard(found, room, deployment.max_length)


def share_of(deployment: Deployment, kept: Reserve) -> int:
    """Bytes of a device that the engine's share is: of all of it, or (SGLang) of what is free before it loads."""
    if deployment.engine.name == "sglang":
        from narrows.memory.sglang import sglang_share

        return sglang_share(deployment, kept)
    return deployment.budget


def claim(deployment: Deployment, shard: Shard, kept: Reserve) -> int:
    """Bytes of a device that the engine takes for itself: its share, or what a pool of given size needs in all."""
    if deployment.kv_cache_bytes is None:
        return share_of(deployment, kept)
    return shard.weights + kept.claimed + deployment.kv_cache_bytes


def pool_of(deployment: Deployment, shard: Shard, kept: Reserve) -> int:
    """Bytes for KV cache and state on a rank; negative by how much weights, reserve and pool exceed the device."""
    claimed = claim(deployment, shard, kept)
    if deployment.kv_cache_bytes is not None:
        left = deployment.usable - deployment.memory_in_use - claimed
        return deployment.kv_cache_bytes if left >= 0 else left
    return min(claimed, deployment.usable) - kept.claimed - shard.weights - deployment.others_inside


def ledger(deployment: Deployment, batch: int, length: int, *, shard: Shard | None = None) -> Ledger:
    """The ledger of the binding rank with `batch` sequences of `length` tokens in memory."""
    kept = reserve(deployment)
    if shard is None:
        shard = binding(deployment, shards(deployment), kept)
    kv, state = batch * shard.kv_bytes(length), batch * shard.state
    inside = deployment.others_inside if deployment.kv_cache_bytes is None else 0
    beside = deployment.memory_in_use - inside
    share = min(claim(deployment, shard, kept), deployment.usable - beside)
    outside = min(kept.total - kept.claimed, deployment.usable - beside - share)
    return Ledger(
        usable=deployment.usable,
        weights=shard.weights + kept.tables,
        kv_cache=kv,
        state=state,
        activations=kept.activations,
        graphs=kept.graphs,
        runtime=kept.runtime,
        unclaimed=deployment.usable - beside - share - outside,
        free=share + outside - inside - kept.total - shard.weights - kv - state,
        others=deployment.memory_in_use,
    )
