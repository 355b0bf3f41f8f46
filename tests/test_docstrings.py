"""Every public name has an example in its docstring, and the examples run."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
from typing import TYPE_CHECKING, Any

import pytest

import agui_codec
import agui_codec.history

if TYPE_CHECKING:
    from collections.abc import Iterator

# The command line shows its own help, and docs/client runs what the client says.
MODULES = [
    "agui_codec",
    *(
        module.name
        for module in pkgutil.walk_packages(agui_codec.__path__, "agui_codec.")
        if not any(part.startswith("_") for part in module.name.split("."))
        and module.name.split(".")[1] not in ("cli", "client", "server")
    ),
]


def public() -> Iterator[tuple[str, Any]]:
    """The public classes and functions, each once, by the first module that exports them."""
    seen: set[int] = set()
    for module in map(importlib.import_module, MODULES):
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            if callable(value) and id(value) not in seen:
                seen.add(id(value))
                yield f"{module.__name__}.{name}", value


PUBLIC = dict(public())


@pytest.mark.parametrize("name", list(PUBLIC))
def test_a_public_name_has_an_example(name: str) -> None:
    assert ">>>" in (PUBLIC[name].__doc__ or "")


def examples() -> Iterator[Any]:
    exported = [
        (module, name) for module in (agui_codec, agui_codec.history) for name in module.__all__
    ]
    names = {name: getattr(module, name) for module, name in exported}
    parser = doctest.DocTestParser()
    for name, value in PUBLIC.items():
        members = {name: value}
        if inspect.isclass(value):
            members |= {f"{name}.{key}": member for key, member in vars(value).items()}
        for key, member in members.items():
            if ">>>" not in (getattr(member, "__doc__", None) or ""):
                continue
            test = parser.get_doctest(member.__doc__, dict(names), key, None, None)
            yield pytest.param(test, id=key)


@pytest.mark.parametrize("example", list(examples()))
def test_the_examples_run(example: doctest.DocTest) -> None:
    runner = doctest.DocTestRunner(verbose=False)
    said: list[str] = []
    runner.run(example, out=said.append)
    assert not runner.failures, "".join(said)
