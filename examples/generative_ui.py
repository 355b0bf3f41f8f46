"""Generative UI in a terminal: python examples/generative_ui.py URL MESSAGE.

The agent calls `generateUserInterface` with a description of what it needs, a JSON Schema of the
data, and data to begin with. Here a form of questions is made of the schema, and what the user
enters goes back to the agent. An application that has real forms gives `main` its own function.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from agui_codec.client import FrontendTool, HttpAgent

Form = Callable[[str, dict[str, Any], dict[str, Any]], Awaitable[dict[str, Any]]]

PARAMETERS = {
    "type": "object",
    "properties": {
        "description": {"type": "string", "description": "What the interface is for."},
        "data": {"type": "object", "description": "What it shows to begin with."},
        "output": {"type": "object", "description": "A JSON Schema of the data to be entered."},
    },
    "required": ["description", "output"],
}


def read(text: str, schema: dict[str, Any]) -> Any:
    """What was entered, as the schema of a field has it.

    Raises:
        ValueError: It is something else.
    """
    value = text if schema.get("type", "string") == "string" else json.loads(text)
    kinds: dict[str, Any] = {
        "integer": int,
        "number": (int, float),
        "boolean": bool,
        "array": list,
        "object": dict,
    }
    kind = kinds.get(schema.get("type", ""))
    # (To Python, true is a number.)
    if kind is not None and (not isinstance(value, kind) or (kind is not bool and value is True)):
        raise ValueError(f"expected {schema['type']}")
    if "enum" in schema and value not in schema["enum"]:
        raise ValueError(f"expected one of {', '.join(map(str, schema['enum']))}")
    return value


def terminal_form(description: str, schema: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    """Ask for each field at the terminal; an empty answer is the default, if there is one."""
    # The agent's text: what a terminal would obey is shown instead.
    print(repr(description)[1:-1])
    entered = dict(data)
    for name, field in schema.get("properties", {}).items():
        title = repr(field.get("title", name))[1:-1]
        default = data.get(name, field.get("default"))
        while True:
            text = input(f"  {title}{'' if default is None else f' [{default}]'}: ").strip()
            if text:
                try:
                    entered[name] = read(text, field)
                except ValueError as error:
                    print(f"  {error}")
                    continue
            elif default is not None:
                entered[name] = default
            elif name in schema.get("required", ()):
                print("  required")
                continue
            break
    return entered


async def ask_at_terminal(
    description: str, schema: dict[str, Any], data: dict[str, Any]
) -> dict[str, Any]:
    """Show the form in a thread, so that the event loop goes on."""
    return await asyncio.to_thread(terminal_form, description, schema, data)


def user_interface(form: Form) -> FrontendTool:
    """The tool, answered by a form of the application's."""

    async def generate(
        description: str, output: dict[str, Any], data: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        return await form(description, output, data or {})

    return FrontendTool(
        name="generateUserInterface",
        description="Shows the user a form, and gives what was entered.",
        parameters=PARAMETERS,
        handler=generate,
    )


async def main(url: str, message: str, form: Form = ask_at_terminal) -> None:
    """Say something to an agent that may ask for data with a form."""
    async with HttpAgent(url) as agent:
        result = await agent.run_agent(message, tools=[user_interface(form)])
        print(result.text)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
