"""Methods that say what they store in a few numbers."""

from __future__ import annotations

from narrows.models.fields import Fields
from narrows.models.quantizers.rule import Rule, bits, group, names, settings, unread
from narrows.precision import FORMATS, UNQUANTIZED, Scheme
from narrows.precision.averages import Aqlm, BitsPerWeight, Higgs
from narrows.precision.floats import Microscaled, Nvfp4
from narrows.precision.integers import GroupedInt, Int8Scaled, Ternary
from narrows.text import BadInput, Text

_F16, _U8 = FORMATS["float16"], FORMATS["uint8"]


def read_exl(q: Fields, model_type: str) -> Rule:
    """EXL2 and EXL3: an average of bits per weight, the head apart."""
    name = str(q.raw("quant_method"))
    scheme = BitsPerWeight(name, _milli(q, "bits"), name == "exl3")
    head = BitsPerWeight(name, _milli(q, "head_bits", default=6.0), name == "exl3")
    note = Text("weights are taken from the bits per weight that the file states; single tensors differ")
    return Rule(scheme, rules=(("lm_head", head),), reach=("head",), notes=(note,))


def _milli(q: Fields, name: str, default: float | None = None) -> int:
    """Bits per weight × 1000."""
    value = q.raw(name)
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value <= 16:
        raise BadInput("config field '{field}' must be bits per weight, from 1 to 16", field=q.path + name)
    return round(value * 1000)


def read_hqq(q: Fields, model_type: str) -> Rule:
    """HQQ: packed bytes, a scale and a zero point per group; settings of all modules or by kind of module."""
    own = q.nested("quant_config") if isinstance(q.raw("quant_config"), dict) else q
    excluded = names(q, "skip_modules")
    if own.has("weight_quant_params") or own.has("nbits"):
        return Rule(_hqq(own), excluded=excluded)
    rules = [(name, _hqq(each)) for name, each in settings(q, "quant_config")]
    if not rules:
        raise BadInput("config field '{field}' must be an object of fields", field=q.path + "quant_config")
    return Rule(rules[0][1], excluded=excluded, rules=(*rules, ("*", UNQUANTIZED)))


def _hqq(own: Fields) -> Scheme:
    inner = own.nested("weight_quant_params") if own.has("weight_quant_params") else own
    if own.raw("scale_quant_params") or own.raw("zero_quant_params"):
        raise BadInput("HQQ with quantized scales or zero points is not read yet; narrows reads HQQ without them")
    wide = bits(inner, "nbits", known=(1, 2, 4, 8))
    size = group(inner, default=64)
    return GroupedInt("hqq", wide, size, _U8, _F16, _F16)


def read_aqlm(q: Fields, model_type: str) -> Rule:
    """AQLM: indices into codebooks."""
    rows, columns = q.size("out_group_size", default=1, most=64), q.size("in_group_size", default=8, most=64)
    wide = q.size("nbits_per_codebook", default=16, most=16)
    scheme = Aqlm(rows, columns, q.size("num_codebooks", default=1, most=64), wide)
    return Rule(scheme, excluded=names(q, "linear_weights_not_to_quantize"))


def read_higgs(q: Fields, model_type: str) -> Rule:
    """HIGGS."""
    wide, size = bits(q, known=(2, 3, 4), default=4), group(q, default=256)
    hadamard = q.size("hadamard_size", default=512, most=2**16)
    return Rule(Higgs(wide, size, hadamard), reach=("tower",))


def read_eetq(q: Fields, model_type: str) -> Rule:
    """EETQ: 8-bit integers with an fp16 scale per row. Source: transformers' EetqLinear."""
    return Rule(Int8Scaled(scale=_F16), reach=("tower",))


def read_bitnet(q: Fields, model_type: str) -> Rule:
    """BitNet: packed ternary weights; `online` means that the file keeps them whole."""
    if q.raw("quantization_mode") == "online":
        return Rule(UNQUANTIZED)
    return Rule(Ternary())


def read_fp_quant(q: Fields, model_type: str) -> Rule:
    """FP-Quant: MXFP4 or NVFP4 after a Hadamard transform; master weights are kept for training only."""
    kind = q.raw("forward_dtype", default="nvfp4")
    if q.flag("store_master_weights", False):
        return Rule(UNQUANTIZED)
    if kind not in ("mxfp4", "nvfp4"):
        raise unread(q, "forward_dtype", "mxfp4, nvfp4")
    return Rule(Microscaled() if kind == "mxfp4" else Nvfp4(), reach=("tower",))
