"""`install()`: the official encoder becomes ours in place, for all who have it, and back again."""

import contextlib
import copy
import functools
import importlib
import inspect
import itertools
import pickle
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import ag_ui.encoder
import ag_ui.encoder.encoder
import pytest
from ag_ui.core import (
    BaseEvent,
    CustomEvent,
    MessagesSnapshotEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    UserMessage,
)

# As agent code does, before anyone calls `install()`.
from ag_ui.encoder import EventEncoder as Official
from pydantic import BaseModel
from pydantic_core import PydanticSerializationError

import agui_codec
from agui_codec import EncodeError, EventEncoder, install, uninstall
from oracle import outcome, python_calls
from strategies import EVENT_CLASSES, to_wire, variants

by_class = pytest.mark.parametrize("cls", EVENT_CLASSES, ids=lambda cls: cls.__name__)

EVENT = TextMessageEndEvent(message_id="m", raw_event={"a": None})
FRAME = 'data: {"type":"TEXT_MESSAGE_END","rawEvent":{"a":null},"messageId":"m"}\n\n'
DROPPED = 'data: {"type":"TEXT_MESSAGE_END","messageId":"m"}\n\n'
WIRE_FRAME = 'data: {"type":"X","a":1}\n\n'

PYDANTIC_DUMP = BaseModel.model_dump_json


def dumped(event: Any, **arguments: Any) -> str:
    return PYDANTIC_DUMP(event, **arguments)


@pytest.fixture
def installed() -> Iterator[None]:
    install()
    yield
    uninstall()


@pytest.fixture(autouse=True)
def _never_left_installed() -> Iterator[None]:
    assert "encode_many" not in vars(Official), "another test left it installed"
    yield
    uninstall()


# --- what it changes ---------------------------------------------------------------------------


def test_whoever_has_the_class_has_ours(installed: None) -> None:
    for cls in (Official, ag_ui.encoder.EventEncoder, ag_ui.encoder.encoder.EventEncoder):
        assert cls is Official
        for encoder in (cls(), cls(None), cls("text/event-stream"), cls(accept="*/*")):
            assert isinstance(encoder, Official)
            assert encoder.encode(EVENT) == FRAME
            assert encoder.encode(event=EVENT) == FRAME
            assert encoder.encode({"type": "X", "a": 1}) == WIRE_FRAME
            assert encoder.encode_sse(EVENT) == FRAME
            assert encoder.encode_binary(EVENT) == FRAME.encode()
            assert encoder.encode_many([EVENT, {"type": "X", "a": 1}]) == (
                FRAME.encode() + WIRE_FRAME.encode()
            )
            assert encoder.get_content_type() == "text/event-stream"


def test_the_arguments_of_ours_are_taken(installed: None) -> None:
    assert Official(drop_raw_event=True).encode(EVENT) == DROPPED
    assert Official(None, default=lambda value: "d").encode(
        CustomEvent(name="n", value=object())
    ) == ('data: {"type":"CUSTOM","name":"n","value":"d"}\n\n')
    with pytest.raises(TypeError):
        Official(nonsense=1)


def test_instances_that_exist_already(request: pytest.FixtureRequest) -> None:
    old = Official("text/event-stream")
    old.note = "mine"
    assert old.encode(EVENT) == FRAME
    with pytest.raises(AttributeError):
        old.encode({"type": "X"})
    install()
    assert old.encode(EVENT) == FRAME
    assert old.encode({"type": "X", "a": 1}) == WIRE_FRAME
    assert old.encode_binary(EVENT) == FRAME.encode()
    assert old.encode_many([EVENT]) == FRAME.encode()
    assert old.get_content_type() == "text/event-stream"
    assert old.note == "mine"
    uninstall()
    assert old.encode(EVENT) == FRAME
    with pytest.raises(AttributeError):
        old.encode({"type": "X"})


@by_class
def test_every_form_of_every_class(cls: type[BaseModel], installed: None) -> None:
    encoder = Official()
    for event in variants(cls):
        text = dumped(event, by_alias=True)
        assert encoder.encode(event) == f"data: {text}\n\n"
        assert event.model_dump_json(by_alias=True) == text
        assert encoder.encode(to_wire(event)) == f"data: {text}\n\n"


def test_the_hot_calls_run_no_python_code(installed: None) -> None:
    encoder, old = Official(), object.__new__(Official)
    for event in (EVENT, MessagesSnapshotEvent(messages=[UserMessage(id="1", content="c")])):
        for each in (encoder, old):
            each.encode(event)
            assert python_calls(each.encode, event) == []
        dump = functools.partial(event.model_dump_json, by_alias=True)
        dump()
        assert python_calls(dump) == []


def test_errors_are_the_official_ones_for_models(installed: None) -> None:
    bad = CustomEvent(name="n", value={"x": object()})
    expected = outcome(lambda: dumped(bad, by_alias=True))
    assert expected.error is not None
    assert expected.error[0] is PydanticSerializationError
    assert outcome(Official().encode, bad) == expected
    assert outcome(lambda: bad.model_dump_json(by_alias=True)) == expected
    odd = TextMessageContentEvent(message_id="m", delta="")
    odd.delta = 5
    expected = outcome(lambda: dumped(odd, by_alias=True))
    assert len(expected.warned) == 1
    got = outcome(lambda: odd.model_dump_json(by_alias=True))
    assert got == expected
    assert outcome(Official().encode, odd).warned == expected.warned
    for alien in (None, object(), "RAW", [EVENT]):
        with pytest.raises(EncodeError):
            Official().encode(alien)


OPTIONS = "drop_raw_event", "protobuf_on_wildcard", "exact_integers"
BIG = CustomEvent(name="n", value=2**53 + 1)


def effects(encoder: Any) -> list[bool]:
    """Which options the encoder goes by."""
    exact = outcome(encoder.encode_protobuf, BIG).error is not None
    fresh = Official("*/*")
    return [encoder.encode_sse(EVENT) == DROPPED, isinstance(fresh.encode(EVENT), bytes), exact]


def test_the_options_of_install() -> None:
    old = Official()
    for name in (None, *OPTIONS, None):
        install(**({name: True} if name else {}))
        expected = [name == other for other in OPTIONS]
        for encoder in (old, Official(), Official(None), Official("text/event-stream"), Plain()):
            assert effects(encoder) == expected
            assert "_agui_codec" not in vars(encoder)
        # What an encoder is given goes before.
        given = Official(**dict.fromkeys(OPTIONS, False))
        assert effects(given) == [False, name == "protobuf_on_wildcard", False]
    install(drop_raw_event=True)
    uninstall()
    install()
    assert effects(Official()) == [False] * 3
    with pytest.raises(TypeError):
        install(drop_raw_events=True)


def test_all_its_methods_are_native(installed: None) -> None:
    assert python_calls(Official) == []
    for accept in (None, agui_codec.AGUI_MEDIA_TYPE):
        encoder = Official(accept)
        for name in ("encode", "encode_sse", "encode_binary", "encode_protobuf"):
            getattr(encoder, name)(EVENT)
            assert python_calls(getattr(encoder, name), EVENT) == []
        assert python_calls(encoder.encode_many, [EVENT]) == []
        assert python_calls(encoder.get_content_type) == []


def test_wrong_arguments_are_type_errors(installed: None) -> None:
    encoder = Official()
    for call in (
        lambda: encoder.encode(),
        lambda: encoder.encode(EVENT, EVENT),
        lambda: encoder.encode(events=EVENT),
        lambda: encoder.encode_many(event=[EVENT]),
        lambda: encoder.get_content_type(1),
        lambda: Official.encode(object(), EVENT),
        lambda: Official("a", "b"),
        lambda: Official(default=5),
    ):
        with pytest.raises(TypeError):
            call()


def test_signatures_are_those_of_what_is_called(installed: None) -> None:
    assert str(inspect.signature(Official.encode)) == "(self, /, event)"
    for cls in (Official, Numbered):
        parameters = inspect.signature(cls).parameters
        assert list(parameters)[:2] == ["accept", "default"]
        assert "drop_raw_event" in parameters
    assert list(inspect.signature(Labelled).parameters) == ["label", "accept"]
    with pytest.raises(AttributeError):
        _ = Official().__signature__
    agui_codec.uninstall()
    assert list(inspect.signature(Official).parameters) == ["accept"]
    assert "__signature__" not in vars(Official)


# --- subclasses --------------------------------------------------------------------------------


class Labelled(Official):
    def __init__(self, label: str, accept: str | None = None) -> None:
        super().__init__(accept)
        self.label = label

    def encode(self, event: Any) -> str:
        return f": {self.label}\n" + super().encode(event)


class Numbered(Official):
    """Overrides what the official `encode` calls."""

    def _encode_sse(self, event: Any) -> str:
        return "id: 1\n" + super()._encode_sse(event)


class Silent(Official):
    def __init__(self) -> None:
        pass


class Plain(Official):
    pass


class Slotted(Official):
    __slots__ = ("spare",)


class Typed(Official):
    def get_content_type(self) -> str:
        return "application/x-mine"


SUBCLASSES: dict[str, tuple[Any, str]] = {
    "encode": (lambda: Labelled("x"), ": x\n"),
    "_encode_sse": (Numbered, "id: 1\n"),
    "__init__": (Silent, ""),
    "nothing": (Plain, ""),
    "slots": (Slotted, ""),
    "get_content_type": (Typed, ""),
}


@pytest.mark.parametrize("name", SUBCLASSES)
def test_subclasses_keep_what_they_override(name: str) -> None:
    make, prefix = SUBCLASSES[name]
    before = make()
    content_type = before.get_content_type()
    assert before.encode(EVENT) == prefix + FRAME
    install()
    for encoder in (before, make()):
        assert encoder.encode(EVENT) == prefix + FRAME
        assert encoder.encode(event=EVENT) == prefix + FRAME
        assert encoder.get_content_type() == content_type
    assert make().encode({"type": "X", "a": 1}) == prefix + WIRE_FRAME
    during = make()
    uninstall()
    for encoder in (before, during, make()):
        assert encoder.encode(EVENT) == prefix + FRAME


@pytest.mark.parametrize("cls", [Official, Plain, Numbered, Silent])
def test_the_content_type_is_that_of_what_is_sent(cls: type[Any], installed: None) -> None:
    for accept in (None, "text/event-stream", agui_codec.AGUI_MEDIA_TYPE):
        encoder = cls() if cls is Silent else cls(accept)
        is_text = isinstance(encoder.encode(EVENT), str)
        assert is_text == (encoder.get_content_type() == "text/event-stream")


def test_subclasses_that_override_nothing_are_fast(installed: None) -> None:
    for make in (Plain, Silent):
        encoder = make()
        encoder.encode(EVENT)
        assert python_calls(encoder.encode, EVENT) == []


def test_our_own_class_is_not_changed_by_it() -> None:
    hooked = EventEncoder(default=lambda value: "d", drop_raw_event=True)
    bad = CustomEvent(name="n", value=object())
    for _ in range(2):
        assert hooked.encode(EVENT) == DROPPED
        assert hooked._encode_sse(EVENT) == DROPPED
        assert hooked.encode(bad) == 'data: {"type":"CUSTOM","name":"n","value":"d"}\n\n'
        assert hooked._encode_sse(bad) == hooked.encode(bad)
        assert hooked.encode_many([EVENT]) == DROPPED.encode()
        install()


def test_a_class_of_both() -> None:
    class Both(EventEncoder):
        def __init__(self) -> None:
            Official.__init__(self, "text/event-stream")
            EventEncoder.__init__(self, drop_raw_event=True)

    install()
    assert Both().encode(EVENT) == DROPPED


# --- model_dump_json ---------------------------------------------------------------------------


def test_other_arguments_are_pydantics(installed: None) -> None:
    event = TextMessageContentEvent(message_id="m", delta="d", raw_event={"a": None}, foo=None)
    for arguments in (
        {},
        {"by_alias": False},
        {"by_alias": None},
        {"by_alias": True, "indent": 2},
        {"by_alias": True, "exclude_none": True},
        {"by_alias": True, "exclude": {"delta"}},
        {"by_alias": True, "include": {"delta"}},
        {"by_alias": True, "round_trip": True},
        {"by_alias": True, "ensure_ascii": True},
        {"by_alias": True, "fallback": str},
        {"by_alias": True, "warnings": False},
        {"exclude_unset": True},
    ):
        assert event.model_dump_json(**arguments) == dumped(event, **arguments), arguments
    for arguments in ({"by_alias": 1}, {"nonsense": 1}, {"by_alias": True, "nonsense": 1}):
        expected = outcome(lambda arguments=arguments: dumped(event, **arguments))
        got = outcome(lambda arguments=arguments: event.model_dump_json(**arguments))
        assert expected.error is not None
        assert got == expected
    with pytest.raises(TypeError):
        event.model_dump_json(True)
    with pytest.raises(TypeError):
        TextMessageContentEvent.model_dump_json()
    assert TextMessageContentEvent.model_dump_json(event, by_alias=True) == dumped(
        event, by_alias=True
    )


def test_what_else_a_model_does_is_as_before(installed: None) -> None:
    event = TextMessageContentEvent(message_id="m", delta="d", foo=None)
    assert event.model_dump(by_alias=True) == BaseModel.model_dump(event, by_alias=True)
    assert event.model_dump(mode="json")["message_id"] == "m"
    assert pickle.loads(pickle.dumps(event)) == event
    assert copy.deepcopy(event) == event
    assert TextMessageContentEvent.model_validate_json(event.model_dump_json()) == event
    assert "messageId" in TextMessageContentEvent.model_json_schema()["properties"]
    assert "model_dump_json" not in event.__dict__
    assert callable(event.model_dump_json)
    message = UserMessage(id="1", content="c")
    assert message.model_dump_json(by_alias=True) == dumped(message, by_alias=True)


def test_classes_made_while_installed() -> None:
    install()

    class Mine(TextMessageEndEvent):
        more: int = 1

    class Dumping(TextMessageEndEvent):
        def model_dump_json(self, **arguments: Any) -> str:
            return "mine " + super().model_dump_json(**arguments)

    mine, dumping = Mine(message_id="m"), Dumping(message_id="m")
    for _ in range(2):
        assert mine.model_dump_json(by_alias=True) == dumped(mine, by_alias=True)
        assert Official().encode(mine) == f"data: {dumped(mine, by_alias=True)}\n\n"
        assert dumping.model_dump_json(by_alias=True).startswith('mine {"type"')
        assert Official().encode(dumping).startswith('data: mine {"type"')
        assert EventEncoder().encode(dumping).startswith('data: mine {"type"')
        uninstall()


def test_a_wrapper_put_around_it_later_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """As tracing libraries do, with `functools.wraps`."""
    seen: list[Any] = []
    install()
    original = TextMessageEndEvent.model_dump_json

    @functools.wraps(original)
    def traced(self: Any, *args: Any, **kwargs: Any) -> str:
        seen.append(self)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(TextMessageEndEvent, "model_dump_json", traced)
    assert EVENT.model_dump_json(by_alias=True) == dumped(EVENT, by_alias=True)
    assert seen == [EVENT]
    for encoder in (Official(), EventEncoder()):
        seen.clear()
        assert encoder.encode(EVENT) == FRAME
        assert seen == [EVENT]


# --- idempotent, reversible, safe --------------------------------------------------------------


def state() -> dict[str, Any]:
    return {
        f"{cls.__name__}.{name}": value
        for cls in (Official, BaseEvent, BaseModel, TextMessageEndEvent)
        for name, value in vars(cls).items()
    }


def test_it_is_undone_completely() -> None:
    Official().encode(EVENT)
    copy.copy(Official())  # This leaves a cache on the class.
    before = state()
    for times in (1, 2, 3):
        for _ in range(times):
            install()
        assert state().keys() > before.keys()
        uninstall()
        assert state() == before
        assert all(state()[name] is value for name, value in before.items())
    uninstall()
    assert state() == before
    with pytest.raises(AttributeError):
        Official().encode({"type": "X"})


def test_instances_made_while_installed_go_on_afterwards() -> None:
    install()
    encoder, dropping = Official(), Official(drop_raw_event=True)
    uninstall()
    assert encoder.encode(EVENT) == FRAME
    assert dropping.encode(EVENT) in (FRAME, DROPPED)
    assert encoder.get_content_type() == "text/event-stream"
    install()
    assert encoder.encode({"type": "X", "a": 1}) == WIRE_FRAME
    assert dropping.encode(EVENT) == DROPPED


def test_pickling_and_copying_while_installed() -> None:
    old = Official("x")
    install()
    for encoder in (old, Official(), Official(drop_raw_event=True), Plain(), Labelled("x")):
        expected = encoder.encode(EVENT)
        for other in (
            copy.copy(encoder),
            copy.deepcopy(encoder),
            pickle.loads(pickle.dumps(encoder)),
        ):
            assert type(other) is type(encoder)
            assert other.encode(EVENT) == expected


def test_threads_that_install_and_uninstall_while_others_encode() -> None:
    before = state()
    failures: list[Any] = []
    stop = threading.Event()
    start = threading.Barrier(6)
    old = Official()

    def switch() -> None:
        start.wait()
        for _ in range(300):
            install()
            uninstall()

    def encode() -> None:
        start.wait()
        while not stop.is_set():
            for make in (lambda: old, Official, EventEncoder, Plain):
                try:
                    got: Any = make().encode(EVENT)
                except Exception as error:
                    got = error
                if got != FRAME:
                    failures.append(got)
            got = outcome(lambda: EVENT.model_dump_json(by_alias=True))
            if got.result is None or f"data: {got.result}\n\n" != FRAME:
                failures.append(got)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        switchers = [threading.Thread(target=switch) for _ in range(3)]
        encoders = [threading.Thread(target=encode) for _ in range(3)]
        for thread in [*switchers, *encoders]:
            thread.start()
        for thread in switchers:
            thread.join()
        stop.set()
        for thread in encoders:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    uninstall()
    assert failures == []
    assert state() == before


def test_before_anything_else_was_imported() -> None:
    """In a process of its own: `install()` is the first thing that happens."""
    script = """
import warnings
warnings.simplefilter("ignore")
import agui_codec
agui_codec.install()
from ag_ui.core import TextMessageEndEvent
from ag_ui.encoder import EventEncoder
event = TextMessageEndEvent(message_id="m")
print(EventEncoder().encode(event), EventEncoder().encode({"type": "X"}), end="")
agui_codec.uninstall()
print(EventEncoder().encode(event), end="")
"""
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert run.stdout == (
        'data: {"type":"TEXT_MESSAGE_END","messageId":"m"}\n\n'
        ' data: {"type":"X"}\n\n'
        'data: {"type":"TEXT_MESSAGE_END","messageId":"m"}\n\n'
    ), run.stderr


def test_importing_changes_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module("agui_codec")
    assert "model_dump_json" not in vars(BaseEvent)
    assert Official.encode.__module__ == "ag_ui.encoder.encoder"
    assert agui_codec.EventEncoder is not Official


def test_it_may_be_called_while_it_is_at_work() -> None:
    """By a finalizer, the collector's callback or a signal handler: in the same thread."""
    native = agui_codec._native
    calls = []

    def again() -> Any:
        calls.append(None)
        install()
        return patches()

    patches = native.patches
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "patches", lambda: again() if not calls else patches())
        thread = threading.Thread(target=install, daemon=True)
        thread.start()
        thread.join(30)
        assert not thread.is_alive()
    assert Official().encode(EVENT) == FRAME
    uninstall()
    assert "encode_many" not in vars(Official)


@pytest.mark.parametrize(
    "within",
    [[install], [uninstall], [uninstall, install], [install, uninstall]],
    ids=lambda calls: "+".join(it.__name__ for it in calls),
)
@pytest.mark.parametrize("outer", [install, uninstall])
def test_a_call_within_a_call_takes_its_turn_after_it(
    outer: Any, within: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each attribute that is set or taken back, before and after, as the collector may."""
    module = sys.modules["agui_codec.install"]
    before = state()
    step = turn = 0

    def maybe() -> None:
        nonlocal step
        step += 1
        if step == turn:
            for call in within:
                call()

    def calling(function: Any) -> Any:
        def changed(*args: Any) -> None:
            maybe()
            function(*args)
            maybe()

        return changed

    monkeypatch.setattr(module, "setattr", calling(setattr), raising=False)
    monkeypatch.setattr(module, "delattr", calling(delattr), raising=False)
    for n in itertools.count():
        if outer is uninstall:
            install()
        step, turn = 0, n
        outer()
        if n and step < n:
            break
        last = within[-1] if n else outer
        assert ("encode_many" in vars(Official)) is (last is install)
        assert Official().encode(EVENT) == FRAME
        turn = 0
        uninstall()
        assert state() == before
    assert n > 10


def test_an_interrupted_install_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["agui_codec.install"]
    before = state()
    for turn in range(1, 30):
        calls = 0

        def interrupted(*args: Any, turn: int = turn) -> None:
            nonlocal calls
            calls += 1
            if calls == turn:
                raise KeyboardInterrupt
            setattr(*args)

        with monkeypatch.context() as patch:
            patch.setattr(module, "setattr", interrupted, raising=False)
            with contextlib.suppress(KeyboardInterrupt):
                install()
        uninstall()
        assert state() == before
    assert calls < turn


def test_what_is_made_at_first_use_may_be_asked_for_meanwhile() -> None:
    """By a profiler, a finalizer or an import: in the same thread, in a process of its own."""
    script = """
import sys
import agui_codec

def drop():
    agui_codec.EventEnforcer().feed({"type": "NOT_AN_EVENT"})

def profile(frame, *_):
    if frame.f_code.co_name == "getLogger":
        sys.setprofile(None)
        print("within")
        drop()

sys.setprofile(profile)
drop()
print("done")
"""
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60
    )
    assert run.stdout == "within\ndone\n", run.stderr
