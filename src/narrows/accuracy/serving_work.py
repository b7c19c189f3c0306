"""What a measured server did in one of its steps: the terms that a law of steps multiplies, and the plain rooflines.

A server under `concurrency` requests decodes them together, as many as its memory holds, at the mean context of a
request; each step also carries its share of the prompts that come in (sequences ÷ output tokens of each), unless other
servers take the prompts: then no more decode than those feed. Of a prompt that is cut into chunks, the chunks' linear
layers are added up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from narrows.accuracy.gemm import PLAIN_BANDWIDTH, PLAIN_PEAK
from narrows.accuracy.serving_records import OLD, ServingRecord, deployed
from narrows.calibration.laws import Law
from narrows.deployment import Deployment
from narrows.memory.shard import binding_shard, shards
from narrows.models.experts import has_experts
from narrows.roofline.arithmetic import larger
from narrows.roofline.cost import Costs
from narrows.roofline.engine_overhead import KINDS, NAMES, VECTORS, asked_of, exposed, few, kind_of
from narrows.step import Batch, Chunk, Plan, plan_of
from narrows.text import BadInput, Text

CHUNK = 8192
"""Tokens of a prompt that a step takes at most; engines differ between 2,048 and 16,384."""
CLAIMED = 0.92
"""Share of the usable memory that a server fills (vLLM's default; the others are near)."""
PROMPTS_PEAK = 0.57
"""Share of the roofline that prompts reach in a server (of the model of three constants)."""
RUNTIME_BYTES = 3e9
"""What it keeps beside weights and cache."""
TALKS = ("all_reduce", "exchange")
MIXED = ("vllm", "tensorrt-llm")
"""Engines that run pieces of prompts in the same step as decodes; SGLang runs them in steps of their own (its flag
`--enable-mixed-chunk` is off unless given)."""


class Work(NamedTuple):
    """One record as numbers. terms: what the values of a law multiply, in the order of `engine_overhead.NAMES`.

    limit: seconds that no server can beat: weights and cache at the full bandwidth, or FLOPs at the peak. plain,
    three: the step by constant shares of peak and bandwidth, and by three constants. All of decode steps with their
    share of prompts, or of one prompt.
    """

    record: ServingRecord
    kind: str
    shape: str
    stored: str
    device_class: str
    terms: tuple[float, ...]
    limit: float
    plain: float
    three: float

    @property
    def launches(self) -> float:
        """Kernels and collectives of a step."""
        return self.terms[NAMES.index("gap")] + self.terms[NAMES.index("talk_gap")]

    @property
    def measured(self) -> float:
        """Seconds: of a token, or to the first one."""
        value = self.record.tpot if self.record.tpot is not None else self.record.ttft
        assert value is not None
        return value


def launched_eagerly(record: ServingRecord) -> bool:
    """Whether its engine launched each kernel of a step from Python: vLLM had no CUDA graphs before 0.2.7."""
    return record.engine == "vllm" and record.version == OLD


class _Sums:
    """The operators of one step, for arrays of batches, added up by kind."""

    def __init__(self, plan: Plan, costs: Costs, batch: Batch) -> None:
        device = plan.deployment.accelerator
        self.times: dict[str, Any] = dict.fromkeys(KINDS, 0.0)
        self.counts = dict.fromkeys(KINDS, 0)
        self.limit: Any = 0.0
        self.ideal: Any = 0.0
        self.plain: Any = 0.0
        self.large: Any = 0.0
        self.routed: Any = 0.0
        self.exposed = exposed(batch)
        for operator in plan.operators(batch):
            kind, times = kind_of(operator), operator.count
            time, near = costs(operator).time, few(operator, device)
            if kind == "experts":
                self.routed = self.routed + times * time
            self.times[kind] = self.times[kind] + times * time * near
            self.large = self.large + times * time * (1 - near)
            self.counts[kind] += times
            if kind not in TALKS:
                compute = operator.flops / device.peak(operator.precision)
                self.limit = self.limit + times * larger(compute, operator.kept / device.memory_bandwidth)
                moved = operator.bytes / device.memory_bandwidth
                self.ideal = self.ideal + times * larger(compute, moved)
                self.plain = self.plain + times * larger(compute / PLAIN_PEAK, moved / PLAIN_BANDWIDTH)

    @property
    def kernels(self) -> int:
        """How many kernels run, collectives apart."""
        return sum(count for kind, count in self.counts.items() if kind not in TALKS)

    @property
    def talks(self) -> int:
        """How many collectives run."""
        return sum(self.counts[kind] for kind in TALKS)

    def own(self) -> Any:
        """Seconds of all kernels but collectives."""
        return self.large + sum(self.times[kind] for kind in KINDS if kind not in TALKS)

    def network(self) -> Any:
        """Seconds of collectives."""
        return sum(self.times[kind] for kind in TALKS)


class Unworkable(NamedTuple):
    """A record that narrows can make no step of, and why."""

    record: ServingRecord
    reason: Text


def works(
    records: Sequence[ServingRecord], ggml: Sequence[Law] | None = None
) -> tuple[tuple[Work, ...], tuple[Unworkable, ...]]:
    """All records as numbers, and those that cannot be deployed. Decode where a record has `tpot`, else its prompt.

    ggml: laws of llama.cpp's kernels that are being fitted, in place of the shipped ones.
    """
    groups: dict[int, list[ServingRecord]] = defaultdict(list)
    deployments: dict[int, Deployment] = {}
    left: list[Unworkable] = []
    for record in records:
        try:
            deployment = deployed(record)
        except BadInput as error:
            left.append(Unworkable(record, error.text))
            continue
        deployments[id(deployment)] = deployment
        groups[id(deployment)].append(record)
    found: list[Work] = []
    for key, group in groups.items():
        deployment = deployments[key]
        try:
            plan, costs = plan_of(deployment), Costs(deployment, bare=True, ggml=ggml)
            # its own collectives; of TensorRT-LLM's attention, measured apart, servers show nothing
            costs.library = group[0].engine
            costs.by_vectors = group[0].engine in VECTORS
            for part, of in ((True, _decodes), (False, _prompts)):
                chosen = [one for one in group if (one.tpot is not None) is part]
                if chosen:
                    found += of(chosen, plan, costs)
        except BadInput as error:
            left += [Unworkable(record, error.text) for record in group]
    order = {id(record): i for i, record in enumerate(records)}
    found.sort(key=lambda work: order[id(work.record)])
    return tuple(found), tuple(left)


def room(deployment: Deployment, length: int) -> float:
    """Sequences of `length` tokens that the cache of one replica holds.

    A server that ran holds one at least: where none is left by this reckoning, how many it holds is not known.
    """
    free = int(deployment.usable * CLAIMED - RUNTIME_BYTES)
    shard = binding_shard(shards(deployment), free, length)
    held = (free - shard.weights) / max(shard.sequence_bytes(length), 1)
    return held if held >= 1 else float("inf")


def _decodes(records: Sequence[ServingRecord], plan: Plan, costs: Costs) -> list[Work]:
    import numpy as np

    deployment = plan.deployment
    replicas, layers = deployment.attention_data_parallel, deployment.model.layers
    asked = [min(one.sequences / replicas, room(deployment, one.prompt + one.output)) for one in records]
    batch = np.array([max(1, round(each)) for each in asked], dtype=np.int64)
    context = np.array([one.prompt + one.output // 2 for one in records], dtype=np.int64)
    prompt = np.array([one.prompt for one in records], dtype=np.int64)
    batch = _fed(records, plan, costs, batch, context)
    steps = _Sums(plan, costs, Batch.decode(batch, context))  # type: ignore[arg-type]
    served = np.array([one.table == "silicon" or one.table == "vllm-bench" for one in records])
    alone = np.array([one.disaggregated for one in records])
    output = np.array([one.output for one in records])
    chunk = np.minimum(prompt, CHUNK)
    share = np.where(served & ~alone, batch / output, 0.0) * -(-prompt // CHUNK)
    # chunks that one step takes together, where more than one comes in per step
    together = np.clip(share.round(), 1, np.maximum(CHUNK // chunk, 1)).astype(np.int64)
    often = share / together
    decode, prompts = Batch.decode(batch, context), Batch((Chunk(together, chunk),))  # type: ignore[arg-type]
    own, network = _beside(plan, costs, decode, prompts, records[0].engine in MIXED)
    single = _Sums(plan, costs, Batch.prefill(chunk))  # type: ignore[arg-type]
    zero = np.zeros(len(records))
    columns = [
        *(steps.times[kind] + zero for kind in KINDS),
        steps.large + zero,
        steps.kernels + zero,
        steps.talks + zero,
        layers + zero,
        1 + zero,
        batch + zero,
        zero,
        often * own,
        often * network,
        often * layers,
    ]
    three = 0.074e-3 * layers + steps.ideal / 0.93 + share * single.ideal / PROMPTS_PEAK
    plain = steps.plain + share * single.plain
    return _rows(records, deployment, columns, steps.limit + zero, plain + zero, three + zero)


def _fed(records: Sequence[ServingRecord], plan: Plan, costs: Costs, batch: Any, context: Any) -> Any:
    """Sequences that decode together where other servers take the prompts, which may be slower: those wait there.

    By Little's law as many decode as prompts come in while one does. Prompts are taken to reach `PROMPTS_PEAK`.
    """
    import numpy as np

    fed = np.array([one.disaggregated and one.prefill_servers is not None for one in records])
    if not fed.any():
        return batch
    replicas = plan.deployment.attention_data_parallel
    chunk = np.minimum(np.array([one.prompt for one in records], dtype=np.int64), CHUNK)
    pieces = np.array([one.prompt for one in records]) / chunk
    alone = _Sums(plan, costs, Batch((Chunk(CHUNK // chunk, chunk),)))  # type: ignore[arg-type]
    # of one prompt on a device, were all its work shared out
    seconds = pieces * alone.ideal / PROMPTS_PEAK / (CHUNK // chunk) * plan.deployment.count / replicas
    takers = [(one.prefill_servers or 0) * (one.prefill_devices or 0) / (one.servers or 1) for one in records]
    output = np.array([one.output for one in records])
    incoming = np.array(takers) / seconds / replicas
    most, found = batch, batch
    for _ in range(6):
        steps = _Sums(plan, costs, Batch.decode(found, context))
        enough = np.rint(incoming * output * (steps.own() + steps.network()))
        found = np.where(fed, np.clip(enough, 1, most), most).astype(np.int64)
    return found


def _beside(plan: Plan, costs: Costs, decode: Batch, prompts: Batch, mixed: bool) -> tuple[Any, Any]:
    """Seconds that pieces of prompts add to steps that decode: (kernels, collectives).

    mixed: in one step with decodes, whose tokens touch most experts already: of those counts what they take longer.
    Dense layers compute a piece about as long as they do apart, for its arithmetic is what takes their time.
    """
    apart = _Sums(plan, costs, prompts)
    if not (mixed and has_experts(plan.deployment.model)):
        return apart.own(), apart.network()
    both = _Sums(plan, costs, Batch((*decode.chunks, *prompts.chunks)))
    longer = both.routed - _Sums(plan, costs, decode).routed
    return apart.own() - apart.routed + longer, apart.network()


def _prompts(records: Sequence[ServingRecord], plan: Plan, costs: Costs) -> list[Work]:
    import numpy as np

    deployment = plan.deployment
    prompt = np.array([one.prompt for one in records], dtype=np.int64)
    sums = _Sums(plan, costs, Batch.prefill(prompt))  # type: ignore[arg-type]
    zero = np.zeros(len(records))
    layers = deployment.model.layers
    columns = [
        *(sums.times[kind] + zero for kind in KINDS),
        sums.large + zero,
        sums.kernels + zero,
        sums.talks + zero,
        layers + zero,
        1 + zero,
        1 + zero,
        layers * sums.exposed + zero,
        zero,
        zero,
        zero,
    ]
    three = 0.074e-3 * layers + sums.ideal / PROMPTS_PEAK
    return _rows(records, deployment, columns, sums.limit + zero, sums.plain + zero, three + zero)


def _rows(
    records: Sequence[ServingRecord], deployment: Deployment, columns: Sequence[Any], limit: Any, plain: Any, three: Any
) -> list[Work]:
    key = asked_of(deployment)
    kind = "experts" if has_experts(deployment.model) else "dense"
    device_class = key.devices[1] if len(key.devices) > 2 else key.devices[0]
    return [
        Work(
            record,
            kind,
            key.model,
            key.precision,
            device_class,
            tuple(float(column[i]) for column in columns),
            float(limit[i]),
            float(plain[i]),
            float(three[i]),
        )
        for i, record in enumerate(records)
    ]
