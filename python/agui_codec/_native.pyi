"""The native half of agui_codec. Import the names from ``agui_codec`` itself."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Final, Literal, TypeVar, final, overload

from ag_ui.core import Message, RunAgentInput
from ag_ui.core.events import BaseEvent
from typing_extensions import Buffer, Self

_T = TypeVar("_T")

DEBUG_BUILD: Final[bool]
MAX_DEPTH: Final[int]
SSE_MEDIA_TYPE: Final[str]
__version__: Final[str]

class AGUIError(ValueError): ...

class SequenceError(AGUIError):
    event_index: int
    event_type: str | None
    id: str | None
    expected: str
    reason: str

class ConcurrentUseError(AGUIError):
    """A call of an object that another thread, or the call that called back, is using."""

class EnforcementError(AGUIError):
    path: str
    reason: str
    event_index: int | None
    event_type: str | None

_Event = BaseEvent | dict[str, Any]
_OnDeviation = Callable[[Deviation], object] | None

@final
class ChunkExpander:
    def __new__(cls, *, max_open: int = 10000, on_deviation: _OnDeviation = None) -> Self: ...
    def feed(self, event: _Event, /) -> list[Any]: ...
    def close(self) -> list[Any]: ...

@final
class EventEnforcer:
    def __new__(cls, *, on_deviation: _OnDeviation = None) -> Self: ...
    def feed(self, event: _Event, /) -> list[Any]: ...
    def close(self) -> list[Any]: ...

@final
class EventVerifier:
    def __new__(
        cls,
        *,
        thread_id: str | None = None,
        repair: bool = False,
        max_open: int = 10000,
        max_items: int = 1000000,
        on_deviation: _OnDeviation = None,
    ) -> Self: ...
    @property
    def open(self) -> dict[str, Any]: ...
    def ending_events(self) -> list[Any]: ...
    def feed(self, event: _Event, /) -> list[Any]: ...
    def close(self) -> list[Any]: ...

@final
class LegacyDowngrader:
    def __new__(cls, max_version: str | None, *, on_deviation: _OnDeviation = None) -> Self: ...
    def feed(self, event: _Event, /) -> list[Any]: ...
    def close(self) -> list[Any]: ...

@final
class LegacyUpgrader:
    def __new__(
        cls,
        *,
        mint_id: Callable[[], str] | None = None,
        on_deviation: _OnDeviation = None,
    ) -> Self: ...
    def feed(self, event: _Event, /) -> list[Any]: ...
    def close(self) -> list[Any]: ...

@final
class Pipeline:
    def __new__(cls, *stages: Any, as_models: bool = False) -> Self: ...
    @property
    def error(self) -> BaseException | None: ...
    def feed(self, item: Any, /) -> list[Any]: ...
    def close(self) -> list[Any]: ...

class DecodeError(AGUIError):
    offset: int | None
    path: str
    event_index: int | None

class FrameTooLargeError(DecodeError): ...
class TruncatedStreamError(DecodeError): ...
class UnknownEventError(DecodeError): ...

@final
class Deviation:
    kind: Final[str]
    event_type: Final[str | None]
    path: Final[str]
    detail: Final[str]
    def __new__(cls, kind: str, event_type: str | None, path: str, detail: str) -> Self: ...
    def __getnewargs__(self) -> tuple[str, str | None, str, str]: ...

class EncodeError(AGUIError):
    path: str

@final
class Change:
    message_ids: Final[tuple[str, ...]]
    state: Final[bool]
    def __bool__(self) -> bool: ...
    def __eq__(self, other: object, /) -> bool: ...

@final
class Compactor:
    def __new__(
        cls, *, reasoning: bool = False, max_open: int = 10_000, on_deviation: _OnDeviation = None
    ) -> Self: ...
    def feed(self, event: _Event, /) -> list[Any]: ...
    def close(self) -> list[Any]: ...

@final
class EventReducer:
    def __new__(
        cls,
        messages: Iterable[Message | dict[str, Any]] | None = None,
        state: Any = None,
        *,
        as_dict: bool = False,
        max_patch_values: int = 1_000_000,
        on_deviation: Callable[[Deviation], object] | None = None,
    ) -> Self: ...
    @property
    def messages(self) -> list[Any]: ...
    @property
    def pending_interrupts(self) -> list[Any]: ...
    @property
    def pending_tool_calls(self) -> list[str]: ...
    @property
    def run_id(self) -> str | None: ...
    @property
    def state(self) -> Any: ...
    @property
    def thread_id(self) -> str | None: ...
    def add_message(self, message: Message | dict[str, Any], /) -> None: ...
    def apply(self, event: BaseEvent | dict[str, Any], /) -> Change: ...
    def apply_all(self, events: Iterable[BaseEvent | dict[str, Any]], /) -> Self: ...
    def fork(self) -> EventReducer: ...
    def message(self, message_id: str, /) -> Any: ...
    def next_input(
        self,
        run_id: str,
        *,
        thread_id: str | None = None,
        parent_run_id: str | None = None,
        resume: Iterable[Any] | None = None,
        tools: Iterable[Any] | None = None,
        context: Iterable[Any] | None = None,
        forwarded_props: Any = None,
        history: bool = True,
        protocol_version: str | None = ...,
    ) -> Any: ...
    def replace(
        self, *, messages: Iterable[Message | dict[str, Any]] = ..., state: Any = ...
    ) -> None: ...
    def text(self, message_id: str, /) -> str | None: ...
    def tool_call(self, tool_call_id: str, /) -> tuple[str, str] | None: ...

class PatchError(AGUIError):
    operation_index: int | None
    path: str
    reason: str

@final
class EventDecoder:
    def __new__(
        cls,
        content_type: str = "text/event-stream",
        *,
        as_dict: bool = False,
        max_event_bytes: int = 10485760,
        on_unknown: Literal["forward", "drop", "raise"] = "forward",
        on_deviation: Callable[[Deviation], object] | None = None,
        allow_done: bool = False,
    ) -> Self: ...
    @property
    def error(self) -> Exception | None: ...
    def close(self) -> list[Any]: ...
    def feed(self, chunk: Buffer, /) -> list[Any]: ...

class EventEncoder:
    def __new__(cls, *_args: object, **_kwargs: object) -> Self: ...
    def __init__(
        self,
        accept: str | None = None,
        *,
        default: Callable[[Any], Any] | None = None,
        drop_raw_event: bool = False,
        protobuf_on_wildcard: bool = False,
        exact_integers: bool = False,
        on_deviation: _OnDeviation = None,
    ) -> None: ...
    @property
    def _settings(self) -> dict[str, Any]: ...
    def _encode_sse(self, event: BaseEvent | dict[str, Any]) -> str: ...
    # A str, or bytes if protobuf was negotiated.
    def encode(self, event: BaseEvent | dict[str, Any]) -> Any: ...
    def encode_binary(self, event: BaseEvent | dict[str, Any]) -> bytes: ...
    def encode_many(self, events: Iterable[BaseEvent | dict[str, Any]]) -> bytes: ...
    def encode_protobuf(self, event: BaseEvent | dict[str, Any]) -> bytes: ...
    def encode_sse(self, event: BaseEvent | dict[str, Any]) -> str: ...
    def get_content_type(self) -> str: ...

def apply_patch(
    document: Any, patch: Sequence[Any], *, in_place: bool = False, max_values: int = 1_000_000
) -> Any: ...
def compact_events(
    events: Iterable[_Event],
    *,
    reasoning: bool = False,
    max_open: int = 10_000,
    on_deviation: _OnDeviation = None,
) -> list[Any]: ...
def create_patch(before: Any, after: Any) -> list[dict[str, Any]]: ...
def make_event(cls: type[_T], /, **fields: Any) -> _T: ...
def downgrade_input(
    run_agent_input: RunAgentInput | dict[str, Any],
    /,
    max_version: str | None = None,
    *,
    on_deviation: _OnDeviation = None,
) -> Any: ...
def enforce_input(
    run_agent_input: RunAgentInput | dict[str, Any], /, *, on_deviation: _OnDeviation = None
) -> Any: ...

@final
class FrameReader:
    def __new__(cls, max_frame_bytes: int = 10485760) -> Self: ...
    def close(self) -> list[bytes]: ...
    def feed(self, chunk: bytes | bytearray | memoryview) -> list[bytes]: ...

@final
class SSEParser:
    def __new__(cls, *, max_event_bytes: int = 10485760) -> Self: ...
    def close(self) -> list[ServerSentEvent]: ...
    def feed(self, chunk: Buffer, /) -> list[ServerSentEvent]: ...

@final
class ServerSentEvent:
    __match_args__: ClassVar[tuple[str, str, str, str]]
    event: Final[str]
    data: Final[str]
    id: Final[str]
    retry: Final[int | None]
    def __new__(
        cls, event: str = "message", data: str = "", id: str = "", retry: int | None = None
    ) -> Self: ...
    def __getnewargs__(self) -> tuple[str, str, str, int | None]: ...

@overload
def decode_event(data: str | Buffer, /, *, as_dict: Literal[True]) -> dict[str, Any]: ...
@overload
def decode_event(data: str | Buffer, /, *, as_dict: bool = False) -> Any: ...
def patches() -> list[tuple[type, str, Any]]: ...
@overload
def proto_decode(
    data: Buffer, *, as_dict: Literal[False] = False, on_deviation: _OnDeviation = None
) -> BaseEvent: ...
@overload
def proto_decode(
    data: Buffer, *, as_dict: Literal[True], on_deviation: _OnDeviation = None
) -> dict[str, Any]: ...
@overload
def proto_decode(
    data: Buffer, *, as_dict: bool, on_deviation: _OnDeviation = None
) -> BaseEvent | dict[str, Any]: ...
def proto_encode(
    event: BaseEvent | dict[str, Any],
    *,
    exact_integers: bool = False,
    on_deviation: _OnDeviation = None,
) -> bytes: ...
def set_installed(
    *, drop_raw_event: bool, protobuf_on_wildcard: bool, exact_integers: bool
) -> None: ...
def to_json(event: BaseEvent | dict[str, Any], /) -> bytes: ...
def upgrade_input(
    run_agent_input: RunAgentInput | dict[str, Any], /, *, on_deviation: _OnDeviation = None
) -> Any: ...
def unlearned() -> list[str]: ...
