"""GPTQ as AutoGPTQ, GPTQModel, transformers and GPTQ-for-LLaMa write it."""

from __future__ import annotations

from narrows.models.fields import Fields
from narrows.models.module_schemes import HEAD_AGAIN
from narrows.models.quantizers.rule import Rule, bits, group, members, unread
from narrows.precision import UNQUANTIZED, Scheme
from narrows.precision.integers import Gptq, Marlin
from narrows.text import BadInput, Text

_BEFORE_AUTOGPTQ = {"quant_method", "bits", "group_size", "damp_percent", "desc_act", "sym", "true_sequential"}
"""All that a quantize_config.json holds which was added by hand to a file of GPTQ-for-LLaMa; AutoGPTQ since 0.2
writes `model_file_base_name` besides."""
_LATER = ("static_groups", "dataset", "tokenizer", "use_exllama", "use_cuda_fp16", "meta")
"""Fields of tools that store a tied head once: later AutoGPTQ (Qwen1.5-0.5B-Chat-GPTQ-Int4), transformers, GPTQModel.
"""


def read_gptq(q: Fields, model_type: str) -> Rule:
    """One scheme of integers; `dynamic` and `modules_in_block_to_quantize` name modules that differ."""
    layout = q.raw("checkpoint_format")
    if layout == "marlin" or q.raw("is_marlin_format") is True:
        return Rule(Marlin(group(q)))
    if layout not in (None, "gptq", "gptq_v2"):
        raise unread(q, "checkpoint_format", "gptq, gptq_v2, marlin")
    wide, size = bits(q), group(q)
    old = set(q.values) == _BEFORE_AUTOGPTQ and q.raw("desc_act") is False
    scheme = Gptq(wide, size, old)
    notes = (
        Text(
            "the file does not say which tool wrote it; the layout of GPTQ-for-LLaMa is taken, which keeps scales "
            "in 32 bits (AutoGPTQ's takes up to 3 % less)"
        ),
    )
    again = "model_file_base_name" in q.values and not any(name in q.values for name in _LATER)
    rules = _dynamic(q, scheme) + _only(q, scheme)
    reach = ("head",) if q.flag("lm_head", False) else ()
    return Rule(scheme, rules=rules, reach=reach, habits=(HEAD_AGAIN,) if again else (), notes=notes if old else ())


def _dynamic(q: Fields, scheme: Gptq) -> tuple[tuple[str, Scheme], ...]:
    """GPTQModel's rules: regular expressions from the start of a name, `-:` leaves a module out."""
    found: list[tuple[str, Scheme]] = []
    for pattern, value in members(q, "dynamic"):
        if pattern.startswith("-:"):
            found.append(("re:" + pattern[2:], UNQUANTIZED))
            continue
        own = Fields(value if isinstance(value, dict) else {}, f"{q.path}dynamic.{pattern[:60]}.")
        changed = Gptq(bits(own, default=scheme.bits), group(own, default=scheme.group), scheme.old)
        found.append(("re:" + pattern.removeprefix("+:"), changed))
    return tuple(found)


def _only(q: Fields, scheme: Scheme) -> tuple[tuple[str, Scheme], ...]:
    """`modules_in_block_to_quantize`: names inside a layer, in one list or in lists by stage."""
    value = q.raw("modules_in_block_to_quantize")
    if not value:
        return ()
    stages = value if isinstance(value, list) else [value]
    flat = [name for stage in stages for name in (stage if isinstance(stage, list) else [stage])]
    if any(not isinstance(name, str) for name in flat):
        raise BadInput(
            "config field '{field}' must be a list of module names", field=q.path + "modules_in_block_to_quantize"
        )
    return (*((name, scheme) for name in flat), ("*", UNQUANTIZED))


def read_marlin(q: Fields, model_type: str) -> Rule:
    """A checkpoint repacked for Marlin, as its own method."""
    return Rule(Marlin(group(q)), reach=("head",) if q.flag("lm_head", False) else ())
