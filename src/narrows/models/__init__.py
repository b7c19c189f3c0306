"""ModelSpec, its readers and the catalogue: what a model is."""

from narrows.models.config import load_model, read_config
from narrows.models.spec import ModelSpec

__all__ = ["ModelSpec", "load_model", "read_config"]
