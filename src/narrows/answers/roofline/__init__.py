"""`roofline`: what bounds prefill, and what bounds decode?"""

from __future__ import annotations

from narrows.answers.roofline.types import Roofline

__all__ = ["Roofline"]
