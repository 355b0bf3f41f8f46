"""Reading what may be a model or a wire dict."""

from __future__ import annotations

from typing import Any


def read(thing: Any, name: str, key: str = "") -> Any:
    """A field of a model or of a wire dict; None if it has none.

    Args:
        thing: The model or the dict.
        name: The name of the field.
        key: Its key on the wire, if that is another one.
    """
    return thing.get(key or name) if isinstance(thing, dict) else getattr(thing, name, None)
