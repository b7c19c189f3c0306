"""Number formats with their exact bits, and quantization schemes as storage rules.

The rules themselves (`floats`, `integers`, …) are imported where a checkpoint is quantized: most are not.
"""

from narrows.precision.formats import FORMATS, Format, format_of
from narrows.precision.schemes import UNQUANTIZED, Part, Scheme
from narrows.precision.selection import Exclusions, Overrides

__all__ = [
    "FORMATS",
    "UNQUANTIZED",
    "Exclusions",
    "Format",
    "Overrides",
    "Part",
    "Scheme",
    "format_of",
]
