"""A GGUF file gives the same model as the config it was made from, and its bytes to the byte."""

from __future__ import annotations

import gzip
import json
import os
from math import prod
from pathlib import Path
from typing import Any

import msgspec
import pytest

from narrows.models import ModelSpec, load_model, read_config
from narrows.models.catalogue import catalogue_entry
from narrows.models.config import catalogued
from narrows.models.mixers import Mamba2
from narrows.models.stored.gguf_config import _BY_LAYER
from narrows.models.stored.gguf_families import ARCHITECTURES
from narrows.models.stored.gguf_stored import quantized
from narrows.precision.ggml import file_types
from narrows.text import BadInput

from .conftest import DATA, LLAMA, Cli
from .gguf_files import F32, STRING, U32, Writer, gguf, place
from .gguf_models import ARCHITECTURE, metadata_of, pairs_of, tensors_of, write_model

with gzip.open(DATA / "oracle.jsonl.gz") as packed:
    ORACLE: list[dict[str, Any]] = [json.loads(line) for line in packed]

# what the random variants of these vary, no GGUF file can say: layers that slide elsewhere than in every such model,
# and heads of delta attention that are not those of the latent one
UNSAYABLE = {("oracle-random", family) for family in ("gpt_oss", "llama4", "kimi_linear")}

MODELS: dict[str, ModelSpec] = {
    f"{row['set']}-{row['key']}-{row['seed']}": spec
    for row in ORACLE
    if (spec := read_config(row["config"], name=row["key"]))
    and ARCHITECTURE.get(spec.family, spec.family) in ARCHITECTURES
    and (row["set"], spec.family) not in UNSAYABLE
}
TINY = read_config({**LLAMA, "num_hidden_layers": 2, "vocab_size": 1000}, name="tiny")


def layers_of(spec: ModelSpec) -> list[Any]:
    """The layers, less the state's format that a config may ask for and a GGUF file does not."""
    found = []
    for group in spec.groups:
        mixer = group.layer.mixer
        if isinstance(mixer, Mamba2) or hasattr(mixer, "state_format"):
            group = msgspec.structs.replace(
                group,
                layer=msgspec.structs.replace(group.layer, mixer=msgspec.structs.replace(mixer, state_format=None)),
            )
        found.append(group)
    return found


def about_tensors(spec: ModelSpec) -> list[str]:
    """The notes on tensors, and on fields that were not understood."""
    return [str(text) for text in spec.assumptions if "tensors" in str(text) or "not understood" in str(text)]


@pytest.mark.parametrize("spec", MODELS.values(), ids=MODELS)
def test_a_file_gives_the_layers_and_parameters_of_its_config(tmp_path: Path, spec: ModelSpec) -> None:
    size = write_model(tmp_path / "model.gguf", spec)
    found = load_model(str(tmp_path / "model.gguf"))
    assert about_tensors(found) == []
    assert layers_of(found) == layers_of(spec)
    assert found.unique_parameters() == msgspec.structs.replace(spec, towers=()).unique_parameters()
    assert (found.vocab, found.hidden, found.head_tied) == (spec.vocab, spec.hidden, spec.head_tied)
    assert found.checkpoint_bytes() == size


def test_most_architectures_are_written_and_read() -> None:
    families = {ARCHITECTURE.get(spec.family, spec.family) for spec in MODELS.values()}
    same_as_llama = {name for name, known in ARCHITECTURES.items() if known == ARCHITECTURES["llama"]}
    assert set(ARCHITECTURES) - families - same_as_llama == {
        # variants of architectures that are
        *("qwen2vl", "qwen3vl", "qwen3vlmoe", "nemotron_h_moe")
    }


@pytest.mark.parametrize("row", json.loads((DATA / "gguf-seen.json").read_text("utf-8")), ids=lambda row: row["model"])
def test_real_files_say_what_these_tests_write(row: dict[str, Any]) -> None:
    written = metadata_of(catalogued(catalogue_entry(row["model"])))
    for key, seen in row["seen"].items():
        value = written[key]
        assert (value[: len(seen)] if isinstance(seen, list) else value) == seen, key


def test_keys_and_names_are_those_of_the_official_package() -> None:
    from gguf.constants import MODEL_ARCH_NAMES, TENSOR_NAMES, Keys

    keys = {
        value.removeprefix("{arch}.")
        for group in (Keys.LLM, Keys.Attention, Keys.Attention.Indexer, Keys.Rope, Keys.SSM, Keys.KDA, Keys.ShortConv)
        for value in vars(group).values()
        if isinstance(value, str)
    }
    # newer than the package
    keys.add("attention.chunk_size")
    for architecture in ARCHITECTURES.values():
        for source in architecture.fields.values():
            for one in source.removeprefix("?").split("|"):
                if one[0] not in "+-=":
                    assert set(one.replace(" - ", " / ").split(" / ")) <= keys, one
    assert set(ARCHITECTURES) <= set(MODEL_ARCH_NAMES.values())
    names = {name.replace("{bid}", "0") for name in TENSOR_NAMES.values()}
    for spec in MODELS.values():
        for name, _, _ in tensors_of(spec):
            if name.startswith("blk.0.") or not name.startswith("blk."):
                base = name.removesuffix(".weight").removesuffix(".bias").removesuffix(".scale")
                assert base in names, name


def test_what_lists_of_layers_say_is_only_asked_for_where_it_is_known() -> None:
    assert {one.by_layer for one in ARCHITECTURES.values() if one.by_layer} == set(_BY_LAYER)


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q4_0", "Q8_0", "Q4_K_M", "Q6_K", "MXFP4_MOE"])
def test_bytes_are_the_files_whatever_its_types(tmp_path: Path, kind: str) -> None:
    size = write_model(tmp_path / "m.gguf", TINY, kind)
    found, planned = load_model(str(tmp_path / "m.gguf")), quantized(TINY, file_types()[kind])
    assert found.precision.scheme.label == planned.precision.scheme.label == kind
    assert found.checkpoint_bytes() == planned.checkpoint_bytes() == size


def test_bytes_stand_by_component_and_type(tmp_path: Path, cli: Cli) -> None:
    size = write_model(tmp_path / "tiny-Q4_K_M.gguf", TINY, "Q4_K_M")
    code, out, err = cli("models", str(tmp_path / "tiny-Q4_K_M.gguf"), "--json")
    assert code == 0, err
    answer = json.loads(out)
    assert (answer["quantization"], answer["checkpoint_bytes"]) == ("Q4_K_M", size)
    head = next(one for one in answer["components"] if one["name"] == "head")
    assert head["formats"] == {"Q6_K": 1000 * 4096 // 256 * 210}
    attention = next(one for one in answer["components"] if one["name"] == "attention")
    assert set(attention["formats"]) == {"Q4_K", "Q6_K"}
    assert answer["kv_bytes_per_token"] == 2 * 2 * 32 * 128 * 2


def test_fit_takes_a_file_and_keeps_its_bytes(tmp_path: Path, cli: Cli) -> None:
    size = write_model(tmp_path / "m.gguf", TINY, "Q4_K_M")
    code, out, _ = cli("fit", str(tmp_path / "m.gguf"), "--gpu", "l40s", "--json")
    assert code == 0
    terms = json.loads(out)["candidates"][0]["terms"]
    # beside the file's tensors there is only the table of rotary positions
    assert terms["weights"] == size + 4096 * 128 * 2


W = Writer()


def test_a_tensor_of_another_size_is_reported_and_its_bytes_are_the_files(tmp_path: Path) -> None:
    tensors = [
        (name, (4096, 5000), number) if name == "blk.1.ffn_up.weight" else (name, dims, number)
        for name, dims, number in tensors_of(TINY)
    ]
    path = place(tmp_path / "m.gguf", pairs_of(TINY), tensors)
    found = load_model(str(path))
    assert about_tensors(found) == [
        "tensors whose size is not what the metadata makes it: 1, such as 'blk.1.ffn_up.weight' with 20,480,000 "
        "elements in place of 45,088,768; bytes are the file's, but parameters and cache may be wrong"
    ]
    assert found.checkpoint_bytes() == sum(prod(d) * (4 if n == 0 else 2) for _, d, n in tensors)


def test_a_tensor_that_is_missing_is_reported(tmp_path: Path) -> None:
    tensors = [one for one in tensors_of(TINY) if one[0] != "blk.0.attn_k.weight"]
    found = load_model(str(place(tmp_path / "m.gguf", pairs_of(TINY), tensors)))
    (said,) = about_tensors(found)
    assert said.startswith("tensors that the metadata asks for and the file lacks: 1, such as 'blk.0.attn_k.weight'; ")
    assert found.checkpoint_bytes() == sum(prod(d) * (4 if n == 0 else 2) for _, d, n in tensors)


def test_what_belongs_to_no_part_is_counted_and_reported_but_for_rotary_tables(tmp_path: Path) -> None:
    tensors = [*tensors_of(TINY), ("rope_freqs.weight", (64,), 0)]
    assert about_tensors(load_model(str(place(tmp_path / "a.gguf", pairs_of(TINY), tensors)))) == []
    tensors.append(("surprise.weight", (1024, 1024), 0))
    found = load_model(str(place(tmp_path / "b.gguf", pairs_of(TINY), tensors)))
    assert "such as 'surprise.weight'; their 4.00 MiB count" in about_tensors(found)[0]
    assert found.checkpoint_bytes() == sum(prod(d) * (4 if n == 0 else 2) for _, d, n in tensors)
    assert found.unique_parameters() == TINY.unique_parameters()


def test_layers_for_prediction_are_stored_but_not_served(tmp_path: Path) -> None:
    spec = catalogued(catalogue_entry("zai-org/GLM-4.5-Air"))
    assert spec.layers == 46
    tensors = [
        *tensors_of(spec),
        ("blk.46.nextn.eh_proj.weight", (8192, 4096), 1),
        ("blk.46.attn_norm.weight", (4096,), 0),
    ]
    pairs = pairs_of(spec, block_count=47, nextn_predict_layers=1)
    found = load_model(str(place(tmp_path / "m.gguf", pairs, tensors)))
    assert layers_of(found) == layers_of(spec) and about_tensors(found) == []
    assert [(tower.name, tower.served) for tower in found.towers] == [("MTP layer", False)]


def test_fused_and_cut_tensors_of_older_files_are_found(tmp_path: Path) -> None:
    spec = catalogued(catalogue_entry("deepseek-ai/DeepSeek-V2-Lite"))
    tensors: list[tuple[str, Any, int]] = []
    for name, dims, number in tensors_of(spec):
        if name.endswith("attn_k_b.weight"):
            continue
        if name.endswith("attn_v_b.weight"):
            name, dims = name.replace("attn_v_b", "attn_kv_b"), (512, 16 * 256)
        tensors.append((name, dims, number))
    old = {"attention.key_length_mla": None, "attention.value_length_mla": None, "attention.head_count_kv": 16}
    pairs = pairs_of(spec, **old, **{"attention.key_length": 192, "attention.value_length": 128})
    found = load_model(str(place(tmp_path / "m.gguf", pairs, tensors)))
    assert about_tensors(found) == [] and layers_of(found) == layers_of(spec)


def write_parts(folder: Path, skip: int = 0, first: int = 0) -> Path:
    """A model in three parts, numbered from `first`; `skip` is one that is left out."""
    count = 3
    tensors = tensors_of(TINY)
    each = -(-len(tensors) // count)
    for i in range(count):
        own = [
            W.pair("split.no", 2, i + first),
            W.pair("split.count", 2, count),
            W.pair("split.tensors.count", 5, len(tensors)),
        ]
        pairs = [*(pairs_of(TINY) if i == 0 else []), *own]
        if i + 1 != skip:
            place(folder / f"tiny-{i + 1:05d}-of-{count:05d}.gguf", pairs, tensors[i * each : (i + 1) * each])
    return folder / f"tiny-00001-of-{count:05d}.gguf"


def test_any_part_stands_for_all(tmp_path: Path) -> None:
    first = write_parts(tmp_path)
    whole = sum(prod(d) * (4 if n == 0 else 2) for _, d, n in tensors_of(TINY))
    for path in (first, tmp_path):
        assert load_model(str(path)).checkpoint_bytes() == whole


def test_missing_parts_are_named(tmp_path: Path) -> None:
    first = write_parts(tmp_path, skip=2)
    with pytest.raises(BadInput, match=r"is one of 3 parts, and of these there are missing: tiny-00002-of-00003.gguf"):
        load_model(str(first))


def test_parts_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    first = write_parts(tmp_path, first=1)
    with pytest.raises(BadInput, match="is not part 1 of 3"):
        load_model(str(first))
    os.rename(first, tmp_path / "renamed.gguf")
    with pytest.raises(BadInput, match="its name does not say which"):
        load_model(str(tmp_path / "renamed.gguf"))


def test_a_later_part_with_a_tokenizer_of_its_own_is_refused(tmp_path: Path) -> None:
    first = write_parts(tmp_path)
    tokens = W.items("tokenizer.ggml.tokens", STRING, ["a"] * 5000)
    own = [W.pair("split.no", 2, 1), W.pair("split.count", 2, 3), tokens]
    place(tmp_path / "tiny-00002-of-00003.gguf", own, [])
    with pytest.raises(BadInput, match=r"tiny-00002-of-00003\.gguf'.*has more strings than any tokenizer"):
        load_model(str(first))


def test_a_file_is_not_planned_as_another_type(tmp_path: Path, cli: Cli) -> None:
    write_model(tmp_path / "m.gguf", TINY, "Q8_0")
    assert cli("models", str(tmp_path / "m.gguf"), "--quantization", "q8_0")[0] == 0
    code, _, err = cli("models", str(tmp_path / "m.gguf"), "--quantization", "Q4_K_M")
    assert code == 2 and "the model is a GGUF file of the type Q8_0" in err


def test_a_directory_means_its_one_model(tmp_path: Path) -> None:
    write_model(tmp_path / "tiny.gguf", TINY)
    place(tmp_path / "mmproj-tiny.gguf", [W.pair("general.architecture", STRING, "clip")], [])
    assert load_model(str(tmp_path)).layers == 2
    write_model(tmp_path / "tiny-2.gguf", TINY)
    with pytest.raises(BadInput, match=r"holds several GGUF models: tiny-2\.gguf, tiny\.gguf; give one"):
        load_model(str(tmp_path))


def test_a_file_under_another_name_is_known_by_its_first_bytes(tmp_path: Path) -> None:
    write_model(tmp_path / "sha256-0123", TINY)
    assert load_model(str(tmp_path / "sha256-0123")).layers == 2


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        (
            [W.pair("general.architecture", STRING, "rwkv7")],
            "of the architecture 'rwkv7', which narrows does not read; ",
        ),
        ([], "does not say general.architecture"),
        ([W.pair("general.architecture", STRING, "llama")], "does not say llama.block_count"),
        (
            [W.pair("general.architecture", STRING, "llama"), W.pair("llama.block_count", U32, 9999)],
            "says llama.block_count = 9999, which does not fit its tensors",
        ),
        (
            [W.pair("general.architecture", STRING, "llama"), W.pair("general.type", STRING, "adapter")],
            "holds no model but a companion of one",
        ),
        (
            [W.pair("general.architecture", STRING, "llama"), W.pair("llama.block_count", STRING, "two")],
            "says llama.block_count = two",
        ),
    ],
)
def test_what_is_no_model_is_refused_in_one_sentence(tmp_path: Path, pairs: list[bytes], said: str, cli: Cli) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf(pairs, [("token_embd.weight", (256, 4), 1), ("output_norm.weight", (256,), 0)]))
    code, out, err = cli("models", str(path))
    assert (code, out) == (2, "") and said in err and err.count("\n") == 1


def test_layers_that_differ_in_heads_are_refused(tmp_path: Path) -> None:
    pairs = pairs_of(TINY, **{"attention.head_count_kv": [8, 4]})
    with pytest.raises(BadInput, match=r"layers that differ in llama\.attention\.head_count_kv"):
        load_model(str(place(tmp_path / "m.gguf", pairs, tensors_of(TINY))))


def test_a_config_needs_nothing_of_gguf(narrows: Any, tmp_path: Path) -> None:
    import subprocess
    import sys

    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    code = (
        "import sys; from narrows.answers.fit import fit; "
        f"fit({str(tmp_path / 'config.json')!r}, gpu='l40s'); "
        "print([name for name in sys.modules if 'gguf' in name or 'ggml' in name])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


ODD: list[Any] = [0, 2**32 - 1, "text", [], [1, 2], [0] * 200, [3] * 200, 1.5, True, None]
"""What no key of a model should be; None leaves it out."""


def as_pair(key: str, value: Any) -> list[bytes]:
    """A metadata entry of whatever type the value has."""
    if value is None:
        return []
    if isinstance(value, list):
        return [W.items(key, 7 if value and isinstance(value[0], bool) else 5, value)]
    kind = {bool: 7, float: F32, str: STRING}.get(type(value), U32)
    return [W.pair(key, kind, value)]


SMALL = {ARCHITECTURE.get(spec.family, spec.family): spec for spec in MODELS.values() if spec.layers <= 12}


@pytest.mark.parametrize("architecture", sorted(SMALL))
def test_odd_metadata_is_read_or_refused_and_never_changes_the_bytes(tmp_path: Path, architecture: str) -> None:
    spec = SMALL[architecture]
    tensors, told = tensors_of(spec), metadata_of(spec)
    size = sum(prod(dims) * (4 if number == 0 else 2) for _, dims, number in tensors)
    for turn, key in enumerate(told):
        for odd in (ODD[turn % len(ODD)], ODD[(turn + 5) % len(ODD)]):
            pairs = [W.pair("general.architecture", STRING, architecture)]
            for name, value in {**told, key: odd}.items():
                pairs += as_pair(f"{architecture}.{name}", value)
            path = place(tmp_path / "m.gguf", pairs, tensors)
            try:
                found = load_model(str(path))
            except BadInput as refused:
                assert "\n" not in str(refused)
            else:
                assert found.checkpoint_bytes() == size, (key, odd)


def test_a_family_to_assume_is_refused_for_a_file_that_names_its_own(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="--assume is of configs"):
        load_model(str(tmp_path / "x.gguf"), assume="llama")
