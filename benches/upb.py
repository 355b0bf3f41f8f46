"""The classes of Google's protobuf runtime for the events."""

import sys
from functools import cache
from importlib import import_module, resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[1]


@cache
def classes() -> Any:
    """The module that `protoc` makes of ``events.proto``: `Event` and the messages of its arms.

    Raises:
        ImportError: If protobuf or grpcio-tools is not installed.
    """
    protoc = import_module("grpc_tools.protoc")
    well_known = resources.files("grpc_tools") / "_proto"
    with TemporaryDirectory() as folder:
        arguments = [f"-I{ROOT / 'proto'}", f"-I{well_known}", f"--python_out={folder}"]
        files = sorted(str(path) for path in (ROOT / "proto/ag_ui").glob("*.proto"))
        if protoc.main(["protoc", *arguments, *files]) != 0:
            raise ImportError("protoc has refused the .proto files")
        # In a package of another name: `ag_ui` is the SDK.
        package = Path(folder, "ag_ui").rename(Path(folder, "google_ag_ui"))
        for path in package.glob("*.py"):
            path.write_text(
                path.read_text().replace("from ag_ui import", "from google_ag_ui import")
            )
        sys.path.insert(0, folder)
        try:
            return import_module("google_ag_ui.events_pb2")
        finally:
            sys.path.remove(folder)
