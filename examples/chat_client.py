"""A client in eight lines: python examples/chat_client.py URL MESSAGE."""

import asyncio
import sys

from agui_codec.client import HttpAgent


async def main(url: str, message: str) -> None:
    """Say something to an agent, and print its answer as it comes."""
    async with HttpAgent(url) as agent, agent.run_agent(message) as run:
        async for text in run.text_stream:
            print(text, end="", flush=True)
        print()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
