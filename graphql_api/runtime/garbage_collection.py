"""Garbage collection in operations that create many objects and hardly any cycles."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_old_objects() -> Iterator[None]:
    """Exempt the objects that exist now from garbage collection until the end of the block.

    Collections would visit the catalog and the application again and again. What is frozen already stays frozen.
    """
    if gc.get_freeze_count():
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def collection_paused() -> Iterator[None]:
    """Pause garbage collection: a schema creates many objects and no garbage, and collection costs a fifth more."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
