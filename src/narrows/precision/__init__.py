"""Number formats with their exact bits, and quantization schemes as storage rules."""

from narrows.precision.floats import Fp8Block, Fp8Scaled, Mxfp4, Nvfp4
from narrows.precision.formats import FORMATS, Format, format_of
from narrows.precision.integers import Awq, CompressedInt, Gptq
from narrows.precision.schemes import UNQUANTIZED, Part, Scheme
from narrows.precision.selection import Exclusions, Overrides

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
    "Overrides",
    "Part",
    "Scheme",
    "format_of",
]
