"""Writes src/proto/table.rs from the .proto files beside this script.

    python proto/generate.py           # write the table
    python proto/generate.py --check   # exit 1 if it is not what the .proto files say

It needs no protoc and no package: the files keep to the part of the language that is read here
(messages, nested or not, one oneof to a message, enums, comments), and anything else is an error.
"""

import argparse
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
TABLE = HERE.parent / "src" / "proto" / "table.rs"
# In the order of their imports, so that a message is read before those that name it.
FILES = ("patch.proto", "types.proto", "events.proto")

TOKEN = re.compile(r'"[^"]*"|[A-Za-z_][\w.]*|\d+|[{}=;]')
SCALARS = {"string": "Str", "int64": "Int64", "bool": "Bool"}
WELL_KNOWN = {"google.protobuf.Value": "Value", "google.protobuf.Struct": "Struct"}


@dataclass
class Field:
    """One field of a message. The label is "", "optional" or "repeated"."""

    number: int
    name: str
    label: str
    type: str

    @property
    def key(self) -> str:
        """The key of the field in JSON, as protobuf derives it."""
        head, *rest = self.name.split("_")
        return head + "".join(word.capitalize() for word in rest)


@dataclass
class Message:
    """A message. `union` says that all its fields are the arms of one oneof."""

    name: str
    fields: list[Field] = field(default_factory=list)
    union: str = ""


@dataclass
class Contract:
    """All that the .proto files declare, by name."""

    messages: dict[str, Message] = field(default_factory=dict)
    enums: dict[str, dict[str, int]] = field(default_factory=dict)

    def ledger(self) -> dict[str, int]:
        """Every number by its full name, in the notation of the protocol's own list."""
        numbers = {
            f"{enum}.{name}": number
            for enum, values in self.enums.items()
            for name, number in values.items()
        }
        for message in self.messages.values():
            prefix = f"{message.name}.{message.union}".rstrip(".")
            numbers.update({f"{prefix}.{entry.name}": entry.number for entry in message.fields})
        return numbers


class Parser:
    """Reads one file into a contract."""

    def __init__(self, path: Path, contract: Contract) -> None:
        text = re.sub(r"//[^\n]*", "", path.read_text())
        self.path = path
        self.tokens = TOKEN.findall(text)
        self.contract = contract
        if re.sub(TOKEN, "", text).strip():
            raise SyntaxError(f"{path}: unknown syntax: {re.sub(TOKEN, '', text).split()[0]!r}")

    def take(self, expected: str = "") -> str:
        """The next token."""
        token = self.tokens.pop(0) if self.tokens else "the end"
        if expected and token != expected:
            raise SyntaxError(f"{self.path}: {expected!r} is expected, not {token!r}")
        return token

    def file(self) -> None:
        """Reads the whole file."""
        while self.tokens:
            match self.take():
                case "syntax":
                    self.take("=")
                    self.take('"proto3"')
                    self.take(";")
                case "package":
                    self.take("ag_ui")
                    self.take(";")
                case "import":
                    self.take()
                    self.take(";")
                case "enum":
                    self.enum()
                case "message":
                    self.message("")
                case other:
                    raise SyntaxError(f"{self.path}: {other!r} is not known here")

    def enum(self) -> None:
        """Reads an enum, after the word."""
        values = self.contract.enums.setdefault(self.take(), {})
        self.take("{")
        while (name := self.take()) != "}":
            self.take("=")
            values[name] = int(self.take())
            self.take(";")

    def message(self, outer: str) -> None:
        """Reads a message, after the word."""
        message = Message(outer + self.take())
        self.take("{")
        while (token := self.take()) != "}":
            if token == "message":
                self.message(f"{message.name}.")
            elif token == "oneof":
                message.union = self.take()
                self.take("{")
                while (arm := self.take()) != "}":
                    self.field(message, "optional", arm)
            elif token in ("optional", "repeated"):
                self.field(message, token, self.take())
            else:
                self.field(message, "", token)
        message.fields.sort(key=lambda entry: entry.number)
        self.contract.messages[message.name] = message

    def field(self, message: Message, label: str, kind: str) -> None:
        """Reads a field, after its type."""
        if f"{message.name}.{kind}" in self.contract.messages:
            kind = f"{message.name}.{kind}"
        name = self.take()
        self.take("=")
        message.fields.append(Field(int(self.take()), name, label, kind))
        self.take(";")


def read() -> Contract:
    """What the .proto files declare."""
    contract = Contract()
    for name in FILES:
        Parser(HERE / "ag_ui" / name, contract).file()
    return contract


def rust_name(name: str) -> str:
    """`ToolCall.Function` as the name of a type."""
    return name.replace(".", "")


def static_name(name: str) -> str:
    """`ToolCall.Function` as the name of a static."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", rust_name(name)).upper()


def rust(contract: Contract) -> str:
    """The table as Rust source, in the layout of rustfmt."""
    keys = sorted({entry.key for message in contract.messages.values() for entry in message.fields})
    lines = [
        "//! The wire table. Generated from `proto/ag_ui/*.proto` by `proto/generate.py`.",
        "",
        "use super::schema::{Kind, Label, Message, field};",
        "",
        "/// The messages by name.",
        "#[derive(Clone, Copy, Debug, PartialEq, Eq)]",
        "pub enum Id {",
        *(f"    {rust_name(name)}," for name in contract.messages),
        "}",
        "",
        "impl Id {",
        f"    pub const COUNT: usize = {len(contract.messages)};",
        "}",
        "",
        "/// The keys that fields have in JSON. A field names its own by the index.",
        f"pub static KEYS: [&str; {len(keys)}] = [",
        *(f'    "{key}",' for key in keys),
        "];",
    ]
    for enum, values in contract.enums.items():
        by_number = {number: name for name, number in values.items()}
        if sorted(by_number) != list(range(len(by_number))):
            raise ValueError(f"{enum}: the numbers have gaps")
        lines += [
            "",
            f"/// The names of `{enum}` by number.",
            f"pub static {static_name(enum)}: [&str; {len(by_number)}] = [",
            *(f'    "{by_number[number]}",' for number in sorted(by_number)),
            "];",
        ]
    labels = {"": "Implicit", "optional": "Optional", "repeated": "Repeated"}
    for message in contract.messages.values():
        lines += [
            "",
            f"pub static {static_name(message.name)}: Message = Message {{",
            f"    id: Id::{rust_name(message.name)},",
            f"    union: {str(bool(message.union)).lower()},",
            "    fields: &[",
        ]
        for entry in message.fields:
            label = labels[entry.label]
            if entry.type in SCALARS:
                kind = SCALARS[entry.type]
            elif entry.type in contract.enums:
                kind = "Enum"
            elif entry.type in WELL_KNOWN:
                kind = WELL_KNOWN[entry.type]
            else:
                kind = f"Message(&{static_name(contract.messages[entry.type].name)})"
            if label == "Implicit" and kind not in ("Str", "Enum"):
                # A message is always present or absent.
                label = "Optional"
            index = keys.index(entry.key)
            arguments = f'{entry.number}, "{entry.name}", {index}, Label::{label}, Kind::{kind}'
            line = f"        field({arguments}),"
            if len(line) > 100:
                parts = arguments.split(", ")
                line = "\n".join(
                    ["        field(", *(f"            {p}," for p in parts), "        ),"]
                )
            lines.append(line)
        lines += ["    ],", "};"]
    return "\n".join(lines) + "\n"


def main() -> int:
    """The command line."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--check", action="store_true", help="only compare")
    check = arguments.parse_args().check
    text = rust(read())
    if check:
        return 0 if TABLE.read_text() == text else 1
    TABLE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
