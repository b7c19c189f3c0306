"""Makes the bundled catalogue of model configs, and the table its test compares against.

    python -m scripts.import_catalogue MODELS_DIR [CONFIGS_DIR]              writes the catalogue
    python -m scripts.import_catalogue MODELS_DIR [CONFIGS_DIR] --expected   writes the test's table

MODELS_DIR holds models.jsonl.gz (one row per model: hub_id, config, source, published and counted parameters);
CONFIGS_DIR holds further config files named ORG--NAME.json. `catalogue_entries` says which models are taken, from
which row, and what had to be restored; the expected figures are those of `catalogue_figures`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
from pathlib import Path
from typing import Any

from scripts.catalogue_entries import ENTRIES, KV, STORED_BESIDE, Config
from scripts.catalogue_figures import expected
from scripts.catalogue_known import entry_of, figures_of, known

ROOT = Path(__file__).resolve().parent.parent
CATALOGUE = ROOT / "src/narrows/models/data/catalogue.jsonl"
EXPECTED = ROOT / "tests/data/catalogue_expected.json"

_NAMES = """
    model_type architectures torch_dtype dtype quantization_config tie_word_embeddings vocab_size
    max_position_embeddings
    hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads head_dim attention_bias
    mlp_bias qkv_bias sliding_window use_sliding_window max_window_layers layer_types sliding_window_pattern
    num_local_experts num_experts num_experts_per_tok experts_per_token moe_intermediate_size decoder_sparse_step
    mlp_only_layers shared_expert_intermediate_size n_routed_experts n_shared_experts first_k_dense_replace
    moe_layer_freq num_nextn_predict_layers q_lora_rank kv_lora_rank qk_nope_head_dim qk_rope_head_dim v_head_dim
    full_attention_interval linear_num_key_heads linear_num_value_heads linear_key_head_dim linear_value_head_dim
    linear_conv_kernel_dim attn_layer_period attn_layer_offset expert_layer_period expert_layer_offset mamba_d_conv
    mamba_d_state mamba_dt_rank mamba_expand mamba_conv_bias mamba_proj_bias n_embd n_head n_layer n_inner n_positions
    add_cross_attention text_config vision_config patch_size image_size num_channels vision_use_head
    depth in_channels temporal_patch_size spatial_merge_size out_hidden_size num_position_embeddings
    deepstack_visual_indexes mamba_ssm_dtype mtp_num_hidden_layers index_n_heads index_head_dim index_topk_freq
    index_skip_topk_offset index_topk_pattern indexer_types mlp_layer_types global_head_dim
    num_global_key_value_heads hidden_size_per_layer_input vocab_size_per_layer_input attention_k_eq_v
    num_kv_shared_layers use_double_wide_mlp enable_moe_block top_k_experts position_embedding_size
    hybrid_override_pattern layers_block_type mamba_num_heads mamba_head_dim ssm_state_size n_groups conv_kernel
    use_conv_bias use_bias moe_shared_expert_intermediate_size moe_latent_size mamba_ssm_cache_dtype
    attention_chunk_size no_rope_layers no_rope_layer_interval interleave_moe_layer_step moe_layers
    intermediate_size_mlp projector_input_dim projector_output_dim vision_output_dim lm_head_bias
    conv_L_cache conv_bias full_attn_idxs block_ff_dim block_auto_adjust_ff_dim block_ffn_dim_multiplier
    block_multiple_of tie_embedding shared_intermediate_size multi_query use_parallel_residual use_qkv_bias
    qk_layernorm use_qk_norm num_kv_heads new_decoder_architecture parallel_attn ffn_hidden_size alibi bias
    mamba_n_heads mamba_d_head mamba_n_groups attention_out_bias num_heads expand state_size
    expert_dtype compress_ratios o_groups block_configs n_head_kv embd_layer img_processor
    sparse_attention_config visual kv_channels padded_vocab_size no_bias
"""
KEPT = frozenset(_NAMES.split())
"""The fields readers read; everything else stays behind."""

NO_HEAD_DIM = ("llama", "mistral", "mixtral", "qwen2", "phi3")
"""Families whose published files leave head_dim to hidden ÷ heads, where the conversion wrote it out."""

FORK = "the model's own file, from a GitHub copy ({})"
CONFIGS = "fields of the hub's config.json, collected for a study of vLLM 0.32.0's KV allocator"


def _rows(models: Path) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    with gzip.open(models / "models.jsonl.gz", "rt") as file:
        for line in file:
            row = json.loads(line)
            rows.setdefault(row["hub_id"], row)
    return rows


def _source(row: Any) -> str:
    source: str = row["source"]
    if row.get("converted"):
        return "litgpt 0.5.13 (PyPI, Apache-2.0), its model table put into the hub's field names"
    if source.startswith("PyPI aiconfigurator-core"):
        return "the hub's config.json, carried by aiconfigurator-core 0.12.0 (PyPI, Apache-2.0)"
    if source.startswith("github:mlc-ai/mlc-llm"):
        return "the hub's config.json, carried by mlc-ai/mlc-llm's model presets (GitHub, Apache-2.0)"
    return FORK.format(source.removeprefix("github:"))


def _trimmed(config: Config) -> Config:
    kept = {}
    for key, value in config.items():
        if key in KEPT:
            nested = key in ("text_config", "vision_config") and isinstance(value, dict)
            kept[key] = _trimmed(value) if nested else value
    return kept


def _unconverted(config: Config) -> Config:
    """Without what the conversion added: head_dim where it only repeats hidden ÷ heads."""
    config = dict(config)
    repeats = config.get("head_dim", 0) * config.get("num_attention_heads", 0) == config["hidden_size"]
    if config["model_type"] in NO_HEAD_DIM and repeats:
        del config["head_dim"]
    return config


def _entry(hub_id: str, rows: dict[str, Any], configs: Path | None) -> dict[str, Any]:
    origin, fields, note = ENTRIES[hub_id] or (hub_id, {}, "")
    if origin.startswith("new:"):
        source, config = origin.removeprefix("new:"), {}
    elif origin.startswith(KV):
        if configs is None:
            raise SystemExit(f"{hub_id} needs the directory of config files")
        name = origin.removeprefix(KV)
        source, config = CONFIGS, json.loads((configs / f"{name.replace('/', '--')}.json").read_text())
    else:
        row = rows[origin]
        source, config = _source(row), row["config"]
        if row.get("converted"):
            config = _unconverted(config)
        beside = (row.get("hf_quant_config") or {}).get("quantization")
        if beside and not config.get("quantization_config"):
            config = {**config, "quantization_config": {"quant_method": "modelopt", **beside}}
            note = "quantization_config is the hub's hf_quant_config.json, which stands beside config.json"
    config = _trimmed({**config, **fields})
    if config.get("quantization_config", "") is None:
        del config["quantization_config"]
    entry: dict[str, Any] = {"id": hub_id, "source": source, "config": dict(sorted(config.items()))}
    if hub_id in STORED_BESIDE:
        entry["stored_beside"] = STORED_BESIDE[hub_id]
    return {**entry, "note": note} if note else entry


def main() -> None:
    """Writes the catalogue, or the table of expected figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", type=Path, help="directory that holds models.jsonl.gz")
    parser.add_argument("configs", type=Path, nargs="?", help="directory of ORG--NAME.json configs")
    parser.add_argument("--expected", action="store_true", help="write the test's table instead")
    arguments = parser.parse_args()
    rows = _rows(arguments.models)
    entries = [_entry(hub_id, rows, arguments.configs) for hub_id in ENTRIES]
    if arguments.expected:
        table = expected(entries, rows) | {row["id"]: figures_of(row) for row in known()}
        lines = [f"{json.dumps(hub_id)}: {json.dumps(row)}" for hub_id, row in table.items()]
        EXPECTED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    else:
        entries += [entry_of(row) for row in known()]
        text = "".join(json.dumps(entry, separators=(",", ":"), ensure_ascii=False) + "\n" for entry in entries)
        if found := re.search(r"/(?:home|work|tmp|root)/", text):
            raise SystemExit(f"a path of some machine is in the catalogue: {text[found.start() : found.start() + 60]}")
        CATALOGUE.write_text(text)
        print(f"{len(entries)} models, {len(text):,} bytes")


if __name__ == "__main__":
    main()
