"""Properties that are computed once.

Before Python 3.12 `functools.cached_property` holds a lock, one for all objects of a class: a child that is forked
while another thread computes waits for it for ever. Here two threads may compute the same value twice.
"""

import functools
import sys
from typing import TYPE_CHECKING, Any

__all__ = ["cached_property"]

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:

    class cached_property(functools.cached_property):
        """As in later versions of Python, without a lock.

        Examples
        --------
        >>> class Circle:
        ...     @cached_property
        ...     def area(self):
        ...         print("once")
        ...         return 3.14
        >>> circle = Circle()
        >>> circle.area
        once
        3.14
        >>> circle.area
        3.14
        """

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            held = vars(instance)
            if self.attrname not in held:
                held[self.attrname] = self.func(instance)
            return held[self.attrname]
