"""What a checkpoint really stores, by the headers of its files: bounded readers that never touch the weights."""

from narrows.models.stored.inventory import Inventory, Progress, StoredTensor

__all__ = ["Inventory", "Progress", "StoredTensor"]
