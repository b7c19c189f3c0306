"""Tensors really stored beat formulas: what a directory's files say of bytes, by component and as engines keep them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from narrows.answers.fit import fit
from narrows.answers.models import model
from narrows.deployment import deploy
from narrows.hardware import find_accelerator
from narrows.memory.shard import shards
from narrows.models import ModelSpec, load_model
from narrows.models.stored import Inventory, StoredTensor
from narrows.models.stored.attribute import MOST_PATTERNS
from narrows.models.stored.model import stored_model
from narrows.text import BadInput
from scripts.make_shards import make

from .conftest import Cli
from .safetensors_files import Tensors, size_of, write, write_sharded

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 1024,
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
TABLE = ("BF16", (1024, 256))
LINEAR = {
    "self_attn.q_proj": (256, 256),
    "self_attn.k_proj": (128, 256),
    "self_attn.v_proj": (128, 256),
    "self_attn.o_proj": (256, 256),
    "mlp.gate_proj": (512, 256),
    "mlp.up_proj": (512, 256),
    "mlp.down_proj": (256, 512),
}


def llama(form: str = "BF16", head: bool = True, layers: int = 2, prefix: str = "model.") -> dict[str, Any]:
    """The tensors of LLAMA, as its files name them."""
    found: dict[str, Any] = {f"{prefix}embed_tokens.weight": (form, (1024, 256))}
    for i in range(layers):
        at = f"{prefix}layers.{i}."
        found |= {f"{at}{name}.weight": (form, shape) for name, shape in LINEAR.items()}
        found |= {f"{at}{name}.weight": (form, (256,)) for name in ("input_layernorm", "post_attention_layernorm")}
    found[f"{prefix}norm.weight"] = (form, (256,))
    if head:
        found["lm_head.weight"] = (form, (1024, 256))
    return found


def packed(tensors: dict[str, Any], parts: Any) -> dict[str, Any]:
    """The tensors with every linear weight of the layers stored as `parts(out, inner)` says."""
    found: dict[str, Any] = {}
    for name, (form, shape) in tensors.items():
        if ".layers." in name and len(shape) == 2:
            module = name.removesuffix(".weight")
            found |= {module + suffix: stored for suffix, stored in parts(*shape).items()}
        else:
            found[name] = (form, shape)
    return found


def folder(path: Path, tensors: Tensors, config: dict[str, Any] | None = LLAMA, **changes: Any) -> str:
    path.mkdir(exist_ok=True)
    if config is not None:
        (path / "config.json").write_text(json.dumps({**config, **changes}))
    write(path / "model.safetensors", tensors, {"format": "pt"})
    return str(path)


def bytes_of(tensors: Tensors) -> int:
    return sum(size_of(*one) for one in tensors.values())


def resident(spec: ModelSpec, tp: int = 1, pp: int = 1) -> list[int]:
    """Bytes of the weights that one rank of each stage keeps."""
    made = deploy(spec, find_accelerator("h100-sxm"), tensor_parallel=tp, pipeline_parallel=pp)
    return [shard.weights for shard in shards(made)]


def by_config(path: str, **changes: Any) -> ModelSpec:
    """The model of the same config without its files."""
    config = json.loads((Path(path) / "config.json").read_text())
    alone = Path(path) / "alone.json"
    alone.write_text(json.dumps({**config, **changes}))
    return load_model(str(alone))


def said(spec: ModelSpec) -> Iterator[str]:
    return map(str, spec.assumptions)


# ---------------------------------------------------------------- as the config says


def test_files_that_are_as_the_config_says_change_nothing(tmp_path: Path) -> None:
    path = folder(tmp_path / "m", llama())
    spec, plain = load_model(path), by_config(path)
    assert spec.checkpoint_bytes() == plain.checkpoint_bytes() == bytes_of(llama())
    assert resident(spec) == resident(plain)
    assert spec.unique_parameters() == plain.unique_parameters()
    assert spec.assumptions == plain.assumptions
    assert spec.stored is not None
    assert {one.name: one.bytes for one in spec.stored.components} == {
        "embedding": 2 * 1024 * 256,
        "attention": 2 * 2 * (2 * 256 * 256 + 2 * 128 * 256),
        "mlp": 2 * 2 * 3 * 512 * 256,
        "norms": 2 * (5 * 256),
        "head": 2 * 1024 * 256,
    }


def test_a_config_given_by_itself_stands_for_itself(tmp_path: Path) -> None:
    path = folder(tmp_path / "m", llama("F32"))
    assert load_model(path).stored is not None
    assert load_model(path + "/config.json").stored is None


@pytest.mark.parametrize("file", ["model.safetensors.index.json", "model-00001-of-00002.safetensors"])
def test_an_index_or_a_shard_stands_for_its_model(file: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    every = llama()
    names = list(every)
    write_sharded(tmp_path, [{n: every[n] for n in names[:7]}, {n: every[n] for n in names[7:]}])
    assert load_model(str(tmp_path / file)).checkpoint_bytes() == bytes_of(every)


@pytest.mark.parametrize("prefix", ["", "model.language_model.", "language_model.model.", "transformer."])
def test_what_stands_around_a_decoder_does_not_matter(prefix: str, tmp_path: Path) -> None:
    spec = load_model(folder(tmp_path / "m", llama(prefix=prefix)))
    assert spec.stored is not None
    assert spec.stored.unattributed_tensors == 0
    assert list(said(spec)) == []


def test_fused_matrices_are_their_parts(tmp_path: Path) -> None:
    tensors = {name: one for name, one in llama().items() if not name.endswith(("q_proj.weight", "k_proj.weight"))}
    for i in range(2):
        at = f"model.layers.{i}."
        for name in ("self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj"):
            del tensors[f"{at}{name}.weight"]
        tensors[f"{at}self_attn.qkv_proj.weight"] = ("BF16", (512, 256))
        tensors[f"{at}mlp.gate_up_proj.weight"] = ("BF16", (1024, 256))
    path = folder(tmp_path / "m", tensors)
    spec = load_model(path)
    assert list(said(spec)) == []
    for tp in (1, 2, 4):
        assert resident(spec, tp) == resident(by_config(path), tp)


def test_names_of_another_layout_are_summed_by_component(tmp_path: Path) -> None:
    renamed = {
        name.replace("model.", "")
        .replace("embed_tokens", "tok_embeddings")
        .replace("lm_head", "output")
        .replace("self_attn.", "attention.")
        .replace("mlp.", "feed_forward.")
        .replace("input_layernorm", "attention_norm")
        .replace("post_attention_layernorm", "ffn_norm"): one
        for name, one in llama().items()
    }
    path = folder(tmp_path / "m", renamed)
    spec = load_model(path)
    plain = load_model(folder(tmp_path / "n", llama()))
    assert spec.stored is not None
    assert plain.stored is not None
    assert {(one.name, one.bytes) for one in spec.stored.components} == {
        (one.name, one.bytes) for one in plain.stored.components
    }
    assert resident(spec) == resident(plain)


def test_names_of_no_known_part_are_counted_and_said(tmp_path: Path) -> None:
    tensors = {**llama(), "strange.thing": ("F32", (100,))}
    spec = load_model(folder(tmp_path / "m", tensors))
    assert spec.checkpoint_bytes() == bytes_of(tensors)
    assert spec.stored is not None
    assert (spec.stored.unattributed_tensors, spec.stored.unattributed_bytes) == (1, 400)
    assert "1 tensors (400 B) have names that belong to no known part; they are not counted as loaded" in said(spec)
    shown = model(str(tmp_path / "m"))
    assert sum(one.stored_bytes for one in shown.components) == shown.checkpoint_bytes == bytes_of(tensors)


# ---------------------------------------------------------------- otherwise than the config says


def test_a_tied_head_stored_twice_is_loaded_once(tmp_path: Path) -> None:
    path = folder(tmp_path / "m", llama(), tie_word_embeddings=True)
    spec = load_model(path)
    assert spec.checkpoint_bytes() == by_config(path).checkpoint_bytes() + size_of(*TABLE)
    assert resident(spec) == resident(by_config(path))
    assert "the files store the head a second time (524.29 kB), and engines keep it once, as the embedding" in said(
        spec
    )


def test_fp32_copies_are_stored_wide_and_kept_narrow(tmp_path: Path) -> None:
    path = folder(tmp_path / "m", llama("F32"))
    spec = load_model(path)
    assert spec.checkpoint_bytes() == 2 * by_config(path).checkpoint_bytes()
    assert resident(spec) == resident(by_config(path))
    assert any("are stored as float32 although the config says bfloat16" in text for text in said(spec))


@pytest.mark.parametrize(("form", "dtype"), [("F16", "float16"), ("BF16", "bfloat16"), ("F32", "float32")])
@pytest.mark.parametrize("silent", [{}, {"torch_dtype": None}, {"torch_dtype": "auto"}])
def test_the_files_data_type_stands_for_one_the_config_lacks(
    form: str, dtype: str, silent: dict[str, Any], tmp_path: Path
) -> None:
    config = {key: value for key, value in LLAMA.items() if key != "torch_dtype"}
    spec = load_model(folder(tmp_path / "m", llama(form), {**config, **silent}))
    assert spec.precision.dtype.name == dtype
    assert not spec.precision.assumed
    assert list(said(spec)) == [f"the config names no data type; most of what its files store is {dtype}"]


def test_biases_that_the_config_does_not_tell_of_are_kept(tmp_path: Path) -> None:
    tensors = {**llama(), "model.layers.0.mlp.down_proj.bias": ("BF16", (256,))}
    path = folder(tmp_path / "m", tensors)
    spec = load_model(path)
    assert resident(spec)[0] == resident(by_config(path))[0] + 512
    assert any(
        text.startswith("mlp: the files hold 786,688 parameters, the config implies 786,432") for text in said(spec)
    )


def test_a_padded_vocabulary_is_kept_as_stored(tmp_path: Path) -> None:
    tensors = {**llama(), "model.embed_tokens.weight": ("BF16", (1088, 256)), "lm_head.weight": ("BF16", (1088, 256))}
    path = folder(tmp_path / "m", tensors)
    assert resident(load_model(path))[0] == resident(by_config(path))[0] + 2 * 64 * 256 * 2


def test_tensors_in_no_file_are_named(tmp_path: Path) -> None:
    tensors = llama()
    del tensors["model.layers.1.mlp.up_proj.weight"]
    path = folder(tmp_path / "m", tensors)
    spec = load_model(path)
    assert (
        "1 tensors that the config implies are in no file (model.layers.1.mlp.up_proj.weight); their bytes are computed"
        in said(spec)
    )
    assert resident(spec) == resident(by_config(path))


def test_layers_beyond_the_configs_are_not_loaded(tmp_path: Path) -> None:
    path = folder(tmp_path / "m", llama(layers=3))
    spec = load_model(path)
    assert resident(spec) == resident(by_config(path))
    assert any("are of layers beyond the 2 that the config names" in text for text in said(spec))


def test_buffers_of_old_files_are_stored_and_not_kept(tmp_path: Path) -> None:
    tensors = {**llama(), "model.layers.0.self_attn.rotary_emb.inv_freq": ("F32", (32,))}
    path = folder(tmp_path / "m", tensors)
    spec = load_model(path)
    assert spec.checkpoint_bytes() == bytes_of(tensors)
    assert resident(spec) == resident(by_config(path))


DEEPSEEK: dict[str, Any] = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "vocab_size": 512,
    "hidden_size": 256,
    "intermediate_size": 512,
    "moe_intermediate_size": 128,
    "num_hidden_layers": 3,
    "first_k_dense_replace": 1,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "num_attention_heads": 4,
    "q_lora_rank": 64,
    "kv_lora_rank": 64,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 16,
    "v_head_dim": 32,
    "num_nextn_predict_layers": 1,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}


def deepseek() -> dict[str, Any]:
    """DeepSeek-V3 in small, its fourth layer being the MTP layer."""
    found: dict[str, Any] = {"model.embed_tokens.weight": ("BF16", (512, 256)), "lm_head.weight": ("BF16", (512, 256))}
    found["model.norm.weight"] = ("BF16", (256,))

    def linear(name: str, out: int, inner: int) -> None:
        found[f"{name}.weight"] = ("F8_E4M3", (out, inner))
        found[f"{name}.weight_scale_inv"] = ("F32", (-(-out // 128), -(-inner // 128)))

    for i in range(4):
        at = f"model.layers.{i}."
        for name, shape in (
            ("q_a_proj", (64, 256)),
            ("q_b_proj", (192, 64)),
            ("kv_a_proj_with_mqa", (80, 256)),
            ("kv_b_proj", (256, 64)),
            ("o_proj", (256, 128)),
        ):
            linear(f"{at}self_attn.{name}", *shape)
        for name in ("q_a_layernorm", "kv_a_layernorm"):
            found[f"{at}self_attn.{name}.weight"] = ("BF16", (64,))
        for name in ("input_layernorm", "post_attention_layernorm"):
            found[f"{at}{name}.weight"] = ("BF16", (256,))
        parts = {"mlp": 512}
        if i:
            parts = {f"mlp.experts.{e}": 128 for e in range(4)} | {"mlp.shared_experts": 128}
            found[f"{at}mlp.gate.weight"] = ("BF16", (4, 256))
            found[f"{at}mlp.gate.e_score_correction_bias"] = ("F32", (4,))
        for name, width in parts.items():
            for part in ("gate_proj", "up_proj"):
                linear(f"{at}{name}.{part}", width, 256)
            linear(f"{at}{name}.down_proj", 256, width)
    for name in ("enorm", "hnorm", "shared_head.norm"):
        found[f"model.layers.3.{name}.weight"] = ("BF16", (256,))
    found["model.layers.3.eh_proj.weight"] = ("BF16", (256, 512))
    found["model.layers.3.embed_tokens.weight"] = ("BF16", (512, 256))
    found["model.layers.3.shared_head.head.weight"] = ("BF16", (512, 256))
    return found


def test_mtp_layers_are_stored_and_not_loaded(tmp_path: Path) -> None:
    path = folder(tmp_path / "m", deepseek(), DEEPSEEK)
    spec, plain = load_model(path), by_config(path)
    ahead = {name: one for name, one in deepseek().items() if ".layers.3." in name}
    assert spec.checkpoint_bytes() == plain.checkpoint_bytes() == bytes_of(deepseek())
    # (more ranks would cut through blocks of FP8)
    assert resident(spec) == resident(plain)
    assert spec.stored is not None
    assert {one.name: (one.tensors, one.bytes) for one in spec.stored.components}["MTP layer"] == (
        len(ahead),
        bytes_of(ahead),
    )
    assert any(text.startswith(f"{len(ahead)} tensors (") and "multi-token prediction" in text for text in said(spec))


def test_mtp_layers_that_the_config_does_not_name_are_not_loaded_either(tmp_path: Path) -> None:
    config = {**LLAMA}
    tensors = {**llama(), "mtp.layers.0.mlp.up_proj.weight": ("BF16", (512, 256)), "mtp.norm.weight": ("BF16", (256,))}
    path = folder(tmp_path / "m", tensors, config)
    spec = load_model(path)
    assert resident(spec) == resident(by_config(path))
    assert any(text.startswith("2 tensors (") and "multi-token prediction" in text for text in said(spec))


def test_the_published_shape_of_deepseek_v3_is_as_its_config_says(tmp_path: Path) -> None:
    """Four of its 61 layers, and the MTP layer: what the benchmark reads 163 shards of."""
    total = make(tmp_path, shards=7, layers=4)
    spec = load_model(str(tmp_path))
    plain = by_config(str(tmp_path))
    assert spec.checkpoint_bytes() == plain.checkpoint_bytes() == total
    assert resident(spec, 8) == resident(plain, 8)
    assert spec.measured is None
    assert len(spec.assumptions) == 1


def test_check_takes_a_directory(tmp_path: Path, cli: Cli) -> None:
    path = folder(tmp_path / "m", llama("F32"))
    log = tmp_path / "log"
    log.write_text("INFO 01-01 00:00:00 [core.py:1] Initializing a V1 LLM engine (v0.24.0) with config: model='m'\n")
    code, out, _ = cli("check", str(log), "--model", path, "--gpu", "l40s", "--json")
    assert code in (0, 1, 2)
    assert json.loads(out)["model"] is not None


# ---------------------------------------------------------------- packed weights


def gptq(out: int, inner: int) -> dict[str, Any]:
    return {
        ".qweight": ("I32", (inner // 8, out)),
        ".qzeros": ("I32", (inner // 128, out // 8)),
        ".scales": ("F16", (inner // 128, out)),
        ".g_idx": ("I32", (inner,)),
    }


def awq(out: int, inner: int) -> dict[str, Any]:
    return {
        ".qweight": ("I32", (inner, out // 8)),
        ".qzeros": ("I32", (inner // 128, out // 8)),
        ".scales": ("F16", (inner // 128, out)),
    }


def fp8(out: int, inner: int) -> dict[str, Any]:
    return {".weight": ("F8_E4M3", (out, inner)), ".weight_scale": ("F32", (1,))}


def compressed(out: int, inner: int) -> dict[str, Any]:
    return {
        ".weight_packed": ("I32", (out, inner // 8)),
        ".weight_scale": ("BF16", (out, inner // 128)),
        ".weight_shape": ("I64", (2,)),
    }


def nvfp4(out: int, inner: int) -> dict[str, Any]:
    return {
        ".weight": ("U8", (out, inner // 2)),
        ".weight_scale": ("F8_E4M3", (out, inner // 16)),
        ".weight_scale_2": ("F32", ()),
        ".input_scale": ("F32", ()),
    }


COMPRESSED = {
    "quant_method": "compressed-tensors",
    "format": "pack-quantized",
    "ignore": ["lm_head"],
    "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "group_size": 128}}},
}
SCHEMES: dict[str, tuple[Any, dict[str, Any]]] = {
    "gptq": (gptq, {"quant_method": "gptq", "bits": 4, "group_size": 128}),
    "awq": (awq, {"quant_method": "awq", "bits": 4, "group_size": 128}),
    "fp8": (fp8, {"quant_method": "fp8"}),
    "compressed-tensors": (compressed, COMPRESSED),
    "nvfp4": (nvfp4, {"quant_method": "modelopt", "quant_algo": "NVFP4"}),
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_packed_weights_are_as_their_scheme_says(scheme: str, tmp_path: Path) -> None:
    parts, quantization = SCHEMES[scheme]
    tensors = packed(llama(), parts)
    path = folder(tmp_path / "m", tensors, quantization_config=quantization)
    spec, plain = load_model(path), by_config(path)
    assert spec.checkpoint_bytes() == plain.checkpoint_bytes() == bytes_of(tensors)
    assert list(said(spec)) == list(said(plain))
    for tp in (1, 2):
        assert resident(spec, tp) == resident(plain, tp)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_packed_weights_without_a_word_in_the_config_are_seen(scheme: str, tmp_path: Path) -> None:
    parts, quantization = SCHEMES[scheme]
    path = folder(tmp_path / "m", packed(llama(), parts))
    spec, named = load_model(path), by_config(path, quantization_config=quantization)
    for tp in (1, 2):
        assert resident(spec, tp) == resident(named, tp)
    assert resident(spec, pp=2) == resident(named, pp=2)
    assert spec.precision.scheme.label == scheme
    assert list(said(spec)) == [
        f"the config names no quantization; the headers show {scheme}, and weights are taken as stored"
    ]


def bnb(out: int, inner: int) -> dict[str, Any]:
    blocks = out * inner // 64
    return {
        ".weight": ("U8", (out * inner // 2, 1)),
        ".weight.absmax": ("U8", (blocks,)),
        ".weight.quant_map": ("F32", (16,)),
        ".weight.nested_absmax": ("F32", (-(-blocks // 256),)),
        ".weight.nested_quant_map": ("F32", (256,)),
        ".weight.quant_state.bitsandbytes__nf4": ("U8", (80,)),
    }


def bnb8(out: int, inner: int) -> dict[str, Any]:
    return {".weight": ("I8", (out, inner)), ".SCB": ("F32", (out,)), ".weight_format": ("U8", ())}


def hqq(out: int, inner: int) -> dict[str, Any]:
    return {
        ".W_q": ("U8", (out * inner // 2,)),
        ".scale": ("F16", (out * inner // 64, 1)),
        ".zero": ("F16", (out * inner // 64, 1)),
    }


def exl2(out: int, inner: int) -> dict[str, Any]:
    return {
        ".q_weight": ("I32", (inner * 5 // 32, out)),
        ".q_scale": ("I32", (inner // 128, out // 8)),
        ".q_scale_max": ("F16", (inner // 128,)),
        ".q_groups": ("I16", (2 * inner // 128,)),
        ".q_invperm": ("I32", (inner,)),
    }


def exl3(out: int, inner: int) -> dict[str, Any]:
    return {
        ".trellis": ("I16", (inner // 16, out // 16, 48)),
        ".suh": ("F16", (inner,)),
        ".svh": ("F16", (out,)),
    }


def torchao(out: int, inner: int) -> dict[str, Any]:
    return {".weight_qdata": ("I8", (out, inner)), ".weight_scale": ("BF16", (out, 1))}


def mlx(out: int, inner: int) -> dict[str, Any]:
    return {
        ".weight": ("I32", (out, inner // 8)),
        ".scales": ("BF16", (out, inner // 64)),
        ".biases": ("BF16", (out, inner // 64)),
    }


OTHERS = {
    "bitsandbytes 4-bit": bnb,
    "bitsandbytes int8": bnb8,
    "hqq": hqq,
    "exl2": exl2,
    "exl3": exl3,
    "torchao": torchao,
    "mlx": mlx,
}


@pytest.mark.parametrize("quantization", [None, {"quant_method": "of-tomorrow"}])
@pytest.mark.parametrize("scheme", OTHERS)
def test_packed_weights_of_any_scheme_are_kept_as_stored(scheme: str, quantization: Any, tmp_path: Path) -> None:
    tensors = packed(llama(), OTHERS[scheme])
    path = folder(tmp_path / "m", tensors, quantization_config=quantization)
    spec = load_model(path)
    assert spec.checkpoint_bytes() == bytes_of(tensors)
    assert resident(spec) == [bytes_of(tensors)]
    assert spec.precision.scheme.label == scheme
    assert any(f"the headers show {scheme}, and weights are taken as stored" in text for text in said(spec))
    assert spec.stored is not None
    assert spec.stored.unattributed_tensors == 0
    assert fit(path, "l40s").candidates[0].fits


def test_a_quantized_head_is_kept_as_stored(tmp_path: Path) -> None:
    tensors = packed(llama(head=False), exl3) | {f"lm_head{k}": one for k, one in exl3(1024, 256).items()}
    assert resident(load_model(folder(tmp_path / "m", tensors))) == [bytes_of(tensors)]


def test_layers_left_unpacked_against_the_config_are_kept_as_stored(tmp_path: Path) -> None:
    plain = {name: one for name, one in llama().items() if ".layers.0." in name}
    tensors = {name: one for name, one in packed(llama(), gptq).items() if ".layers.0." not in name} | plain
    path = folder(tmp_path / "m", tensors, quantization_config=SCHEMES["gptq"][1])
    assert resident(load_model(path)) == [bytes_of(tensors)]
    first, second = resident(load_model(path), pp=2)
    assert first > second


def test_a_scheme_that_speaks_of_the_kv_cache_is_not_passed_over(tmp_path: Path) -> None:
    quantization = {"quant_method": "of-tomorrow", "kv_cache_scheme": {"num_bits": 4}}
    path = folder(tmp_path / "m", packed(llama(), hqq), quantization_config=quantization)
    with pytest.raises(BadInput, match="of-tomorrow"):
        load_model(path)


def test_a_scheme_is_not_passed_over_without_evidence(tmp_path: Path) -> None:
    path = folder(tmp_path / "m", llama(), quantization_config={"quant_method": "of-tomorrow"})
    with pytest.raises(BadInput, match="of-tomorrow"):
        load_model(path)


def test_fp8_without_scales_is_converted(tmp_path: Path) -> None:
    tensors = {n: ("F8_E4M3", s) if len(s) == 2 and ".layers." in n else (f, s) for n, (f, s) in llama().items()}
    path = folder(tmp_path / "m", tensors)
    spec = load_model(path)
    assert spec.checkpoint_bytes() == bytes_of(tensors)
    assert resident(spec) == resident(by_config(path))
    assert any("are stored as float8_e4m3fn although the config says bfloat16" in text for text in said(spec))


# ---------------------------------------------------------------- what is not there, and what is said


def test_missing_shards_leave_the_config_and_are_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    every = llama()
    names = list(every)
    write_sharded(tmp_path, [{n: every[n] for n in names[:7]}, {n: every[n] for n in names[7:]}])
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    spec = load_model(str(tmp_path))
    assert spec.stored is None
    assert list(said(spec)) == [
        "1 of the checkpoint's 2 files are not there (model-00002-of-00002.safetensors); bytes are computed from the "
        "config"
    ]


@pytest.mark.parametrize("given", ["", "/model.safetensors"])
def test_weights_without_a_config_are_refused(given: str, tmp_path: Path, cli: Cli) -> None:
    path = folder(tmp_path / "m", llama(), None)
    code, out, err = cli("fit", path + given, "--gpu", "l40s")
    assert (code, out) == (2, "")
    assert "holds weights and no config.json" in err
    assert err.count("\n") == 1


def test_an_adapter_alone_sends_to_the_model_it_belongs_to(tmp_path: Path, cli: Cli) -> None:
    write(tmp_path / "adapter_model.safetensors", {"base_model.model.layers.0.q_proj.lora_A.weight": ("F32", (8, 64))})
    (tmp_path / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "base_model_name_or_path": "a/b"}))
    code, _, err = cli("models", str(tmp_path))
    assert code == 2
    assert "holds an adapter" in err
    assert "base_model_name_or_path" in err


def test_a_broken_file_is_refused_in_one_line_that_says_how_to_go_on(tmp_path: Path, cli: Cli) -> None:
    path = folder(tmp_path / "m", llama())
    with open(path + "/model.safetensors", "r+b") as file:
        file.truncate(5000)
    code, out, err = cli("models", path)
    assert (code, out) == (2, "")
    assert "cannot be read as safetensors, at byte 5000" in err.replace(",", "").replace(
        "safetensors at", "safetensors, at"
    )
    assert err.count("\n") == 1
    assert cli("models", path + "/config.json")[0] == 0


def test_models_says_what_was_read(tmp_path: Path, cli: Cli) -> None:
    path = folder(tmp_path / "m", llama("F32"))
    code, out, _ = cli("models", path)
    assert code == 0
    assert "config.json, 1 safetensors headers (" in out
    shown = json.loads(cli("models", path, "--json")[1])
    assert shown["checkpoint_bytes"] == shown["stored"]["bytes"] == bytes_of(llama("F32"))
    assert shown["stored"]["files"] == 1
    assert {one["name"]: one["formats"] for one in shown["components"]}["mlp"] == {"float32": 4 * 2 * 3 * 512 * 256}


def test_fit_takes_a_directory_without_a_flag(tmp_path: Path, cli: Cli) -> None:
    path = folder(tmp_path / "m", deepseek(), DEEPSEEK)
    answer = json.loads(cli("fit", path, "--gpu", "l40s", "--json")[1])
    assert answer["model"]["checkpoint_bytes"] == answer["model"]["stored"]["bytes"] == bytes_of(deepseek())
    assert answer["candidates"][0]["fits"]


def test_a_config_alone_imports_no_reader_of_weights(tmp_path: Path, narrows: Any) -> None:
    import subprocess
    import sys

    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    code = (
        "import sys; from narrows.api import fit; fit(sys.argv[1], 'l40s'); "
        "print([name for name in sys.modules if 'stored' in name])"
    )
    for path in (tmp_path, tmp_path / "config.json"):
        done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "[]"


PIECES = (
    "model layers self_attn q_proj mlp experts weight bias qweight scales absmax lm_head norm visual mtp 0 1 7 {} é ٣"
)
NAMES = st.lists(st.sampled_from(["", "99999999999", "weight_blocks", *PIECES.split()]), min_size=1, max_size=7)


@given(st.dictionaries(NAMES.map(".".join), st.sampled_from(["BF16", "I32", "F8_E4M3"])))
@example({"model.layers.99999999999.self_attn.q_proj.weight": "BF16", "layers.0": "BF16", ".": "I32", "": "BF16"})
@example({"model.layers.{}.mlp.up_proj.weight": "BF16", "layers.{}.x": "I32"})
def test_whatever_the_names_every_byte_is_counted_once(names: dict[str, str]) -> None:
    tensors = tuple(StoredTensor(name, form, (3, 8), size_of(form, (3, 8)), "f") for name, form in names.items())
    spec = stored_model(LLAMA, Inventory("safetensors", "m", tensors, ("f",), 1), name="m")
    assert spec.stored is not None
    counted = sum(one.bytes for one in spec.stored.components) + spec.stored.unattributed_bytes
    assert counted == spec.checkpoint_bytes() == sum(one.bytes for one in tensors)
    assert sum(one.tensors for one in spec.stored.components) + spec.stored.unattributed_tensors == len(tensors)
    assert all(sum(one.formats.values()) == one.bytes for one in spec.stored.components)
    assert resident(spec)[0] >= counted


def test_names_without_end_are_counted_and_not_looked_at(tmp_path: Path) -> None:
    strange = [f"model.layers.1.mlp.x{i}" for i in range(MOST_PATTERNS + 5)] + ["model.norm" + "norm" * 100]
    tensors = tuple(StoredTensor(name, "BF16", (1,), 2, "f") for name in strange)
    spec = stored_model(LLAMA, Inventory("safetensors", "m", tensors, ("f",), 1), name="m")
    assert spec.stored is not None
    assert spec.stored.unattributed_tensors == 6
    assert spec.checkpoint_bytes() == 2 * len(strange)


# ---------------------------------------------------------------- the bar


def shards_on(path: Path) -> str:
    (path / "config.json").write_text(json.dumps(LLAMA))
    every = llama()
    names = list(every)
    write_sharded(path, [{name: every[name] for name in names[i : i + 5]} for i in range(0, len(names), 5)])
    return str(path)


def in_a_terminal(*arguments: str, patience: float) -> tuple[str, str]:
    """(stdout, what a terminal got on stderr)."""
    import pty
    import subprocess
    import sys

    ours, theirs = pty.openpty()
    code = f"import narrows.cli.options as o; o.PATIENCE = {patience}; from narrows.cli.main import main; main()"
    command = [sys.executable, "-c", code, *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=theirs, env={**os.environ, "TERM": "xterm"}
    ) as process:
        os.close(theirs)
        shown = b""
        try:
            while chunk := os.read(ours, 4096):
                shown += chunk
        except OSError:
            pass  # how Linux says that the other end is closed
        assert process.stdout is not None
        out = process.stdout.read().decode()
    os.close(ours)
    return out, shown.decode()


def test_a_bar_is_shown_on_a_terminal_once_it_takes_long(tmp_path: Path, narrows: Any) -> None:
    path = shards_on(tmp_path)
    plain = narrows("models", path, "--json")
    slow, shown = in_a_terminal("models", path, "--json", patience=0)
    assert "reading headers" in shown
    assert shown.rstrip().endswith("\x1b[2K")  # taken away again
    quick, nothing = in_a_terminal("models", path, "--json", patience=60)
    assert nothing == ""
    assert slow == quick == plain.stdout
    assert plain.stderr == ""


def test_python_is_told_of_every_header(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    model(shards_on(tmp_path), progress=lambda done, total: told.append((done, total)))
    assert told == [(n, 5) for n in range(1, 6)]
    told.clear()
    fit(str(tmp_path), "l40s", progress=lambda done, total: told.append((done, total)))
    assert told == [(n, 5) for n in range(1, 6)]
