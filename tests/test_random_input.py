"""Whatever a config says, it is refused or answered within a second."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from narrows.answers.fit import fit
from narrows.models import load_model, read_config
from narrows.models.quantizers import METHODS
from narrows.models.readers import FAMILIES
from narrows.text import BadInput

from .bad_input import BASES, GOOD, MOST_SECONDS, config_of, is_sane, paths, put
from .conftest import LLAMA

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
