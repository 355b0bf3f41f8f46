"""Writes a corpus for the fuzzer: random events of every type, one to a file."""

import hashlib
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

import random_events  # noqa: E402
from agui_codec import proto  # noqa: E402

out = HERE / "corpus/proto_decode"
out.mkdir(parents=True, exist_ok=True)
for event in random_events.events(1, 310):
    wire = proto.encode(event)
    if len(wire) < 2000:
        (out / hashlib.sha256(wire).hexdigest()[:16]).write_bytes(wire)
print(f"{len(list(out.iterdir()))} events in {out}")
