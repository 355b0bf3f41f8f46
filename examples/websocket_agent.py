"""An agent behind a WebSocket: python examples/websocket_agent.py ws://HOST/PATH MESSAGE.

AG-UI has no standard binding for WebSockets, so what goes over it is a matter of agreement: here
the client sends the input of a run as one text message, and each event comes back as one. All that
an agent needs is `run`; callbacks, tools, interrupts and checks are those of every agent.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

from ag_ui.core import RunAgentInput
from websockets.asyncio.client import connect

from agui_codec import decode_event
from agui_codec.client import AbstractAgent


class WebSocketAgent(AbstractAgent):
    """An agent behind a WebSocket.

    Args:
        url: Where it is.
        **options: As for `AbstractAgent`.
    """

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__(**options)
        self.url = url

    async def run(self, input: RunAgentInput) -> AsyncIterator[dict[str, Any]]:
        """Send the input, and give the events that come."""
        async with connect(self.url) as socket:
            await socket.send(input.model_dump_json(by_alias=True, exclude_none=True))
            async for message in socket:
                yield decode_event(message, as_dict=True)


async def main(url: str, message: str) -> None:
    """Say something to an agent, and print its answer as it comes."""
    async with WebSocketAgent(url).run_agent(message) as run:
        async for text in run.text_stream:
            print(text, end="", flush=True)
        print()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
