"""The official validators, to which the native half hands what it does not recognise."""

from functools import cache
from typing import Any

import ag_ui.core
from pydantic import TypeAdapter


@cache
def validator(name: str) -> TypeAdapter[Any]:
    """The validator of a type, by its name in ``ag_ui.core``.

    Making one takes milliseconds, so each is made once. It is made in Python because pydantic looks
    at its caller's frame.
    """
    return TypeAdapter(getattr(ag_ui.core, name))
