"""bitsandbytes as transformers saves it: NF4, FP4 and LLM.int8()."""

from __future__ import annotations

from narrows.models.fields import Fields
from narrows.models.quantizers.rule import Rule, names, unread
from narrows.precision import FORMATS, Format, format_of
from narrows.precision.bitsandbytes import Bnb4, Bnb8
from narrows.text import BadInput


def read_bitsandbytes(q: Fields, model_type: str) -> Rule:
    """All linear weights, towers included; a list of modules to skip stands in place of the head alone."""
    skipped = names(q, "llm_int8_skip_modules")
    # transformers leaves out the head where no list is given, and exactly the list where one is
    reach = ("tower", "head") if skipped else ("tower",)
    if q.flag("load_in_4bit", q.flag("_load_in_4bit", False)):
        kind = q.raw("bnb_4bit_quant_type", default="fp4")
        if kind not in ("nf4", "fp4"):
            raise unread(q, "bnb_4bit_quant_type", "nf4, fp4")
        double = q.flag("bnb_4bit_use_double_quant", False)
        return Rule(Bnb4(kind, double, _storage(q)), excluded=skipped, reach=reach)
    if q.flag("load_in_8bit", q.flag("_load_in_8bit", False)):
        return Rule(Bnb8(), excluded=skipped, reach=reach)
    raise BadInput(
        "'quantization_config' of bitsandbytes says neither 'load_in_4bit' nor 'load_in_8bit'; narrows cannot tell how "
        "the weights are stored"
    )


def _storage(q: Fields) -> Format:
    stated = q.raw("bnb_4bit_quant_storage")
    if stated is None:
        return FORMATS["uint8"]
    return format_of(stated if isinstance(stated, str) else "?")
