"""Answers to interrupts: what a run that continues from one is started with."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from ag_ui.core import ResumeEntry

from agui_codec.client._fields import read
from agui_codec.client.errors import InterruptError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ag_ui.core import Interrupt

__all__ = ["build_resume", "cancel", "is_interrupt_expired", "resolve"]


class Answer:
    """An answer to an interrupt that is not named yet; :func:`resolve` and :func:`cancel` make one.

    Attributes:
        fields: The fields of the :class:`ag_ui.core.ResumeEntry`, but for ``interrupt_id``.
    """

    __slots__ = ("fields",)

    def __init__(self, **fields: Any) -> None:
        self.fields = {name: value for name, value in fields.items() if value is not None}

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.fields.items())
        return f"Answer({fields})"


def resolve(payload: Any = None, *, metadata: dict[str, Any] | None = None) -> Answer:
    """Answer an interrupt.

    Args:
        payload: What the agent asked for, any JSON value; None sends no payload.
        metadata: About the answer: a signature, say.

    Example:
        await agent.run_agent(resume={"int-1": resolve({"approved": True})})
    """
    return Answer(status="resolved", payload=payload, metadata=metadata)


def cancel(*, metadata: dict[str, Any] | None = None) -> Answer:
    """Give up on an interrupt: the agent goes on without an answer.

    Example:
        await agent.run_agent(resume={"int-1": cancel()})
    """
    return Answer(status="cancelled", metadata=metadata)


def build_resume(
    interrupts: Iterable[Interrupt | dict[str, Any]], answers: Mapping[str, Any]
) -> list[ResumeEntry]:
    """Make the ``resume`` of an input from answers by interrupt id.

    Args:
        interrupts: The pending interrupts.
        answers: For each of their ids what :func:`resolve` or :func:`cancel` gives, or the payload
            of a resolution.

    Returns:
        An entry for each interrupt, in their order.

    Raises:
        InterruptError: An interrupt has no answer, or an answer has no interrupt.

    Example:
        resume = build_resume(agent.pending_interrupts, {"int-1": resolve("yes")})
    """
    ids = [read(one, "id") for one in interrupts]
    if missing := [one for one in ids if one not in answers]:
        raise InterruptError(f"no answer to interrupt {', '.join(map(repr, missing))}")
    if unknown := [one for one in answers if one not in ids]:
        raise InterruptError(f"interrupt {', '.join(map(repr, unknown))} is not pending")
    return [entry(one, answers[one]) for one in ids]


def entry(interrupt_id: str, answer: Any) -> ResumeEntry:
    """One entry of ``resume``; an answer that is not an :class:`Answer` is a payload."""
    if isinstance(answer, ResumeEntry):
        return answer
    if not isinstance(answer, Answer):
        answer = resolve(answer)
    return ResumeEntry(interrupt_id=interrupt_id, **answer.fields)


def resume_entries(resume: Iterable[Any] | Mapping[str, Any] | None) -> list[Any] | None:
    """What ``run_agent(resume=)`` takes, as a list of entries; the reducer checks them."""
    if resume is None:
        return None
    if isinstance(resume, Mapping):
        return [entry(one, answer) for one, answer in resume.items()]
    return list(resume)


def is_interrupt_expired(
    interrupt: Interrupt | dict[str, Any], now: datetime | None = None
) -> bool:
    """Tell whether an interrupt can no longer be answered, only cancelled.

    Args:
        interrupt: The interrupt.
        now: The time to compare with, aware of its zone; by default the present.

    Returns:
        Whether ``expiresAt`` is past. One that is absent or no ISO 8601 time never expires; one
        without a zone is UTC.

    Example:
        expired = [one for one in agent.pending_interrupts if is_interrupt_expired(one)]
    """
    expires = (
        interrupt.get("expiresAt", interrupt.get("expires_at"))
        if isinstance(interrupt, dict)
        else interrupt.expires_at
    )
    if not isinstance(expires, str):
        return False
    # Python reads the Z only since 3.11.
    text = expires[:-1] + "+00:00" if expires[-1:] in ("Z", "z") else expires
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return False
    if time.tzinfo is None:
        time = time.replace(tzinfo=timezone.utc)
    return time <= (now or datetime.now(timezone.utc))
