"""How each quantization method names itself in a config: one reader per method, from its fields to a Rule.

A reader is imported when its method is met. To add a method, write a reader and enter it here under its
`quant_method`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from narrows.text import BadInput

if TYPE_CHECKING:
    from narrows.models.fields import Fields
    from narrows.models.quantizers.rule import Rule

_READERS = {
    "gptq": "gptq.read_gptq",
    "marlin": "gptq.read_marlin",
    "awq": "awq.read_awq",
    "auto-round": "auto_round.read_auto_round",
    "intel/auto-round": "auto_round.read_auto_round",
    "bitsandbytes": "bitsandbytes.read_bitsandbytes",
    "mlx": "mlx.read_mlx",
    "fp8": "fp8.read_fp8",
    "fbgemm_fp8": "fp8.read_fbgemm",
    "mxfp4": "fp8.read_mxfp4",
    "compressed-tensors": "compressed_tensors.read_compressed_tensors",
    "compressed_tensors": "compressed_tensors.read_compressed_tensors",
    "modelopt": "modelopt.read_modelopt",
    "modelopt_fp4": "modelopt.read_modelopt",
    "modelopt_mixed": "modelopt.read_modelopt",
    "modelopt_mxfp8": "modelopt.read_modelopt",
    "nvfp4": "modelopt.read_modelopt",
    "fp8_pb_wo": "modelopt.read_modelopt",
    "quark": "quark.read_quark",
    "hqq": "others.read_hqq",
    "exl2": "others.read_exl",
    "exl3": "others.read_exl",
    "torchao": "torchao.read_torchao",
    "aqlm": "others.read_aqlm",
    "higgs": "others.read_higgs",
    "eetq": "others.read_eetq",
    "bitnet": "others.read_bitnet",
    "fp_quant": "others.read_fp_quant",
    "metal": "mlx.read_metal",
}
KNOWN = (
    "awq, aqlm, auto-round, bitnet, bitsandbytes, compressed-tensors, exl2, exl3, fbgemm_fp8, fp8, gptq, higgs, hqq, "
    "mlx, modelopt, mxfp4, quark, torchao"
)
"""Methods narrows reads, for a sentence."""
METHODS = tuple(_READERS)


def reader_of(method: str) -> Callable[[Fields, str], Rule]:
    """The reader of a `quant_method`; it takes the config's object and the model's type. Raises BadInput."""
    found = _READERS.get(method)
    if found is None and method.startswith("modelopt"):
        found = _READERS["modelopt"]
    if found is None:
        raise BadInput(
            "quantization method '{method}' is not read yet; narrows reads {known}. Use the unquantized config of the "
            "model instead",
            method=method[:40],
            known=KNOWN,
        )
    module, _, name = found.partition(".")
    reader: Callable[[Fields, str], Rule] = getattr(import_module(f"{__name__}.{module}"), name)
    return reader
