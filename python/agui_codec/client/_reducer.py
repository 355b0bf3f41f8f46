"""TODO: goes when EventReducer itself has text, tool_call and replace."""

from __future__ import annotations

from typing import Any

from ag_ui.core import Message
from pydantic import TypeAdapter

from agui_codec._native import EventReducer

_MESSAGE: TypeAdapter[Any] = TypeAdapter(Message)


class Reducer:
    """An EventReducer with ``text``, ``tool_call`` and ``replace``."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._options = options
        self._use(EventReducer(*args, **options))

    def _use(self, native: EventReducer) -> None:
        self._native = native
        self.apply = native.apply

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._native, name)

    def fork(self) -> Reducer:
        other = Reducer.__new__(Reducer)
        other._options = self._options
        other._use(self._native.fork())
        return other

    def _given(self, message: Any) -> Any:
        if isinstance(message, dict) and not self._options["as_dict"]:
            return _MESSAGE.validate_python(message)
        return message

    @property
    def messages(self) -> list[Any]:
        return [self._given(message) for message in self._native.messages]

    def message(self, message_id: str) -> Any:
        return self._given(self._native.message(message_id))

    def text(self, message_id: str) -> str | None:
        message = self._native.message(message_id)
        if message is None:
            return None
        content = message.get("content") if isinstance(message, dict) else message.content
        return content if isinstance(content, str) else ""

    def tool_call(self, tool_call_id: str) -> tuple[str, str] | None:
        for message in self._native.messages:
            is_dict = isinstance(message, dict)
            calls = message.get("toolCalls") if is_dict else getattr(message, "tool_calls", None)
            for call in calls or ():
                if is_dict and call["id"] == tool_call_id:
                    return call["function"]["name"], call["function"]["arguments"]
                if not is_dict and call.id == tool_call_id:
                    return call.function.name, call.function.arguments
        return None

    def replace(self, **replaced: Any) -> None:
        native = self._native
        messages = replaced.get("messages", self.messages)
        state = replaced.get("state", native.state)
        self._use(EventReducer(messages, state, **self._options))
