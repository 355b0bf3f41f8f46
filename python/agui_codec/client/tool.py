"""Tools that run here: Python callables that an agent may call."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args, overload
from uuid import uuid4

from ag_ui.core import ContentPart, Tool, ToolCall, ToolMessage
from pydantic import (
    ConfigDict,
    Field,
    PydanticUserError,
    TypeAdapter,
    ValidationError,
    create_model,
)

from agui_codec.client import _loop

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from agui_codec.client.agent import AbstractAgent
    from agui_codec.client.run import Run

__all__ = ["FrontendTool", "ToolCallContext", "tool"]

logger = logging.getLogger("agui_codec.client")

Handler = Callable[..., Any]
Consent = Callable[["ToolCallContext"], "bool | Awaitable[bool]"]

#: How many calls of a run are executed at the same time.
CONCURRENT_CALLS = 4

_ANY: TypeAdapter[Any] = TypeAdapter(Any)

#: The classes of content parts: a union, annotated.
_PARTS: tuple[type, ...] = get_args(get_args(ContentPart)[0])


@dataclass(frozen=True)
class ToolCallContext:
    """A call of a tool, for consent and for tools that ask for it by a parameter of this type.

    Args:
        tool_call_id: The id of the call.
        name: The name of the tool.
        arguments: The arguments, validated. They come from the agent: do not trust them.
        run: The run that the call is part of.
        agent: The agent.
    """

    tool_call_id: str
    name: str
    arguments: Mapping[str, Any]
    run: Run
    agent: AbstractAgent


@dataclass(frozen=True)
class FrontendTool:
    """A tool that the client executes when the agent calls it; mostly made by :func:`tool`.

    Tool arguments are untrusted input: an agent can be talked into calling any tool that it knows,
    with any arguments. Validate what matters and ask for consent to what cannot be undone.

    Args:
        name: What the agent calls it.
        description: What it does, for the agent.
        parameters: The JSON Schema of its arguments, an object.
        handler: Called with the arguments by keyword; sync ones run in a thread. None if the
            application answers by :meth:`AbstractAgent.add_tool_result`. It returns text, a list of
            content parts, or anything that pydantic writes as JSON.
        metadata: About the tool, for the agent.
        timeout: How many seconds it may take; None for any.
        consent: Asked before each call; False declines it.
        follow_up: Whether the agent is run again with the answer.

    Example:
        lookup = FrontendTool(
            name="lookup",
            description="Looks a word up.",
            parameters={"type": "object", "properties": {"word": {"type": "string"}}},
            handler=dictionary.lookup,
        )
    """

    name: str
    description: str = ""
    parameters: dict[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    handler: Handler | None = None
    metadata: dict[str, Any] | None = None
    timeout: float | None = None
    consent: Consent | None = None
    follow_up: bool = True
    _validate: Callable[[str], dict[str, Any]] | None = field(
        default=None, repr=False, compare=False
    )
    _context: str | None = field(default=None, repr=False, compare=False)

    def definition(self) -> Tool:
        """The tool as the agent is told of it."""
        return Tool(
            name=self.name,
            description=self.description,
            parameters=self.parameters,
            metadata=self.metadata,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the handler."""
        if self.handler is None:
            raise TypeError(f"tool {self.name!r} has no handler")
        return self.handler(*args, **kwargs)

    def _parse(self, text: str) -> dict[str, Any]:
        """The arguments of a call, validated.

        Raises:
            ValueError: They are not JSON, not an object, or not what the signature says.
        """
        text = text or "{}"
        if self._validate is not None:
            return self._validate(text)
        arguments = _ANY.validate_json(text)
        if not isinstance(arguments, dict):
            raise ValueError(f"expected an object, got {type(arguments).__name__}")
        return arguments


@overload
def tool(function: Handler, /) -> FrontendTool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    metadata: dict[str, Any] | None = None,
    timeout: float | None = None,
    consent: Consent | None = None,
    follow_up: bool = True,
) -> Callable[[Handler], FrontendTool]: ...
def tool(
    function: Handler | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    metadata: dict[str, Any] | None = None,
    timeout: float | None = None,
    consent: Consent | None = None,
    follow_up: bool = True,
) -> FrontendTool | Callable[[Handler], FrontendTool]:
    """Make a tool of a function.

    The schema of its arguments comes from the signature, the description from the docstring. A
    parameter annotated :class:`ToolCallContext` is given the call, and is not in the schema. The
    arguments are the agent's, and not to be trusted: see :class:`FrontendTool`.

    Args:
        function: The function, ``def`` or ``async def``.
        name: By default the function's.
        description: By default the function's docstring.
        metadata: See :class:`FrontendTool`, as for the rest.
        timeout: In seconds.
        consent: Asked before each call.
        follow_up: Whether the agent is run again with the answer.

    Raises:
        TypeError: A parameter is positional-only or variadic, or has no annotation that pydantic
            can make a schema of.

    Example:
        @tool
        async def get_location(precision: Literal["coarse", "fine"] = "coarse") -> str:
            "Where the user is."
            return "Lisbon"

        result = await agent.run_agent("Where am I?", tools=[get_location])
    """

    def make(handler: Handler) -> FrontendTool:
        title = name or str(getattr(handler, "__name__", type(handler).__name__))
        try:
            schema, validate, context = _arguments(handler, title)
        except (PydanticUserError, NameError) as error:
            raise TypeError(f"tool {title!r}: {error}") from error
        return FrontendTool(
            name=title,
            description=inspect.getdoc(handler) or "" if description is None else description,
            parameters=schema,
            handler=handler,
            metadata=metadata,
            timeout=timeout,
            consent=consent,
            follow_up=follow_up,
            _validate=validate,
            _context=context,
        )

    return make if function is None else make(function)


def _arguments(
    handler: Handler, title: str
) -> tuple[dict[str, Any], Callable[[str], dict[str, Any]], str | None]:
    """What the signature says: a schema, what validates arguments, where the context goes."""
    fields: dict[str, Any] = {}
    # The fields of the model have names of their own: a parameter may be called as one of the
    # attributes that every model has.
    names: dict[str, str] = {}
    context = None
    for parameter in inspect.signature(handler, eval_str=True).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(
                f"tool {title!r}: parameter {parameter.name!r} cannot be passed by keyword"
            )
        empty = parameter.empty
        annotation = Any if parameter.annotation is empty else parameter.annotation
        if annotation is ToolCallContext:
            context = parameter.name
            continue
        name = f"argument_{len(names)}"
        names[name] = parameter.name
        fields[name] = (
            Annotated[annotation, Field(alias=parameter.name)],
            ... if parameter.default is empty else parameter.default,
        )
    model = create_model(title, __config__=ConfigDict(extra="forbid"), **fields)

    def validate(text: str) -> dict[str, Any]:
        found = model.model_validate_json(text)
        # By name, since a dump would turn models among the values into dicts.
        return {parameter: getattr(found, name) for name, parameter in names.items()}

    return model.model_json_schema(), validate, context


class ToolSet:
    """The tools of a run: what is advertised, and what can be executed here."""

    def __init__(self, tools: Iterable[Any]) -> None:
        self.definitions: list[Any] = []
        self._tools: dict[str, FrontendTool] = {}
        names: set[str] = set()
        definition: Any
        for given in tools:
            if isinstance(given, Mapping) and isinstance(given.get("name"), str):
                name, definition = given["name"], given
            elif isinstance(given, Tool):
                name, definition = given.name, given
            elif isinstance(given, FrontendTool) or callable(given):
                one = given if isinstance(given, FrontendTool) else tool(given)
                name, definition = one.name, one.definition()
                self._tools[name] = one
            else:
                raise TypeError(
                    "a tool is a FrontendTool, a function, an ag_ui.core.Tool or a dict that is "
                    f"one; got {given!r}"
                )
            if name in names:
                raise TypeError(f"two tools have the name {name!r}")
            names.add(name)
            self.definitions.append(definition)
        #: The names of all tools, executable here or not.
        self.names = frozenset(names)

    def executable(
        self, calls: Iterable[ToolCall | dict[str, Any]]
    ) -> list[tuple[FrontendTool, ToolCall]]:
        """Those of some calls that a handler can answer, in their order."""
        known = [ToolCall.model_validate(one) if isinstance(one, dict) else one for one in calls]
        found = ((self._tools.get(call.function.name), call) for call in known)
        return [(one, call) for one, call in found if one is not None and one.handler is not None]


async def execute(calls: Sequence[tuple[FrontendTool, ToolCall]], run: Run) -> list[ToolMessage]:
    """Answer calls, some of them at the same time.

    Returns:
        The answers in the order of the calls, whatever the order in which they were ready.
    """
    jobs = [lambda one=one, call=call: _answer(one, call, run) for one, call in calls]
    return await _loop.gather(jobs, CONCURRENT_CALLS)


async def _answer(one: FrontendTool, call: ToolCall, run: Run) -> ToolMessage:
    """The tool message that answers a call; what goes wrong is its content, and its ``error``."""
    try:
        arguments = one._parse(call.function.arguments)
    except ValueError as error:
        # A ValidationError, too: without the link to pydantic's documentation.
        reason = _reason(error)
        logger.warning("tool call %r of %s: invalid arguments: %s", call.id, one.name, reason)
        return _failed(call, f"Invalid arguments for {one.name}: {reason}")
    context = ToolCallContext(call.id, one.name, arguments, run, run.agent)
    try:
        if one.consent is not None:
            agreed = one.consent(context)
            if not isinstance(agreed, bool):
                agreed = await agreed
            if not agreed:
                return _message(call, "The user declined this tool call.")
        if one._context is not None:
            arguments = {**arguments, one._context: context}
        handler = cast("Handler", one.handler)
        result = await _loop.call(handler, arguments, one.timeout)
        return _message(call, _content(result))
    except _loop.TimedOut:
        logger.warning("tool call %r of %s: no answer in %s s", call.id, one.name, one.timeout)
        return _failed(call, f"{one.name} took longer than {one.timeout} seconds.")
    except (Exception, asyncio.CancelledError) as error:
        if isinstance(error, asyncio.CancelledError) and _is_cancelled():
            raise
        logger.exception("tool call %r of %s failed", call.id, one.name)
        return _failed(call, f"{type(error).__name__}: {error}")


def _is_cancelled() -> bool:
    """Whether the current task is being cancelled, rather than something that a tool waits for."""
    task = asyncio.current_task() if _loop.on_asyncio() else None
    # Python 3.10 does not tell.
    return task is None or not hasattr(task, "cancelling") or task.cancelling() > 0


def _reason(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    details = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(
        f"{'.'.join(map(str, one['loc']))}: {one['msg']}" if one["loc"] else one["msg"]
        for one in details
    )


def _content(result: Any) -> Any:
    """What a tool returned, as the content of a tool message."""
    if isinstance(result, str):
        return _writable(result)
    if isinstance(result, list) and result and all(isinstance(one, _PARTS) for one in result):
        return result
    return "" if result is None else _ANY.dump_json(result).decode()


def _message(call: ToolCall, content: Any, error: str | None = None) -> ToolMessage:
    return ToolMessage(id=str(uuid4()), tool_call_id=call.id, content=content, error=error)


def _failed(call: ToolCall, reason: str) -> ToolMessage:
    reason = _writable(reason)
    return _message(call, reason, error=reason)


def _writable(text: str) -> str:
    """The text, with lone surrogates, which no wire can carry, as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()
