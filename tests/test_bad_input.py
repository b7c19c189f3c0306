"""Bad input gives one line that says what is wrong and what to do, and exit 2: no traceback, and bounded memory."""

from __future__ import annotations

import gzip
import json
import os
import pty
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from narrows.answers.fit import fit
from narrows.answers.models import model
from narrows.deployment import deploy
from narrows.hardware import find_accelerator
from narrows.memory import start
from narrows.models import ModelSpec, load_model, read_config
from narrows.models.catalogue import catalogue_entry
from narrows.models.fields import MOST_LAYERS
from narrows.models.quantizers import METHODS
from narrows.models.readers import FAMILIES
from narrows.text import BadInput

from .conftest import DATA, LLAMA, Cli

BASES = (
    "meta-llama/Llama-3.1-8B",
    "google/gemma-3-27b-it",
    "deepseek-ai/DeepSeek-V3",
    "ai21labs/Jamba-v0.1",
    "openai-community/gpt2",
    "openai/gpt-oss-20b",
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
)
NO_WHOLE_NUMBER: tuple[Any, ...] = (-1, 1.5, float("nan"), "abc", "12", [], {}, True, 2**63)
MOST_SECONDS = 1.0
"""Processor time in which any input is answered or refused."""


def config_of(name: str) -> dict[str, Any]:
    return catalogue_entry(name).config


def paths(config: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every field, also those inside objects, as a path of names."""
    for name, value in config.items():
        yield (*above, name)
        if isinstance(value, dict):
            yield from paths(value, (*above, name))


def put(config: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """The config with another value in one place."""
    first, *rest = path
    return {**config, first: put(config[first], tuple(rest), value) if rest else value}


def is_sane(spec: ModelSpec) -> bool:
    facts = model(spec, length=2048)
    return (
        facts.unique_parameters > 0
        and 0 < facts.active_parameters <= facts.unique_parameters
        and facts.checkpoint_bytes > 0
        and facts.kv_bytes_per_sequence + facts.state_bytes_per_sequence > 0
        and facts.kv_bytes_per_token >= 0
    )


def refusal(config: dict[str, Any]) -> str:
    with pytest.raises(BadInput) as error:
        read_config(config, name="x")
    return str(error.value)


def is_one_line(code: int, out: str, err: str) -> bool:
    """Whether this is exit 2 with one printable line on stderr that is no traceback, and nothing on stdout."""
    line = err.removesuffix("\n")
    return (
        (code, out) == (2, "")
        and line.startswith("narrows: error: ")
        and len(line) > len("narrows: error: ") + 10
        and line.isprintable()
        and "Traceback" not in line
    )


# ---------------------------------------------------------------- fields of a config


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize(
    "value",
    [
        "-1",
        "0",
        "1.5",
        "NaN",
        "Infinity",
        "1e400",
        str(10**30),
        str(2**63),
        '"abc"',
        "[]",
        "{}",
        "true",
        "null",
        "[{}]",
    ],
)
def test_a_strange_value_in_any_field_is_refused_or_computed_sanely(base: str, value: str, tmp_path: Path) -> None:
    config, file, wrong = config_of(base), tmp_path / "config.json", []
    for path in paths(config):
        file.write_text(json.dumps(put(config, path, "@")).replace('"@"', value))
        begin = time.process_time()
        try:
            sane = is_sane(load_model(str(file)))
        except BadInput as error:
            sane = str(error).isprintable() and len(str(error)) < 500
        if not sane or time.process_time() - begin > MOST_SECONDS:
            wrong.append(".".join(path))
    assert not wrong


@pytest.mark.parametrize("base", BASES)
def test_a_field_that_changes_the_answer_is_refused_when_it_is_no_whole_number(base: str) -> None:
    """A number that the reader uses — doubling it changes something — is never read from a wrong type."""

    def facts(config: dict[str, Any]) -> Any:
        spec = read_config(config, name="x")
        return spec.tensor_table(), list(spec.cache_rows()), list(spec.state_rows()), spec.max_length

    config = config_of(base)
    accepted: list[tuple[str, Any]] = []
    known = facts(config)
    for path in paths(config):
        value: Any = config
        for name in path:
            value = value[name]
        if type(value) is not int or value == 0:
            continue
        try:
            matters = facts(put(config, path, 2 * value)) != known
        except BadInput:
            matters = True
        for strange in NO_WHOLE_NUMBER if matters else ():
            with suppress(BadInput):
                read_config(put(config, path, strange), name="x")
                accepted.append((".".join(path), strange))
    assert not accepted


def test_the_largest_numbers_in_all_fields_at_once_overflow_nothing(cli: Cli, tmp_path: Path) -> None:
    largest = 2**31 - 1
    sizes = dict.fromkeys(("vocab_size", "hidden_size", "intermediate_size", "head_dim"), largest)
    config = {**LLAMA, **sizes, "num_attention_heads": largest, "num_hidden_layers": MOST_LAYERS}
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    code, out, _ = cli("fit", str(file), "--gpu", "l40s", "--max-len", str(largest), "--batch", str(largest), "--json")
    assert code == 1
    assert json.loads(out)["model"]["unique_parameters"] > 10**30


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"num_key_value_heads": 5}, "not a multiple"),
        ({"num_attention_heads": 33}, "not a multiple"),
        ({"hidden_size": 4097}, "not a multiple"),
        ({"model_type": "gemma2", "layer_types": ["full_attention"] * 31}, "contradicts itself"),
        ({"model_type": "gemma2", "layer_types": ["full_attention"] * 31 + ["other"]}, "layer_types"),
        ({"model_type": "gemma2", "layer_types": [["full_attention"]] * 32}, "layer_types"),
        ({"model_type": "gemma2", "layer_types": "full_attention"}, "layer_types"),
        ({"model_type": "qwen3_next", "layer_types": {}, "moe_intermediate_size": 8}, "layer_types"),
        ({"model_type": "qwen3_moe", "mlp_only_layers": [1.5], "moe_intermediate_size": 8}, "mlp_only_layers"),
        ({"model_type": "qwen3_moe", "mlp_only_layers": 3, "moe_intermediate_size": 8}, "mlp_only_layers"),
        ({"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 6}, "num_experts_per_tok"),
        ({"model_type": "jamba", "attn_layer_period": 8, "attn_layer_offset": 9}, "attn_layer_offset"),
        ({"model_type": "jamba", "expert_layer_period": 2, "expert_layer_offset": 2}, "expert_layer_offset"),
        ({"model_type": "jamba", "mamba_dt_rank": "many"}, "mamba_dt_rank"),
        ({"model_type": "gpt2", "add_cross_attention": True}, "cross-attention"),
        ({"num_hidden_layers": MOST_LAYERS + 1}, "num_hidden_layers"),
        ({"torch_dtype": {"text": "bfloat16"}}, "torch_dtype"),
        ({"torch_dtype": "posit16"}, "number format"),
        ({"torch_dtype": "int4"}, "int4"),
        ({"model_type": ["llama"]}, "model_type"),
        ({"model_type": ""}, "model_type"),
        ({"model_type": "LlamaForCausalLM"}, "--assume"),
        ({"model_type": "{0.__class__}"}, "--assume"),
    ],
)
def test_a_config_that_contradicts_itself_is_refused_with_the_field_to_look_at(
    changes: dict[str, Any], told: str
) -> None:
    assert told in refusal({**LLAMA, **changes})


def test_a_config_with_more_prediction_layers_than_narrows_lays_out_is_not_cut_silently() -> None:
    config = config_of("deepseek-ai/DeepSeek-V3")

    def stored(layers: int) -> int:
        return read_config({**config, "num_nextn_predict_layers": layers}, name="x").checkpoint_bytes()

    each = stored(1) - stored(0)
    with suppress(BadInput):
        assert stored(20) - stored(0) == 20 * each


def test_odd_but_valid_configs_count_as_transformers_counts_them() -> None:
    """Random valid settings of every family (nulls, own layer types, tied or not …), built by transformers 5.24.0.

    Its cache keeps one token less of a window, and counts constant state as cache.
    """
    wrong = []
    for line in gzip.decompress((DATA / "odd_configs.jsonl.gz").read_bytes()).splitlines():
        row = json.loads(line)
        spec = read_config(row["config"], name="x")
        assert spec.unique_parameters() > 0
        kept = {
            length: spec.state_elements()
            + sum(
                layers * one.elements_per_token * min(int(length), (one.window or 2**31) - 1)
                for layers, one in spec.cache_rows()
            )
            for length in row["cache"]
        }
        if (spec.unique_parameters(), kept) != (row["parameters"], row["cache"]):
            wrong.append((row["config"]["model_type"], spec.unique_parameters() - row["parameters"], row["config"]))
    assert not wrong


# ---------------------------------------------------------------- quantization_config


def quantized(**fields: Any) -> dict[str, Any]:
    return {**LLAMA, "quantization_config": fields}


def compressed(weights: Any, **fields: Any) -> dict[str, Any]:
    group = {"targets": ["Linear"], "weights": weights}
    return quantized(quant_method="compressed-tensors", **{"config_groups": {"group_0": group}, **fields})


INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128}
BLOCK = {"num_bits": 8, "type": "float", "strategy": "block"}


@pytest.mark.parametrize(
    "config",
    [
        {**LLAMA, "quantization_config": []},
        {**LLAMA, "quantization_config": "fp8"},
        {**LLAMA, "quantization_config": 8},
        quantized(),
        quantized(quant_method=None),
        quantized(quant_method=["fp8"]),
        quantized(quant_method="bitsandbytes", load_in_4bit="yes"),
        quantized(quant_method="bitsandbytes", load_in_4bit=True, bnb_4bit_quant_type="int4"),
        quantized(quant_method="gptq"),
        quantized(quant_method="gptq", bits="4"),
        quantized(quant_method="gptq", bits=5),
        quantized(quant_method="gptq", bits=4, group_size=-2),
        quantized(quant_method="gptq", bits=4, group_size="128"),
        quantized(quant_method="awq", bits=4, modules_to_not_convert="lm_head"),
        quantized(quant_method="awq", bits=4, modules_to_not_convert=[None]),
        quantized(quant_method="fp8", weight_block_size=[128]),
        quantized(quant_method="fp8", weight_block_size=[0, 128]),
        quantized(quant_method="fp8", weight_block_size=[True, 128]),
        quantized(quant_method="fp8", weight_block_size=128),
        quantized(quant_method="modelopt"),
        quantized(quant_method="modelopt", quant_algo="W8A8_SQ_PER_CHANNEL"),
        quantized(quant_method="modelopt", quant_algo=["FP8"]),
        quantized(quant_method="modelopt", quant_algo="NVFP4", group_size=0),
        quantized(quant_method="modelopt", quant_algo="FP8", kv_cache_quant_algo="NVFP4"),
        quantized(quant_method="modelopt", quant_algo="FP8", kv_cache_quant_algo=["FP8"]),
        quantized(quant_method="compressed-tensors"),
        quantized(quant_method="compressed-tensors", config_groups=[]),
        quantized(quant_method="compressed-tensors", config_groups={}),
        quantized(quant_method="compressed-tensors", config_groups={"a": 1}),
        quantized(quant_method="compressed-tensors", config_groups={"a": {}, "b": {}}),
        compressed(None),
        compressed({}),
        compressed({**INT4, "num_bits": 3}, format="pack-quantized"),
        compressed({**INT4, "num_bits": 2}, format="marlin-24"),
        compressed({**INT4, "group_size": "128"}, format="pack-quantized"),
        compressed(INT4, format="pack-quantized", kv_cache_scheme={"num_bits": 4}),
        compressed(INT4, format="pack-quantized", kv_cache_scheme=8),
        compressed(BLOCK),
        compressed({**BLOCK, "block_structure": ["a", 128]}),
        compressed({**BLOCK, "block_structure": [None, 128]}),
        compressed({**BLOCK, "block_structure": [0, 128]}),
        compressed({**BLOCK, "block_structure": [-128, 128]}),
        compressed({**BLOCK, "block_structure": [1.5, 128]}),
    ],
    ids=lambda config: json.dumps(config["quantization_config"])[:200],
)
def test_a_quantization_that_cannot_be_read_is_refused(config: dict[str, Any]) -> None:
    told = ""
    with pytest.raises(BadInput) as error:
        told = str(read_config(config, name="x").checkpoint_bytes())
    assert str(error.value).isprintable(), told


PLAIN_BYTES = 2 * (2 * 32000 * 4096 + 32 * (4 * 4096**2 + 3 * 4096 * 11008) + 65 * 4096)
# what a weight of 4 bits saves beside BF16: GPTQ keeps a scale of 16 bits and a zero of 4 per 128, and the group of
# each of the 4,096 inputs (11,008 of a down projection) in 4 bytes; the other a scale per 128 and its shape in 16 bytes
GPTQ_SAVES, PACKED_SAVES = 2 - (4 + 20 / 128) / 8, 2 - (4 + 16 / 128) / 8
ATTENTION, MLP, HEAD = 32 * 4 * 4096**2, 32 * 3 * 4096 * 11008, 32000 * 4096
OF_ATTENTION, OF_MLP, OF_HEAD = 32 * 4 * 4 * 4096, 32 * 4 * (2 * 4096 + 11008), 4 * 4096


@pytest.mark.parametrize(
    ("config", "saved"),
    [
        (
            quantized(quant_method="gptq", bits=4, group_size=128, dynamic={"-:.*mlp.*": {}}),
            ATTENTION * GPTQ_SAVES - OF_ATTENTION,
        ),
        (
            quantized(quant_method="gptq", bits=4, group_size=128, lm_head=True),
            (ATTENTION + MLP + HEAD) * GPTQ_SAVES - OF_ATTENTION - OF_MLP - OF_HEAD,
        ),
        (
            quantized(quant_method="gptq", bits=4, group_size=128, modules_in_block_to_quantize=[["self_attn.q_proj"]]),
            (ATTENTION * GPTQ_SAVES - OF_ATTENTION) / 4,
        ),
        (
            quantized(
                quant_method="compressed-tensors",
                format="pack-quantized",
                config_groups={"group_0": {"targets": ["re:.*self_attn.*"], "weights": INT4}},
            ),
            ATTENTION * PACKED_SAVES - 32 * 4 * 16,
        ),
    ],
    ids=["gptq dynamic", "gptq lm_head", "gptq modules", "compressed-tensors targets"],
)
def test_a_quantization_of_some_modules_only_saves_the_bytes_of_those(config: dict[str, Any], saved: float) -> None:
    assert read_config(LLAMA, name="x").checkpoint_bytes() == PLAIN_BYTES
    assert read_config(config, name="x").checkpoint_bytes() == PLAIN_BYTES - saved


SLOW = {
    "repetitions": "re:(.+)(.+)(.+)(.+)x",
    "nested repetitions": "re:(a+)+$",
    "optional parts": "re:" + "(a?m?o?d?e?l?.?)" * 14 + "ZZ",
    "alternations": "re:" + "(?:m|mo|o|od|d|e|el|l|.)" * 24 + "ZZ",
    "counted alternations": "re:(.|.){200}ZZ",
    "stars": "*a" * 200 + "ZZ",
    "broken": "re:(",
}


@pytest.mark.parametrize("entry", SLOW.values(), ids=SLOW)
def test_a_pattern_from_a_file_cannot_keep_narrows_busy(entry: str, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(quantized(quant_method="awq", bits=4, modules_to_not_convert=[entry])))
    done = bounded("models", str(file), seconds=5)
    assert done.returncode in (0, 2)
    assert b"Traceback" not in done.stderr


def test_many_exclusions_take_little_time(tmp_path: Path) -> None:
    config = quantized(quant_method="awq", bits=4, modules_to_not_convert=[f"*.{i}.*" for i in range(20_000)])
    begin = time.process_time()
    with suppress(BadInput):
        model(read_config(config, name="x"))
    assert time.process_time() - begin < 5 * MOST_SECONDS


EXPERTS: dict[str, Any] = {
    "model_type": "mixtral",
    "vocab_size": 1000,
    "hidden_size": 512,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "torch_dtype": "bfloat16",
}


def stored_with(config: dict[str, Any], *excluded: str) -> int:
    scheme = {"quant_method": "awq", "bits": 4, "modules_to_not_convert": list(excluded)}
    return read_config({**config, "quantization_config": scheme}, name="x").checkpoint_bytes()


@pytest.mark.parametrize(
    ("part", "whole"),
    [
        ("mlp.down_proj", "re:.*mlp.down_proj"),
        ("self_attn.q_proj", "re:.*self_attn.q_proj"),
        ("model.layers.3.", "model.layers.3"),
        ("model.layers.3.mlp", "re:model.layers.3.mlp.*"),
    ],
)
def test_an_exclusion_that_names_the_end_or_the_begin_of_a_module_covers_it(part: str, whole: str) -> None:
    """transformers leaves a module out where the entry matches its beginning or is its end."""
    assert stored_with(LLAMA, part) == stored_with(LLAMA, whole) > stored_with(LLAMA)


@pytest.mark.parametrize("expert", [0, 5])
def test_an_exclusion_of_one_expert_does_not_cover_all_nor_none(expert: int) -> None:
    name = "model.layers.0.block_sparse_moe.experts"
    with suppress(BadInput):
        each = (stored_with(EXPERTS, name) - stored_with(EXPERTS)) // 8
        assert stored_with(EXPERTS, f"{name}.{expert}") == stored_with(EXPERTS) + each > stored_with(EXPERTS)


def test_a_data_type_under_either_name_is_found() -> None:
    for changes in ({"dtype": None, "torch_dtype": "bfloat16"}, {"dtype": "bfloat16", "torch_dtype": None}):
        assert read_config({**LLAMA, **changes}, name="x").precision.dtype.name == "bfloat16"


# ---------------------------------------------------------------- large models


@pytest.mark.parametrize("family", ["llama", "gemma2", "jamba", "qwen3_next"])
@pytest.mark.parametrize("layers", [1_000, MOST_LAYERS])
def test_as_many_layers_as_are_allowed_are_answered_at_once(family: str, layers: int, tmp_path: Path) -> None:
    config = {**LLAMA, "model_type": family, "num_hidden_layers": layers, "moe_intermediate_size": 64}
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    for command in (("models", str(file)), ("fit", str(file), "--gpu", "l40s", "--pp", "8", "--max-len", "64")):
        done = bounded(*command, seconds=3)
        assert done.returncode in (0, 1, 2), (command[0], "took too long")
        assert b"Traceback" not in done.stderr


# ---------------------------------------------------------------- files


def bounded(*arguments: str, seconds: int = 10, megabytes: int = 600) -> subprocess.CompletedProcess[bytes]:
    """The command line under limits of processor time and address space; -9 or -24 where it ran into one."""

    def limits() -> None:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (megabytes * 2**20, megabytes * 2**20))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))

    return subprocess.run(
        [sys.executable, "-m", "narrows", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        preexec_fn=limits,
        timeout=60,
        env={**os.environ, "NARROWS_LANG": "en"},
    )


GOOD = json.dumps(LLAMA)

CONTENTS: dict[str, bytes] = {
    "empty": b"",
    "spaces": b" \n\t ",
    "half": GOOD.encode()[: len(GOOD) // 2],
    "a list": b"[1, 2]",
    "a string": b'"llama"',
    "a number": b"7",
    "null": b"null",
    "an empty object": b"{}",
    "an empty list": b"[]",
    "not UTF-8": GOOD.replace("llama", "ll\xe4ma").encode("latin-1"),
    "UTF-16": GOOD.encode("utf-16"),
    "UTF-32": GOOD.encode("utf-32"),
    "NUL bytes": b"\0" * 1000,
    "a NUL inside": GOOD.replace("llama", "ll\\u0000ama").encode(),
    "deep lists": b"[" * 100_000 + b"]" * 100_000,
    "deep objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "deep and open": b"[" * 1_000_000,
    "deep inside a field": GOOD[:-1].encode() + b', "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "a comment": b"// llama\n" + GOOD.encode(),
    "a trailing comma": GOOD[:-1].encode() + b",}",
    "two objects": GOOD.encode() * 2,
    "HTML": b"<!DOCTYPE html><html><body>404</body></html>",
    "a git-lfs pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 123\n",
    "safetensors": (64).to_bytes(8, "little") + b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}' + b" " * 8,
    "gguf": b"GGUF\x03\0\0\0" + b"\0" * 64,
    "an escape in a value": GOOD.replace("4096", '"\\u001b[2J\\n\\u202e"').encode(),
    "an escape in the family": GOOD.replace("llama", "\\u001b[2J\\u0007\\r\\n").encode(),
    "an escape in the format": GOOD.replace("bfloat16", "\\u001b[2J").encode(),
    "a lone surrogate": GOOD.replace("llama", "\\ud800").encode(),
    "a huge integer": GOOD.replace("4096", "9" * 4000).encode(),
    "a very huge integer": GOOD.replace("4096", "9" * 1_000_000).encode(),
    "a very long string": GOOD.replace("llama", "l" * 1_000_000).encode(),
    "a long fraction": GOOD.replace("4096", "0." + "1" * 100_000).encode(),
}


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_a_file_that_is_no_config_is_refused_in_one_line(content: bytes, cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(content)
    begin = time.process_time()
    for place in (file, tmp_path):
        code, out, err = cli("fit", str(place), "--gpu", "l40s")
        assert is_one_line(code, out, err), err
        assert len(err) < 600
    assert time.process_time() - begin < 2 * MOST_SECONDS


def test_a_byte_order_mark_is_read_over(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    assert load_model(str(file)).layers == 32


def test_of_a_key_that_stands_twice_the_last_one_counts(tmp_path: Path) -> None:
    """As in Python's and transformers' reading."""
    file = tmp_path / "config.json"
    file.write_text(GOOD[:-1] + ', "num_hidden_layers": 7}')
    assert load_model(str(file)).layers == 7


def test_a_config_of_100_mb_is_refused_without_being_read(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    with file.open("wb") as handle:
        handle.truncate(100 * 10**6)
    done = bounded("fit", str(file), "--gpu", "l40s", megabytes=250)
    assert is_one_line(done.returncode, done.stdout.decode(), done.stderr.decode())
    assert b"limit" in done.stderr


def test_100_mb_on_stdin_are_refused_after_the_first_of_them() -> None:
    feed = subprocess.Popen(["head", "-c", "100000000", "/dev/zero"], stdout=subprocess.PIPE)
    done = subprocess.run(
        [sys.executable, "-m", "narrows", "fit", "-", "--gpu", "l40s"], stdin=feed.stdout, capture_output=True
    )
    feed.kill()
    feed.wait()
    assert is_one_line(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/stdin", "/dev/null", "/dev/full", "/proc/self/mem", "/dev/tty"])
def test_a_device_is_refused(path: str) -> None:
    done = bounded("fit", path, "--gpu", "l40s", megabytes=250)
    assert is_one_line(done.returncode, done.stdout.decode(), done.stderr.decode())


def test_a_fifo_is_refused_instead_of_waited_for(cli: Cli, tmp_path: Path) -> None:
    for name in ("config.json", "pipe.json"):
        os.mkfifo(tmp_path / name)
        assert is_one_line(*cli("fit", str(tmp_path / name), "--gpu", "l40s"))
    assert is_one_line(*cli("fit", str(tmp_path), "--gpu", "l40s"))


def test_a_fifo_or_a_broken_file_beside_the_config_is_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(GOOD)
    os.mkfifo(tmp_path / "hf_quant_config.json")
    assert is_one_line(*cli("models", str(tmp_path)))
    (tmp_path / "hf_quant_config.json").unlink()
    for content in ("[]", "{", '{"bits": "4"}', '{"bits": 4, "quant_method": null}'):
        (tmp_path / "quantize_config.json").write_text(content)
        assert is_one_line(*cli("models", str(tmp_path)))


def test_a_directory_called_config_json_and_loops_of_links_are_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a" / "config.json").mkdir(parents=True)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "config.json").symlink_to(tmp_path / "b" / "config.json")
    (tmp_path / "c.json").symlink_to(tmp_path / "d.json")
    (tmp_path / "d.json").symlink_to(tmp_path / "c.json")
    (tmp_path / "e").mkdir()
    for name in ("a", "a/config.json", "b", "b/config.json", "c.json", "e", "nothing.json", "no/such/config.json"):
        assert is_one_line(*cli("fit", str(tmp_path / name), "--gpu", "l40s")), name


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission_is_refused(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(GOOD)
    file.chmod(0)
    code, out, err = cli("fit", str(file), "--gpu", "l40s", "--max-len", "64")
    assert is_one_line(code, out, err)
    assert "cannot be read" in err


NAMES = {
    "empty": "",
    "spaces": "  ",
    "two dashes": "--",
    "three dashes": "---",
    "a dot": ".",
    "two dots": "..",
    "root": "/",
    "tilde": "~",
    "no such user": "~nobody-of-this-name/config.json",
    "passwd": "../../../../../../../../etc/passwd",
    "passwd.json": "/etc/passwd.json",
    "passwd as a folder": "/etc/passwd/config.json",
    "escapes": "/tmp/\x1b[2J\x1b]0;x\x07\n\r\t/config.json",
    "newline in a name": "lla\nma\n",
    "escape in a name": "\x1b[31mllama-2-7b",
    "right to left": "\u202egnp.json",
    "long name": "x" * 5_000,
    "long path": "/" + "x" * 5_000 + ".json",
    "deep path": "/" + "x/" * 3_000 + "config.json",
    "NUL": "a\0b.json",
    "surrogate": "/tmp/\udcff.json",
    "braces": "{0.__class__}/{name}",
    "percent": "%s%n%d",
    "url": "http://169.254.169.254/config.json",
    "file url": "file:///etc/passwd",
    "hub id": "someone/no-such-model",
    "several slashes": "a/b/c/d",
    "wide": "라마 " * 300,
}


@pytest.mark.parametrize("command", [("fit", "--gpu", "l40s"), ("models",)], ids=["fit", "models"])
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_model_that_is_not_there_is_refused_in_one_line(
    name: str, command: tuple[str, ...], cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = cli(command[0], *command[1:], "--", name)
    assert is_one_line(code, out, err), err
    assert len(err) < 700


@pytest.mark.parametrize("name", [name for name in NAMES.values() if name.strip() != "" and "\0" not in name])
def test_a_gpu_that_is_not_there_is_refused_in_one_line(name: str, cli: Cli) -> None:
    code, out, err = cli("fit", "llama-2-7b", f"--gpu={name}")
    assert is_one_line(code, out, err), err
    assert len(err) < 700


# ---------------------------------------------------------------- random configs

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**65), 2**65)
    | st.integers(0, 300)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from([*FAMILIES, "sliding_attention", "full_attention", "bfloat16", "float16", "auto", "fp8", "awq"]),
    lambda inside: st.lists(inside, max_size=5) | st.dictionaries(st.text(max_size=8), inside, max_size=5),
    max_leaves=12,
)
QUANTIZATION = [
    *("bits", "group_size", "weight_block_size", "config_groups", "format", "ignore", "quant_algo"),
    *("modules_to_not_convert", "kv_cache_scheme", "kv_cache_quant_algo", "activation_scheme"),
]
FIELDS = sorted({name for base in BASES for path in paths(config_of(base)) for name in path})


def is_answered(config: dict[str, Any]) -> None:
    begin = time.process_time()
    try:
        spec = read_config(config, name="x")
        assert is_sane(spec)
        answer = fit(spec, "l40s", max_len=512)
        assert json.loads(answer.to_json())["candidates"]
    except BadInput as error:
        assert str(error)
    assert time.process_time() - begin < MOST_SECONDS


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(config=st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=8), JSON, max_size=12), family=JSON)
def test_random_objects_are_refused_or_answered(config: dict[str, Any], family: Any) -> None:
    is_answered({**config, "model_type": family})


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), base=st.sampled_from(BASES))
def test_real_configs_with_some_fields_changed_are_refused_or_answered(data: st.DataObject, base: str) -> None:
    config = config_of(base)
    places = st.sampled_from(list(paths(config)))
    for path in data.draw(st.lists(places, min_size=1, max_size=3, unique=True)):
        try:
            config = put(config, path, data.draw(JSON))
        except (TypeError, KeyError):
            continue  # the object around it was replaced before
    is_answered(config)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    method=st.sampled_from(sorted(METHODS)),
    fields=st.dictionaries(
        st.sampled_from(QUANTIZATION),
        JSON | st.sampled_from([4, 8, 128, [128, 128], ["re:.*mlp.*"], ["lm_head"], "FP8", "NVFP4", "pack-quantized"]),
        max_size=6,
    ),
)
def test_random_quantizations_are_refused_or_answered(method: str, fields: dict[str, Any]) -> None:
    is_answered({**LLAMA, "quantization_config": {"quant_method": method, **fields}})


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=200) | st.binary(max_size=60).map(lambda b: GOOD.encode()[:-1] + b))
def test_random_bytes_are_refused_or_answered(data: bytes, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(data)
    try:
        assert is_sane(load_model(str(file)))
    except BadInput as error:
        assert str(error)


# ---------------------------------------------------------------- options

WHOLE = ["--max-len", "--batch", "--prompt", "--tp", "--pp", "--max-num-seqs", "--max-num-batched-tokens"]
SHARE = ["--gpu-memory-utilization"]
SIZES = ["--memory"]
WORDS = ["--gpu", "--dtype", "--kv-cache-dtype", "--engine", "--cloud", "--assume", "--lang"]
NO_NUMBER = [
    "-1",
    "0",
    "nan",
    "inf",
    "-inf",
    "1e9",
    "0x10",
    "1.5",
    "",
    " ",
    "9" * 30,
    "9" * 5000,
    "²",
    "\x1b[2J",
    "4;5",
]


@pytest.mark.parametrize("option", WHOLE + SHARE + SIZES)
@pytest.mark.parametrize("value", NO_NUMBER, ids=lambda value: repr(value)[:20])
def test_a_number_that_an_option_cannot_be_is_refused(option: str, value: str, cli: Cli) -> None:
    code, out, err = cli("fit", "llama-2-7b", "--gpu", "l40s", f"{option}={value}")
    assert is_one_line(code, out, err), err
    assert option in err
    assert len(err) < 400


@pytest.mark.parametrize("option", WORDS)
@pytest.mark.parametrize("value", ["", " ", "xx", "-1", "\x1b[2J", "a\nb", "x" * 5000, "{0}", "％"], ids=repr)
def test_a_word_that_an_option_does_not_know_is_refused(option: str, value: str, cli: Cli) -> None:
    code, out, err = cli("fit", "llama-2-7b", "--gpu", "l40s", f"{option}={value}")
    assert is_one_line(code, out, err), err
    assert len(err) < 700


@pytest.mark.parametrize("value", NO_NUMBER, ids=lambda value: repr(value)[:20])
def test_a_length_or_a_least_memory_that_is_no_number_is_refused(value: str, cli: Cli) -> None:
    assert is_one_line(*cli("models", "llama-2-7b", f"--length={value}"))
    assert is_one_line(*cli("gpus", f"--min-memory={value}"))


def test_digits_of_other_scripts_count_as_digits(cli: Cli) -> None:
    code, out, _ = cli("fit", "llama-2-7b", "--gpu", "l40s", "--batch", "４", "--max-len", "1024", "--json")
    assert (code, json.loads(out)["candidates"][0]["batch"]) == (0, 4)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nonsense"], "nonsense"),
        (["fi"], "fi"),
        (["FIT"], "FIT"),
        ([""], "see"),
        (["--nonsense"], "--nonsense"),
        (["--json"], "--json"),
        (["fit"], "MODEL"),
        (["fit", "llama-2-7b"], "--gpu"),
        (["fit", "llama-2-7b", "--gpu"], "--gpu"),
        (["fit", "--gpu", "l40s"], "MODEL"),
        (["fit", "llama-2-7b", "l40s"], "--gpu"),
        (["fit", "llama-2-7b", "--gpu", "l40s", "more"], "more"),
        (["fit", "llama-2-7b", "--gpu", "l40s", "--bacth", "4"], "--batch"),
        (["fit", "llama-2-7b", "--gpu", "l40s", "--json=yes"], "--json"),
        (["fit", "llama-2-7b", "--gpu", "l40s", "--tp", "3"], "1, 2, 4, 8, 16, 32"),
        (["fit", "llama-2-7b", "--gpu", "l40s", "--pp", "33"], "32 layers"),
        (["fit", "llama-2-7b", "--gpu", "l40s", "--batch", "-1"], "--batch is -1"),
        (["fit", "llama-2-7b", "--gpu", "h900"], "nearest"),
        (["fit", "llama-2-7b", "--gpu", "l40s", "--gpu", "h900"], "h900"),
        (["fit", "llama-2-7b", "--gpu", "l40s", "--max-len", "64", "--prompt", "65"], "--prompt"),
        (["fit", "llama-2-7b", "--gpu", "l40s", "--engine", "vllm>=0.1"], "0.1"),
        (["fit", "llama-2-7b", "--gpu", "l40s", "--dtype", "int4"], "--dtype"),
        (["fit", "llama-2-7b", "--gpu", "l40s", "--kv-cache-dtype", "int4"], "--kv-cache-dtype"),
        (["fit", "llama-27b", "--gpu", "l40s"], "catalogue"),
        (["--lang", "xx"], "en, ko"),
        (["--lang"], "--lang"),
        (["fit", "--lang"], "--lang"),
        (["models", "a", "b"], "b"),
        (["gpus", "a", "b"], "b"),
        (["gpus", "--vendor", "nobody"], "nvidia"),
        (["gpus", "--precision", "fp3"], "fp8"),
        (["gpus", "--cloud", "nowhere"], "aws"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else None,
)
def test_a_command_line_that_says_nothing_clear_is_refused_with_what_to_do(
    arguments: list[str], told: str, cli: Cli
) -> None:
    code, out, err = cli(*arguments)
    assert is_one_line(code, out, err), err
    assert told in err
    assert ".;" not in err


# ---------------------------------------------------------------- terminals, pipes, streams


def on_a_terminal(*arguments: str, **environment: str) -> tuple[int, str]:
    """The command line on a terminal of its own: (exit code, everything it wrote)."""
    pid, terminal = pty.fork()
    if pid == 0:
        for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES"):
            os.environ.pop(name, None)
        os.environ.update({"NARROWS_LANG": "en", **environment})
        os.execv(sys.executable, [sys.executable, "-m", "narrows", *arguments])
    written = b""
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:
            break
        if not piece:
            break
        written += piece
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), written.decode()


def shell(line: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """A line of bash in which `narrows` is the command line; the exit code is that of narrows."""
    return subprocess.run(
        ["bash", "-c", f'narrows() {{ "{sys.executable}" -m narrows "$@"; }}; {line}'],
        capture_output=True,
        timeout=60,
        env={**os.environ, "NARROWS_LANG": "en", **environment},
    )


FIT = "narrows fit llama-2-7b --gpu l40s --max-len 4096"


def test_what_a_file_says_cannot_command_the_terminal(tmp_path: Path) -> None:
    escape = "\x1b]0;owned\x07\x1b[2J\x1b[31m"
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**LLAMA, "_name_or_path": escape, "architectures": [escape], f"new{escape}": 1}))
    for command in (["fit", str(file), "--gpu", "l40s"], ["models", str(file)]):
        code, written = on_a_terminal(*command, NO_COLOR="1", TERM="dumb")
        assert code == 0
        assert "\x1b" not in written
        assert "\x07" not in written


def test_an_error_cannot_command_the_terminal(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**LLAMA, "hidden_size": "\x1b[2J"}))
    for command in (
        ["models", str(file)],
        ["fit", "llama-2-7b", "--gpu", "l40s", "--engine", "\x1b[2J"],
        ["fit", "llama-2-7b", "--gpu", "l40s", "--memory", "\x1b[2J"],
        ["--lang", "\x1b[2J"],
    ):
        code, written = on_a_terminal(*command)
        assert code == 2
        assert written.replace("\r\n", "").isprintable()


@pytest.mark.parametrize("columns", ["0", "1", "20", "-5", "many", "100000"])
def test_any_width_of_the_terminal_prints_the_report(columns: str) -> None:
    code, written = on_a_terminal("fit", "llama-2-7b", "--gpu", "l40s", COLUMNS=columns)
    assert code == 0
    assert "Traceback" not in written
    assert len(written.split()) > 100


def test_without_colour_there_is_none() -> None:
    assert "\x1b" in on_a_terminal("fit", "llama-2-7b", "--gpu", "l40s", TERM="xterm-256color")[1]
    for environment in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        code, written = on_a_terminal("fit", "llama-2-7b", "--gpu", "l40s", **environment)
        assert code == 0
        assert "\x1b[3" not in written


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "latin-1"},
        {"PYTHONIOENCODING": "cp437"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"LC_ALL": "POSIX"},
        {"LANG": "xx_YY.nonsense", "LC_ALL": ""},
        {"TERM": ""},
    ],
    ids=lambda environment: " ".join(f"{k}={v}" for k, v in environment.items()),
)
def test_an_output_that_cannot_print_every_character_is_no_reason_to_fail(environment: dict[str, str]) -> None:
    for line in (FIT, FIT + " --json", "narrows models llama-2-7b", "narrows --help"):
        done = shell(line, **environment)
        assert (done.returncode, done.stderr) == (0, b""), done.stderr.decode()[-200:]
        if "--json" in line:
            assert json.loads(done.stdout)["command"].startswith("narrows fit")


def test_an_error_is_one_line_also_where_its_characters_cannot_be_printed() -> None:
    done = shell("narrows fit 라마-×-7b --gpu l40s", PYTHONIOENCODING="ascii")
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1
    assert done.stderr.startswith(b"narrows: error: ")


@pytest.mark.parametrize(
    "line", [FIT, FIT + " --json", "narrows models", "narrows models --json", "narrows gpus --json"]
)
def test_a_reader_that_goes_away_is_no_error(line: str) -> None:
    """Neither a traceback nor exit 1, which would mean that it does not fit."""
    done = shell(line + " | true; exit ${PIPESTATUS[0]}")
    assert (done.returncode, done.stderr) == (0, b"")
    done = shell(line + " | head -1 > /dev/null; exit ${PIPESTATUS[0]}")
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("line", [FIT, FIT + " --json", "narrows --help", "narrows models --json"])
def test_a_full_disk_is_told_in_one_line_and_is_neither_yes_nor_no(line: str) -> None:
    done = shell(line + " > /dev/full")
    assert done.returncode not in (0, 1)
    assert done.stderr.count(b"\n") == 1
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("line", [FIT, FIT + " --json", "narrows --help", "narrows gpus"])
def test_closed_streams_give_no_traceback(line: str) -> None:
    assert b"Traceback" not in shell(line + " >&-").stderr
    assert shell(line + " 2>&-").returncode == 0
    assert shell(line + " <&-").returncode == 0


def test_a_closed_or_unreadable_stdin_is_told_in_one_line(tmp_path: Path) -> None:
    for line in ("narrows fit - --gpu l40s <&-", f"narrows fit - --gpu l40s 0>{tmp_path}/out"):
        done = shell(line)
        assert is_one_line(done.returncode, done.stdout.decode(), done.stderr.decode()), done.stderr.decode()[-200:]


def test_an_interrupt_ends_it_without_a_traceback(tmp_path: Path) -> None:
    import signal

    process = subprocess.Popen(
        [sys.executable, "-m", "narrows", "fit", "-", "--gpu", "l40s"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    time.sleep(0.6)  # it waits for its input by then
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert (out, b"Traceback" in err, err.strip().count(b"\n")) == (b"", False, 0)


def _mutated(config: dict[str, Any], choice: random.Random) -> dict[str, Any]:
    """A copy with one or two fields, at any depth, taken out or set to something odd."""
    found: dict[str, Any] = json.loads(json.dumps(config))
    for _ in range(choice.choice((1, 1, 2))):
        fields, inside = [(found, name) for name in found], [found[name] for name in found]
        fields += [(part, name) for part in inside if isinstance(part, dict) for name in part]
        if fields:
            part, name = choice.choice(fields)
            if choice.random() < 0.15:
                del part[name]
            else:
                part[name] = choice.choice(ODD)
    return found


ODD: list[Any] = [
    0,
    -1,
    1,
    3,
    7,
    10**9,
    10**30,
    1.5,
    -2.5,
    float("nan"),
    float("inf"),
    None,
    True,
    False,
    "",
    "x",
    "auto",
]
ODD += [[], {}, [1], [0] * 3, ["full_attention"], [None], [["x", 2]], {"a": 1}]


@pytest.mark.parametrize("seed", range(4))
def test_a_config_of_any_family_with_odd_fields_is_refused_or_starts_somewhere(seed: int) -> None:
    """One fault in 430,000 such configs was an LFM2 with a feed-forward part of no width."""
    choice = random.Random(seed)
    gpu = find_accelerator("h100-sxm")
    rows = [json.loads(line) for line in gzip.decompress((DATA / "oracle.jsonl.gz").read_bytes()).splitlines()]
    refused = 0
    for row in choice.choices(rows, k=500):
        try:
            found = read_config(_mutated(row["config"], choice), name="m")
            for ranks in (1, 4):
                assert start(deploy(found, gpu, tensor_parallel=ranks, max_length=1000)).weights > 0
        except BadInput as error:
            refused += 1
            assert len(str(error)) < 600
    assert 50 < refused < 450


def test_a_width_that_is_rounded_to_nothing_is_refused() -> None:
    rows = [json.loads(line) for line in gzip.decompress((DATA / "oracle.jsonl.gz").read_bytes()).splitlines()]
    config = next(row["config"] for row in rows if row["config"]["model_type"] == "lfm2")
    with pytest.raises(BadInput, match="intermediate_size' is too small"):
        read_config(
            {
                **{k: v for k, v in config.items() if k != "block_ff_dim"},
                "intermediate_size": 1,
                "block_auto_adjust_ff_dim": True,
            },
            name="m",
        )


def test_infinity_in_a_field_that_is_not_needed_is_read(tmp_path: Path) -> None:
    """Python's json writes it, and hub files of Mamba-2 models hold it."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**LLAMA, "time_step_limit": [0.0, float("inf")]}))
    assert load_model(str(path)).max_length == 4096
    path.write_text(path.read_text()[:-1])
    with pytest.raises(BadInput, match="not valid JSON"):
        load_model(str(path))
