"""What a name given to `--quantization` means, where it names a way of storing weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from narrows.precision.ggml import FileType


def named_scheme(name: str) -> FileType | None:
    """The file type of llama.cpp with this name, in either case (`Q4_K_M`); None for any other name."""
    # read only where a name is given: most questions need no table of GGML
    from narrows.precision.ggml import file_types

    return file_types().get(name.strip().upper())
