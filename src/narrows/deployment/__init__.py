"""Deployment: a model on accelerators, with parallelism, precision and an engine's flags resolved."""

from __future__ import annotations

from narrows.deployment.blocks import whole_blocks
from narrows.deployment.counts import MOST_LENGTH, whole
from narrows.deployment.resolve import deploy
from narrows.deployment.split import check_experts, check_split, stages
from narrows.deployment.types import Deployment

__all__ = ["MOST_LENGTH", "Deployment", "check_experts", "check_split", "deploy", "stages", "whole", "whole_blocks"]
