"""Makes a checkpoint with DeepSeek-V3's shape, names and 163 shards: sparse files, a few MB on disk.

    python scripts/make_shards.py FOLDER [--shards 163] [--layers 61]

Names, shapes and formats follow the published checkpoint (deepseek-ai/DeepSeek-V3: FP8 weights with fp32 block scales,
one MTP layer with its own embedding and head): 91,991 tensors, 688.6 GB. The shards are cut evenly by bytes.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

CONFIG = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "first_k_dense_replace": 3,
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "kv_lora_rank": 512,
    "max_position_embeddings": 163840,
    "moe_intermediate_size": 2048,
    "moe_layer_freq": 1,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_attention_heads": 128,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 61,
    "num_key_value_heads": 128,
    "num_nextn_predict_layers": 1,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]},
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "v_head_dim": 128,
    "vocab_size": 129280,
}
BYTES = {"F8_E4M3": 1, "BF16": 2, "F32": 4}
Named = tuple[str, str, tuple[int, ...]]


def linear(name: str, out: int, inner: int) -> Iterator[Named]:
    """An FP8 weight and its block scales."""
    yield f"{name}.weight", "F8_E4M3", (out, inner)
    yield f"{name}.weight_scale_inv", "F32", (-(-out // 128), -(-inner // 128))


def layer(index: int, sparse: bool, experts: int = 256) -> Iterator[Named]:
    """One decoder layer."""
    at, hidden = f"model.layers.{index}", 7168
    attention = f"{at}.self_attn"
    yield f"{at}.input_layernorm.weight", "BF16", (hidden,)
    yield from linear(f"{attention}.q_a_proj", 1536, hidden)
    yield f"{attention}.q_a_layernorm.weight", "BF16", (1536,)
    yield from linear(f"{attention}.q_b_proj", 128 * 192, 1536)
    yield from linear(f"{attention}.kv_a_proj_with_mqa", 576, hidden)
    yield f"{attention}.kv_a_layernorm.weight", "BF16", (512,)
    yield from linear(f"{attention}.kv_b_proj", 128 * 256, 512)
    yield from linear(f"{attention}.o_proj", hidden, 128 * 128)
    yield f"{at}.post_attention_layernorm.weight", "BF16", (hidden,)
    parts = [(f"{at}.mlp", 18432)]
    if sparse:
        yield f"{at}.mlp.gate.weight", "BF16", (experts, hidden)
        yield f"{at}.mlp.gate.e_score_correction_bias", "F32", (experts,)
        parts = [(f"{at}.mlp.experts.{e}", 2048) for e in range(experts)] + [(f"{at}.mlp.shared_experts", 2048)]
    for name, width in parts:
        yield from linear(f"{name}.gate_proj", width, hidden)
        yield from linear(f"{name}.up_proj", width, hidden)
        yield from linear(f"{name}.down_proj", hidden, width)


def tensors(layers: int = 61) -> Iterator[Named]:
    """Every tensor of the checkpoint, in the order of the layers, the MTP layer last."""
    table = (129280, 7168)
    yield "model.embed_tokens.weight", "BF16", table
    for index in range(layers):
        yield from layer(index, index >= 3)
    yield "model.norm.weight", "BF16", (7168,)
    yield "lm_head.weight", "BF16", table
    at = f"model.layers.{layers}"
    yield f"{at}.embed_tokens.weight", "BF16", table
    for name in ("enorm", "hnorm", "shared_head.norm"):
        yield f"{at}.{name}.weight", "BF16", (7168,)
    yield f"{at}.eh_proj.weight", "BF16", (7168, 14336)
    yield f"{at}.shared_head.head.weight", "BF16", table
    yield from layer(layers, True)


def size(one: Named) -> int:
    """Bytes of a tensor."""
    total = BYTES[one[1]]
    for length in one[2]:
        total *= length
    return total


def make(folder: Path, shards: int = 163, layers: int = 61) -> int:
    """Write config, index and shards. Returns the bytes of all tensors."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {**CONFIG, "num_hidden_layers": layers}
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    every = list(tensors(layers))
    total = sum(map(size, every))
    cut: list[list[Named]] = [[] for _ in range(shards)]
    done = 0
    for one in every:
        cut[min(shards - 1, done * shards // total)].append(one)
        done += size(one)
    where = {}
    for number, part in enumerate(cut, 1):
        name = f"model-{number:05}-of-{shards:06}.safetensors"
        entries: dict[str, object] = {"__metadata__": {"format": "pt"}}
        at = 0
        for tensor in part:
            end = at + size(tensor)
            entries[tensor[0]] = {"dtype": tensor[1], "shape": tensor[2], "data_offsets": [at, end]}
            where[tensor[0]] = name
            at = end
        header = json.dumps(entries, separators=(",", ":")).encode()
        with (folder / name).open("wb") as file:
            file.write(len(header).to_bytes(8, "little") + header)
            file.truncate(8 + len(header) + at)
    index = {"metadata": {"total_size": total}, "weight_map": where}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2))
    return total


def main() -> None:
    """Make them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shards", type=int, default=163)
    parser.add_argument("--layers", type=int, default=61)
    options = parser.parse_args()
    print(f"{make(options.folder, options.shards, options.layers):,} bytes of tensors")


if __name__ == "__main__":
    main()
