"""The native half of agui_codec. Import the names from ``agui_codec`` itself."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar, final

from ag_ui.core.events import BaseEvent
from typing_extensions import Self

_T = TypeVar("_T")

DEBUG_BUILD: Final[bool]
MAX_DEPTH: Final[int]
SSE_MEDIA_TYPE: Final[str]
__version__: Final[str]

class AGUIError(ValueError): ...

@final
class Deviation:
    kind: Final[str]
    event_type: Final[str | None]
    path: Final[str]
    detail: Final[str]
    def __new__(cls, kind: str, event_type: str | None, path: str, detail: str) -> Self: ...

class EncodeError(AGUIError):
    path: str

class PatchError(AGUIError):
    operation_index: int | None
    path: str
    reason: str

class EventEncoder:
    def __new__(cls, *_args: object, **_kwargs: object) -> Self: ...
    def __init__(
        self,
        accept: str | None = None,
        *,
        default: Callable[[Any], Any] | None = None,
        drop_raw_event: bool = False,
    ) -> None: ...
    @property
    def _settings(self) -> dict[str, Any]: ...
    def encode(self, event: BaseEvent | dict[str, Any]) -> str: ...
    def encode_binary(self, event: BaseEvent | dict[str, Any]) -> bytes: ...
    def encode_many(self, events: Iterable[BaseEvent | dict[str, Any]]) -> bytes: ...
    def encode_sse(self, event: BaseEvent | dict[str, Any]) -> str: ...
    def get_content_type(self) -> str: ...

def apply_patch(document: Any, patch: Sequence[Any], *, in_place: bool = False) -> Any: ...
def create_patch(before: Any, after: Any) -> list[dict[str, Any]]: ...
def make_event(cls: type[_T], /, **fields: Any) -> _T: ...
def model_dump_json(event: BaseEvent, /, *args: Any, **kwargs: Any) -> str: ...
def official_encode(encoder: object, event: BaseEvent | dict[str, Any]) -> str: ...
def to_json(event: BaseEvent | dict[str, Any], /) -> bytes: ...
def unlearned() -> list[str]: ...
