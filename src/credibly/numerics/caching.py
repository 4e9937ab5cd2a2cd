"""Properties that are computed once, without a lock.

Before Python 3.12 `functools.cached_property` holds one lock for all objects of a class while it computes. A process
forked meanwhile waits for it for ever, and so do threads that a property waits for, if they ask for the same property
of another object. Here two threads may compute the same value twice. To be dropped together with Python 3.11.
"""

import functools
import sys
from typing import TYPE_CHECKING, Any

__all__ = ["cached_property"]

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:

    class cached_property(functools.cached_property):
        """As in later versions of Python."""

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            if self.attrname not in vars(instance):
                vars(instance)[self.attrname] = self.func(instance)
            return vars(instance)[self.attrname]
