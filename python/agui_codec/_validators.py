"""The official validators, which the native half asks about what it does not recognise."""

from functools import cache
from typing import Any

import ag_ui.core
from pydantic import TypeAdapter


@cache
def validator(name: str) -> TypeAdapter[Any]:
    """The validator of a type, by its name in ``ag_ui.core``.

    Making one takes milliseconds, so each is made once; and pydantic looks at the frame of whoever
    makes it, so it is made in Python.
    """
    return TypeAdapter(getattr(ag_ui.core, name))
