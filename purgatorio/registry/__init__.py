"""A schema registry beside a cluster: a real one, which is another program, as a process that ends with its owner.

`SchemaRegistry` runs it, `kinds` says which programs there are, `installing` makes the environment of each, and `guard`
ends the program when the process that owns it has ended. See docs/registry.md.
"""

from __future__ import annotations

from purgatorio.registry.kinds import KINDS, RegistryTarget, RegistryUnavailable
from purgatorio.registry.process import SchemaRegistry, free_port

__all__ = ["KINDS", "RegistryTarget", "RegistryUnavailable", "SchemaRegistry", "free_port"]
