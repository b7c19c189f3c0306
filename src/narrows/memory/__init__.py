"""Where a device's bytes go: weights, KV cache, state, activations — and how much work fits beside the weights."""

from narrows.memory.available import Start, predicted_kv, start
from narrows.memory.capacity import Capacity, capacity, growth
from narrows.memory.ledger import Ledger, ledger, reserve
from narrows.memory.reserve import Reserve
from narrows.memory.shard import Shard, binding_shard, shards

__all__ = [
    "Capacity",
    "Ledger",
    "Reserve",
    "Shard",
    "Start",
    "binding_shard",
    "capacity",
    "growth",
    "ledger",
    "predicted_kv",
    "reserve",
    "shards",
    "start",
]
