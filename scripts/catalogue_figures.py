"""Figures of the catalogue's models that do not come from narrows: plain arithmetic, and counts that others made.

The arithmetic shares no code with narrows; where the built modules were counted, or a count was published, both must
agree. What it does not cover (`COUNTED_ONLY`) has the counts alone.
"""

from __future__ import annotations

from typing import Any

from scripts.catalogue_entries import ENTRIES, KV, Config

COUNTED_ONLY = frozenset(
    """
    qwen3_vl qwen3_vl_moe qwen3_5 qwen3_5_moe deepseek_v32 gemma4 minimax_m2 glm_moe_dsa nemotron_h llama4 smollm3 lfm2
    phimoe phi granitemoe gpt_bigcode starcoder2 stablelm olmo2 falcon glm4 glm4_moe granitemoehybrid mamba2
    kimi_k25 deepseek_v4 mimo mimo_v2_flash nemotron-nas phi3_v qwen baichuan internlm internlm2 llava cohere deepseek
    """.split()  # noqa: SIM905
)
"""Families that the arithmetic below does not cover: their figures are counts of the built modules alone."""

PUBLISHED = {
    "Qwen/Qwen-VL-Chat": 9_656_935_168,
    "nvidia/Llama-3_3-Nemotron-Super-49B-v1": 49_867_145_216,
    "deepseek-ai/deepseek-moe-16b-base": 16_375_728_128,
    "microsoft/Phi-3.5-vision-instruct": 4_146_621_440,
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": 1_777_088_000,
    "google/gemma-3-4b-it": 4_300_079_472,
    "google/gemma-3-12b-it": 12_187_325_040,
    "google/gemma-3-27b-it": 27_432_406_640,
    "deepseek-ai/DeepSeek-V2": 235_741_434_880,
    "deepseek-ai/deepseek-coder-6.7b-instruct": 6_740_512_768,
    "meta-llama/Llama-4-Scout-17B-16E-Instruct": 108_641_793_536,
    "meta-llama/Llama-4-Maverick-17B-128E-Instruct": 401_583_781_376,
    "tiiuae/falcon-7b": 6_921_720_704,
    "zai-org/GLM-4-9B-0414": 9_400_279_040,
    "zai-org/GLM-4.5-Air": 106_852_245_504,
    "ibm-granite/granite-4.0-h-small": 32_207_337_984,
    "mistralai/Mamba-Codestral-7B-v0.1": 7_285_403_648,
}
"""Parameter counts the hub shows for models without a row of their own, or that vLLM's modules count (for GLM-4.5-Air
without the 45 × 128 router corrections, which are no parameters)."""

STORED = {
    "deepseek-ai/DeepSeek-V3": 684_531_386_000,
    "Qwen/Qwen3-32B-FP8": 32_764_027_904,
    "Qwen/Qwen3-30B-A3B-FP8": 30_533_947_392,
    "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic": 70_560_423_936,
    "Qwen/Qwen3-32B-AWQ": 5_731_472_384,
    "openai/gpt-oss-20b": 11_956_805_184,
    "openai/gpt-oss-120b": 63_081_444_672,
    "Qwen/Qwen3.5-27B": 27_781_427_952,
    "Qwen/Qwen3.5-35B-A3B": 35_951_822_704,
    "Qwen/Qwen3.5-122B-A10B": 125_086_497_008,
    "google/gemma-4-26B-A4B": 26_544_131_376,
}
"""Elements stored by checkpoints that are quantized or hold more than the model: the hub's totals (for gpt-oss each U8
byte counted once, not twice), and for the AWQ checkpoint the sum of its files' headers."""


def _attention(c: Config, hidden: int, heads: int, kv: int, dim: int) -> int:
    """Weights of grouped-query attention with the biases and norms of the family."""
    family = c["model_type"]
    count = 2 * hidden * heads * dim + 2 * hidden * kv * dim
    if family in ("qwen2", "qwen2_moe"):
        count += (heads + 2 * kv) * dim
    if c.get("attention_bias") or family == "gpt_oss":
        count += (heads + 2 * kv) * dim + hidden
    if family == "gpt_oss":
        count += heads  # sinks
    if family in ("qwen3", "qwen3_moe", "qwen3_next", "gemma3_text"):
        count += 2 * dim
    if family == "qwen3_next":
        count += hidden * heads * dim  # output gate
    return count


def _latent(c: Config) -> int:
    hidden, heads, rank = c["hidden_size"], c["num_attention_heads"], c["kv_lora_rank"]
    nope, rope, value = c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["v_head_dim"]
    q = heads * (nope + rope)
    low = c["q_lora_rank"]
    query = hidden * q if low is None else hidden * low + low + low * q
    result: int = query + hidden * (rank + rope) + rank + rank * heads * (nope + value) + heads * value * hidden
    return result


def _mamba(c: Config) -> int:
    hidden, n, conv, rank = c["hidden_size"], c["mamba_d_state"], c["mamba_d_conv"], c["mamba_dt_rank"]
    inner = c["mamba_expand"] * hidden
    projections = 3 * inner * hidden + inner * (rank + 2 * n) + (rank + 1) * inner
    result: int = projections + inner * n + inner + inner * (conv + 1) + rank + 2 * n
    return result


def _delta(c: Config) -> int:
    hidden, keys = c["hidden_size"], c["linear_num_key_heads"] * c["linear_key_head_dim"]
    heads = c["linear_num_value_heads"]
    values = heads * c["linear_value_head_dim"]
    qkv = 2 * keys + values
    projections = hidden * (qkv + values) + hidden * 2 * heads + values * hidden
    result: int = projections + qkv * c["linear_conv_kernel_dim"] + 2 * heads + c["linear_value_head_dim"]
    return result


def _experts(c: Config) -> tuple[int, int, int]:
    """(weights of all experts with router and shared ones, the part one token uses, width of a dense layer)."""
    hidden, family = c["hidden_size"], c["model_type"]
    total = c.get("n_routed_experts") or c.get("num_local_experts") or c.get("num_experts") or 0
    used = c.get("num_experts_per_tok") or 0
    width = c.get("moe_intermediate_size") or c["intermediate_size"]
    one = 3 * hidden * width + (2 * width + hidden if family == "gpt_oss" else 0)
    shared = 3 * hidden * width * (c.get("n_shared_experts") or 0)
    if family in ("qwen2_moe", "qwen3_next"):
        shared = 3 * hidden * c["shared_expert_intermediate_size"] + hidden
    router = hidden * total + (total if family == "gpt_oss" else 0)
    return total * one + shared + router, used * one + shared + router, c["intermediate_size"]


def _is_sparse(c: Config, layer: int) -> bool:
    family = c["model_type"]
    if family in ("deepseek_v2", "deepseek_v3", "kimi_k2"):
        return bool(layer >= c["first_k_dense_replace"])
    if family == "jamba":
        return bool(layer % c["expert_layer_period"] == c["expert_layer_offset"])
    return family in ("mixtral", "qwen2_moe", "qwen3_moe", "qwen3_next", "gpt_oss")


def _mixer_kind(c: Config, layer: int) -> str:
    """full, sliding, mamba or delta."""
    family = c["model_type"]
    if family == "jamba":
        return "full" if layer % c["attn_layer_period"] == c["attn_layer_offset"] else "mamba"
    if family == "qwen3_next":
        return "full" if (layer + 1) % c["full_attention_interval"] == 0 else "delta"
    if family in ("gemma2", "gpt_oss"):
        return ("sliding", "full")[layer % 2]
    if family == "gemma3_text":
        return "full" if (layer + 1) % 6 == 0 else "sliding"
    if family in ("mistral", "phi3", "mixtral"):
        return "sliding" if c.get("sliding_window") else "full"
    return "full"  # the Qwen files carried here all have use_sliding_window false


GEMMA3_DEFAULTS: Config = {
    "vocab_size": 262208,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "torch_dtype": "bfloat16",
}


def _vision(c: Config, text_hidden: int) -> int:
    h, inner, layers, patch = c["hidden_size"], c["intermediate_size"], c["num_hidden_layers"], c["patch_size"]
    side = c["image_size"] // patch
    block = 4 * (h * h + h) + 2 * h * inner + inner + h + 4 * h
    result: int = h * 3 * patch * patch + h + side * side * h + layers * block + 2 * h + h * text_hidden + h
    return result


def figures(config: Config) -> dict[str, int]:
    """Unique and active parameters, and cache elements of one sequence of 4096 and of 131072 tokens."""
    tower = 0
    if config["model_type"] == "gemma3":
        text = {**GEMMA3_DEFAULTS, **config["text_config"]}
        tower = _vision(config["vision_config"], text["hidden_size"])
        config = text
    if config["model_type"] == "gpt2":
        return _gpt2(config)
    c, family = config, config["model_type"]
    hidden, layers, heads = c["hidden_size"], c["num_hidden_layers"], c["num_attention_heads"]
    kv = c.get("num_key_value_heads") or heads
    dim = c.get("head_dim") or hidden // heads
    norms = 4 if family in ("gemma2", "gemma3_text") else 2
    tied = c.get("tie_word_embeddings", family.startswith("gemma"))
    total = active = tower + c["vocab_size"] * hidden * (1 if tied else 2) + hidden
    cache = {4096: 0, 131072: 0}
    every, used, width = _experts(c)
    mlp_bias = (2 * width + hidden) if c.get("mlp_bias") else 0
    for layer in range(layers):
        kind = _mixer_kind(c, layer)
        if kind == "mamba":
            mixer = _mamba(c)
        elif kind == "delta":
            mixer = _delta(c)
        elif "kv_lora_rank" in c:
            mixer = _latent(c)
        else:
            mixer = _attention(c, hidden, heads, kv, dim)
        sparse = _is_sparse(c, layer)
        plain = 3 * hidden * width + mlp_bias
        # DeepSeek-V3's router correction bias is a buffer, not a parameter
        total += mixer + norms * hidden + (every if sparse else plain)
        active += mixer + norms * hidden + (used if sparse else plain)
        if kind in ("full", "sliding"):
            per_token = c["kv_lora_rank"] + c["qk_rope_head_dim"] if "kv_lora_rank" in c else 2 * kv * dim
            for length in cache:
                kept = min(length, c["sliding_window"]) if kind == "sliding" else length
                cache[length] += per_token * kept
    return {
        "unique_parameters": total,
        "active_parameters": active,
        "cache_elements_4096": cache[4096],
        "cache_elements_131072": cache[131072],
    }


def _gpt2(c: Config) -> dict[str, int]:
    h, layers = c["n_embd"], c["n_layer"]
    total = (c["vocab_size"] + c["n_positions"]) * h + layers * (12 * h * h + 13 * h) + 2 * h
    return {
        "unique_parameters": total,
        "active_parameters": total,
        "cache_elements_4096": 2 * layers * h * 4096,
        "cache_elements_131072": 2 * layers * h * 131072,
    }


def expected(entries: list[dict[str, Any]], rows: dict[str, Any]) -> dict[str, Any]:
    """Figures of every entry; a count of the built modules, where there is one, must agree and is named."""
    table: dict[str, Any] = {}
    for entry in entries:
        hub_id = entry["id"]
        origin = (ENTRIES[hub_id] or (hub_id, {}, ""))[0]
        if entry["config"]["model_type"] in COUNTED_ONLY:
            table[hub_id] = _counted(hub_id, rows, origin)
            continue
        computed: dict[str, Any] = dict(figures(entry["config"]))
        counted = rows.get(hub_id, rows.get(origin.removeprefix(KV), {})).get("meta", {})
        checked = "arithmetic"
        altered = set((ENTRIES[hub_id] or ("", {}, ""))[1]) & {"vocab_size", "tie_word_embeddings"}
        if counted.get("total_params") and not altered:
            _agree(hub_id, "parameters", computed["unique_parameters"], counted["total_params"])
            active = (counted.get("moe") or {}).get("active_params")
            if active:
                _agree(hub_id, "active parameters", computed["active_parameters"], active)
            checked = "modules built from the config"
        if hub_id in PUBLISHED:
            _agree(hub_id, "published parameters", computed["unique_parameters"], PUBLISHED[hub_id])
            checked = "published count"
        computed["parameters_checked_by"] = checked
        if hub_id in STORED:
            computed["stored_elements"] = STORED[hub_id]
        table[hub_id] = computed
    return table


def _counted(hub_id: str, rows: dict[str, Any], origin: str) -> dict[str, Any]:
    """What the built modules count, or what the hub or an engine's own modules do."""
    if hub_id in PUBLISHED:
        return {"unique_parameters": PUBLISHED[hub_id], "parameters_checked_by": "published count"}
    counted = rows.get(hub_id, rows.get(origin, {}))["meta"]
    found = {"unique_parameters": counted["total_params"], "parameters_checked_by": "modules built from the config"}
    active = (counted.get("moe") or {}).get("active_params")
    return {**found, "active_parameters": active} if active else found


def _agree(hub_id: str, what: str, computed: int, known: int) -> None:
    if computed != known:
        print(f"DISAGREE {hub_id}: {what} {computed:,} by arithmetic, {known:,} known")
