"""Tools that run in the client: python examples/frontend_tool.py URL MESSAGE.

The agent is told of them with each run. When it calls one, the client executes it after asking the
user, and runs the agent again with the answer.
"""

import asyncio
import sys
from datetime import datetime
from typing import Literal

from agui_codec.client import HttpAgent, ToolCallContext, tool


async def ask(call: ToolCallContext) -> bool:
    """Ask the user whether a tool may be called, with arguments that the agent has made up."""
    question = f"The agent calls {call.name}{dict(call.arguments)}. Allow it? [y/N] "
    return (await asyncio.to_thread(input, question)).strip().lower() == "y"


@tool
def local_time() -> str:
    """What time it is where the user is."""
    return datetime.now().astimezone().isoformat(timespec="minutes")


@tool(consent=ask, timeout=60)
async def get_location(precision: Literal["coarse", "fine"] = "coarse") -> dict[str, str]:
    """Where the user is."""
    place = {"city": "Lisbon"}
    return place if precision == "coarse" else {**place, "street": "Rua Augusta"}


async def main(url: str, message: str) -> None:
    """Say something to an agent, which may call the tools, and print what it answers."""
    async with HttpAgent(url) as agent:
        result = await agent.run_agent(message, tools=[local_time, get_location])
        print(result.text)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
