"""Agents behind HTTP: a POST, and a stream of events in answer."""

from __future__ import annotations

import inspect
import json
import logging
import random
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http.cookiejar import CookieJar, DefaultCookiePolicy
from time import time
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urljoin, urlsplit, urlunsplit

from ag_ui.core import AgentCapabilities

from agui_codec._native import AGUIError, Deviation, enforce_input
from agui_codec.client import _loop
from agui_codec.client.agent import AbstractAgent, Producer
from agui_codec.client.errors import HttpStatusError, UnexpectedContentTypeError
from agui_codec.client.run import Source
from agui_codec.decoder import EventDecoder
from agui_codec.encoder import AGUI_MEDIA_TYPE
from agui_codec.stream import athrough

if TYPE_CHECKING:
    from types import ModuleType, TracebackType

    from ag_ui.core import RunAgentInput
    from typing_extensions import Self, Unpack

    from agui_codec.client.options import AgentOptions

__all__ = ["HttpAgent", "ResponseInfo"]

logger = logging.getLogger("agui_codec.client")

Auth = Callable[[], Awaitable[Mapping[str, str]]]

# Statuses that say that the run has not begun, and may later.
_BUSY = frozenset((429, 503))
# As much of an error as is read, and for so long.
_ERROR_BYTES = 65536
_ERROR_SECONDS = 5.0
_MAX_REDIRECTS = 5
_MAX_RETRY_AFTER = 60.0


@dataclass(frozen=True)
class ResponseInfo:
    """The response to a run.

    Args:
        status: The HTTP status code.
        headers: The headers, by lower-case name.
        http_version: ``HTTP/1.1`` or ``HTTP/2``.
    """

    status: int
    headers: Mapping[str, str]
    http_version: str


class HttpAgent(AbstractAgent):
    """An agent behind HTTP, over server-sent events or protobuf.

    Args:
        url: The endpoint; a run is a POST to it.
        headers: Sent with every request; they win over those of our own, ``Accept`` included.
        auth: An ``auth`` of the HTTP client's, or an async function that gives headers and is asked
            before every attempt.
        client: An ``AsyncClient`` of httpx2 or httpx, which stays the caller's. By default one of
            our own, of httpx2 if it is installed, which keeps no cookies.
        wire: What is asked for. Either is read, whatever it is.
        connect_timeout: How many seconds a connection may take.
        idle_timeout: How many seconds may pass without a byte (keep-alive comments count) before
            the run counts as truncated; None for any. To limit the whole run use
            ``asyncio.timeout``.
        max_retries: How often a request is repeated while no run can have begun: the connection
            failed, or the status was 429 or 503, without a Retry-After of more than a minute.
        connect_url: Where to join a thread; by default ``{url}/connect``.
        max_event_bytes: How large one event may be; see :class:`agui_codec.EventDecoder`.
        allow_done: Pass over ``data: [DONE]``; see :class:`agui_codec.EventDecoder`.
        **agent_options: As for :class:`AbstractAgent`.

    Attributes:
        url: The endpoint.
        headers: The caller's headers.
        last_response: What the last request was answered with; None before.

    Raises:
        TypeError: ``client`` is not an ``AsyncClient`` of httpx2 or httpx.
        ImportError: Neither is installed: ``pip install agui-codec[client]``. From the first
            request.

    Example:
        async with HttpAgent("https://example.com/agent") as agent:
            async with agent.run_agent("Hello") as run:
                async for text in run.text_stream:
                    print(text, end="", flush=True)
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        auth: Any = None,
        client: Any = None,
        wire: Literal["sse", "protobuf"] = "sse",
        connect_timeout: float | None = 10.0,
        idle_timeout: float | None = 300.0,
        max_retries: int = 2,
        connect_url: str | None = None,
        max_event_bytes: int = 10 * 1024 * 1024,
        allow_done: bool = False,
        **agent_options: Unpack[AgentOptions],
    ) -> None:
        super().__init__(**agent_options)
        if wire not in ("sse", "protobuf"):
            raise ValueError(f"wire is 'sse' or 'protobuf', not {wire!r}")
        self.url = str(url)
        self.headers = dict(headers or {})
        self.last_response: ResponseInfo | None = None
        self._auth = auth
        self._client = client
        self._owns_client = client is None
        self._module = None if client is None else _module_of(client)
        self._wire = wire
        self._connect_timeout = connect_timeout
        self._idle_timeout = idle_timeout
        self._max_retries = max_retries
        self._connect_url = connect_url
        self._max_event_bytes = max_event_bytes
        self._allow_done = allow_done

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r}, thread_id={self.thread_id!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the active run, and close the HTTP client if it is our own."""
        try:
            if (run := self.active_run) is not None:
                await run.aclose()
        finally:
            if self._owns_client and self._client is not None:
                client, self._client = self._client, None
                await client.aclose()

    async def _leave_loop(self) -> None:
        await self.aclose()

    def clone(self) -> Self:
        """As :meth:`AbstractAgent.clone`; each has an HTTP client of its own, or the caller's."""
        cloned = super().clone()
        cloned.headers = dict(self.headers)
        if cloned._owns_client:
            cloned._client = None
        return cloned

    # -- requests ---------------------------------------------------------------------------

    def request(self, input: RunAgentInput) -> dict[str, Any]:
        """What is sent for a run; override it to send something else.

        Args:
            input: The input, as the protocol allows it.

        Returns:
            ``method``, ``url``, ``headers`` and ``content``.
        """
        accept = "text/event-stream"
        if self._wire == "protobuf":
            accept = f"{AGUI_MEDIA_TYPE}, {accept}"
        return {
            "method": "POST",
            "url": self.url,
            "headers": _merged(
                {"Content-Type": "application/json", "Accept": accept}, self.headers
            ),
            "content": input.model_dump_json(by_alias=True).encode(),
        }

    def run(self, input: RunAgentInput) -> Producer:
        """The events of a run, as wire dicts: for middleware of your own around a request."""
        return self._run(input, connects=False)

    def connect(self, input: RunAgentInput) -> Producer:
        """The events of the thread's history and of its live run: POST ``{url}/connect``."""
        return self._run(input, connects=True)

    async def _run(self, input: RunAgentInput, *, connects: bool) -> AsyncIterator[dict[str, Any]]:
        source = await self._response(input, connects=connects)
        if source is None:
            return
        try:
            decoded = athrough(source.items, self._decoder(source.content_type or ""))
            async with aclosing(decoded) as events:
                async for event in events:
                    yield event
        finally:
            await source.close()

    async def _source(self, input: RunAgentInput, *, connects: bool) -> Source:
        # A subclass may make events of its own, around ours.
        mine, base = (
            (type(self).connect, HttpAgent.connect) if connects else (type(self).run, HttpAgent.run)
        )
        if mine is not base:
            return await super()._source(input, connects=connects)
        return await self._response(input, connects=connects) or Source(_none())

    def _transport_errors(self) -> tuple[type[Exception], ...]:
        # Not those of connecting: a run that cannot have begun has not broken off.
        module = self._http()
        return (
            *super()._transport_errors(),
            module.ReadTimeout,
            module.WriteTimeout,
            module.ReadError,
            module.WriteError,
            module.CloseError,
            module.RemoteProtocolError,
            module.DecodingError,
        )

    def _decoder(self, content_type: str) -> EventDecoder:
        return EventDecoder(
            content_type,
            as_dict=True,
            max_event_bytes=self._max_event_bytes,
            allow_done=self._allow_done,
            on_deviation=self._on_deviation,
        )

    async def _response(self, input: RunAgentInput, *, connects: bool) -> Source | None:
        """The stream that answers an input; None if there is no history to join."""
        request = self.request(enforce_input(input, on_deviation=self._on_deviation))
        if connects:
            request["url"] = self._connect_url or _below(self.url, "connect")
        response = await self._send(request)
        try:
            status = response.status_code
            if connects and status in (404, 405):
                await response.aclose()
                return None
            if not 200 <= status < 300:
                body = await self._error_body(response)
                raise HttpStatusError(status, _headers(response), body, url=request["url"])
            content_type = response.headers.get("content-type", "")
            try:
                self._decoder(content_type)
            except AGUIError as error:
                body = await self._beginning(response)
                raise UnexpectedContentTypeError(content_type, body, url=request["url"]) from error
        except BaseException:
            await response.aclose()
            raise
        # A mocked response has been read already.
        decodes = "content-encoding" in response.headers or response.is_stream_consumed
        chunks = response.aiter_bytes() if decodes else response.aiter_raw()

        async def close() -> None:
            try:
                await chunks.aclose()
            finally:
                await response.aclose()

        return Source(chunks, content_type, self._transport_errors(), close)

    async def _beginning(self, response: Any) -> str:
        """The beginning of a body as text, as far as it comes."""
        body = bytearray()
        try:
            with _loop.anyio().move_on_after(_ERROR_SECONDS):
                async with aclosing(response.aiter_bytes()) as chunks:
                    async for chunk in chunks:
                        body += chunk
                        if len(body) >= _ERROR_BYTES:
                            break
        except self._transport_errors() as error:
            logger.info("%s: the body broke off: %r", response.url, error)
        return bytes(body[:_ERROR_BYTES]).decode("utf-8", "replace")

    async def _error_body(self, response: Any) -> Any:
        text = await self._beginning(response)
        if "json" in response.headers.get("content-type", ""):
            try:
                return json.loads(text)
            except ValueError:
                pass
        return text

    async def _send(self, request: dict[str, Any]) -> Any:
        """Send a request until it is answered by something that is final."""
        module, client = self._http(), self._client
        timeout = module.Timeout(
            connect=self._connect_timeout,
            read=self._idle_timeout,
            write=self._idle_timeout,
            pool=self._connect_timeout,
        )
        not_begun = (module.ConnectError, module.ConnectTimeout, module.PoolTimeout)
        attempt = redirects = 0
        while True:
            headers, options = dict(request["headers"]), {}
            if _is_async(self._auth):
                headers = _merged(headers, await self._auth())
            elif self._auth is not None:
                options["auth"] = self._auth
            built = client.build_request(**{**request, "headers": headers}, timeout=timeout)
            try:
                response = await client.send(built, stream=True, follow_redirects=False, **options)
            except not_begun as error:
                if attempt >= self._max_retries:
                    raise
                delay, reason = _backoff(attempt), repr(error)
            else:
                self.last_response = ResponseInfo(
                    response.status_code, _headers(response), response.http_version
                )
                if response.status_code in (307, 308) and redirects < _MAX_REDIRECTS:
                    target = _redirected(str(built.url), response.headers.get("location"))
                    if target is not None:
                        await response.aclose()
                        request = {**request, "url": target}
                        redirects += 1
                        continue
                if response.status_code not in _BUSY or attempt >= self._max_retries:
                    return response
                after = _retry_after(response.headers.get("retry-after"))
                if after is not None and after > _MAX_RETRY_AFTER:
                    return response
                await response.aclose()
                delay = _backoff(attempt) if after is None else after
                reason = f"status {response.status_code}"
            attempt += 1
            logger.info("%s: %s; attempt %d in %.1f s", request["url"], reason, attempt + 1, delay)
            await _loop.sleep(delay)

    def _http(self) -> ModuleType:
        """The module of the HTTP client, which is made if it has to be."""
        if self._module is None:
            self._module = _installed()
        if self._client is None:
            # A run tells the server nothing of the one before but what its input says.
            no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=()))
            self._client = self._module.AsyncClient(cookies=no_cookies)
        return self._module

    # -- capabilities -----------------------------------------------------------------------

    async def get_capabilities(self) -> AgentCapabilities | None:
        """Ask what the agent can do: GET ``{url}/capabilities``.

        Returns:
            What it says; None if it says nothing (404), or nothing that can be read, which is
            reported as a deviation: no run has to fail for that.

        Raises:
            HttpStatusError: Another status than 2xx and 404.
        """
        url = _below(self.url, "capabilities")
        headers = _merged({"Accept": "application/json"}, self.headers)
        response = await self._send({"method": "GET", "url": url, "headers": headers})
        try:
            if response.status_code == 404:
                return None
            if not 200 <= response.status_code < 300:
                body = await self._error_body(response)
                raise HttpStatusError(response.status_code, _headers(response), body, url=url)
            body = await response.aread()
        finally:
            await response.aclose()
        try:
            return AgentCapabilities.model_validate_json(body)
        except ValueError as error:
            detail = f"the capabilities of {url} cannot be read: {error}"
            deviation = Deviation("malformed_capabilities", None, "", detail)
            if self._on_deviation is None:
                logging.getLogger("agui_codec").warning("%s", deviation)
            else:
                self._on_deviation(deviation)
            return None


def _module_of(client: Any) -> ModuleType:
    """Httpx or httpx2, whichever a client is of."""
    for cls in type(client).__mro__:
        root = cls.__module__.partition(".")[0]
        if cls.__name__ == "AsyncClient" and root in ("httpx", "httpx2"):
            return sys.modules[root]
    raise TypeError(
        f"client: expected an AsyncClient of httpx2 or httpx, got {type(client).__qualname__}"
    )


def _installed() -> ModuleType:
    try:
        import httpx2

        return httpx2
    except ImportError:
        pass
    try:
        import httpx
    except ImportError as error:
        raise ImportError(
            "HttpAgent needs httpx2 or httpx: pip install agui-codec[client]"
        ) from error
    return httpx


def _is_async(thing: Any) -> bool:
    """Whether it is an async function, a partial one, or an object with an async ``__call__``."""
    return callable(thing) and (
        inspect.iscoroutinefunction(thing) or inspect.iscoroutinefunction(type(thing).__call__)
    )


def _merged(headers: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """Headers, of which the later win, whatever the case of their names."""
    names = {name.lower() for name in more}
    return {**{name: text for name, text in headers.items() if name.lower() not in names}, **more}


def _headers(response: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}


def _below(url: str, name: str) -> str:
    """The URL of a resource below an endpoint, with the endpoint's query."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{name}"))


def _redirected(url: str, location: str | None) -> str | None:
    """Where a redirect leads to; None if that is not of the same origin."""
    if location is None:
        return None
    try:
        target = urljoin(url, location)
        return target if _origin(target) == _origin(url) else None
    except ValueError:
        return None


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _backoff(attempt: int) -> float:
    """Seconds to wait before another attempt: doubling up to 8, less up to a quarter."""
    delay: float = min(0.5 * 2**attempt, 8.0) * (1 - 0.25 * random.random())
    return delay


def _retry_after(value: str | None) -> float | None:
    """The seconds of a Retry-After header; None if it says none."""
    if value is None:
        return None
    try:
        return (
            max(0.0, float(value))
            if value.strip().isdigit()
            else max(0.0, parsedate_to_datetime(value).timestamp() - time())
        )
    except (TypeError, ValueError):
        return None


async def _none() -> AsyncIterator[Any]:
    return
    yield
