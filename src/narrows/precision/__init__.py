"""Number formats with their exact bits, and quantization schemes as storage rules."""

from narrows.precision.formats import FORMATS, Format, format_of
from narrows.precision.schemes import (
    UNQUANTIZED,
    Awq,
    CompressedInt,
    Exclusions,
    Fp8Block,
    Fp8Scaled,
    Gptq,
    Mxfp4,
    Nvfp4,
    Part,
    Scheme,
)

__all__ = [
    "FORMATS",
    "UNQUANTIZED",
    "Awq",
    "CompressedInt",
    "Exclusions",
    "Format",
    "Fp8Block",
    "Fp8Scaled",
    "Gptq",
    "Mxfp4",
    "Nvfp4",
    "Part",
    "Scheme",
    "format_of",
]
