"""AutoRound: integers in GPTQ's or AWQ's packing, or microscaled floats, with settings of single layers."""

from __future__ import annotations

from narrows.models.fields import Fields
from narrows.models.quantizers.rule import Rule, bits, group, names, settings, unread, word
from narrows.precision import UNQUANTIZED, Scheme
from narrows.precision.floats import Microscaled, Nvfp4
from narrows.precision.integers import Awq, CompressedInt, Gptq


def read_auto_round(q: Fields, model_type: str) -> Rule:
    """The scheme of the layers' linear weights; `extra_config` names modules with bits or groups of their own."""
    layout = word(q, "packing_format", "auto_round:auto_gptq")
    scheme = _scheme(q, layout, None)
    rules: list[tuple[str, Scheme]] = []
    head: tuple[str, ...] = ()
    for name, own in settings(q, "extra_config"):
        made = _scheme(own, layout, q)
        if name.endswith("lm_head") and made is not UNQUANTIZED:
            head = ("head",)
        # a name that is no plain path is a regular expression
        plain = all(ch.isalnum() or ch in "._-*" for ch in name) and ".*" not in name
        rules.append((name if plain else "re:" + name, made))
    return Rule(scheme, rules=tuple(rules), reach=head, excluded=names(q, "modules_to_not_quantize"))


def _scheme(q: Fields, layout: str, outer: Fields | None) -> Scheme:
    """The scheme of these settings; what is not said is as in `outer`."""
    rest = outer or q
    wide = q.size("bits", default=rest.raw("bits", default=4) if outer else 4)
    if wide >= 16:
        return UNQUANTIZED
    size = group(q) if q.has("group_size") else group(rest)
    kind = word(q, "data_type", word(rest, "data_type", "int"))
    if kind.startswith("mx_fp") and wide in (4, 8):
        return Microscaled(wide)
    if kind.startswith("nv_fp") and wide == 4:
        return Nvfp4()
    if kind == "int":
        wide = bits(q, default=wide)
        if "llm_compressor" in layout:
            return CompressedInt(wide, size, q.flag("sym", rest.flag("sym", True)))
        return Awq(wide, size) if layout.endswith("awq") else Gptq(wide, size)
    raise unread(q, "data_type", "int, mx_fp, nv_fp")
