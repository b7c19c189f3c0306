"""Conformance: what narrows says of a model, against the model that transformers builds.

`reference` measures a class of transformers (parameters on the meta device, cache after a forward pass), `variants`
makes up valid hyper-parameters, `compare` holds one against the other; `python -m conformance` runs them by family.
"""
