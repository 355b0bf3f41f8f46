// The TypeScript implementation as a peer: reads requests from standard input, one JSON object a
// line, and answers each on one line.
//
//   {"encode": event}    -> {"hex": ...}     @ag-ui/proto, without a length in front
//   {"decode": hex}      -> {"event": ...}   @ag-ui/proto
//   {"stream": [hex]}    -> {"events": [..]} @ag-ui/client's parseProtoStream, chunk by chunk
//
// What is refused is answered by {"error": its message, "name": its class}.

import { createInterface } from "node:readline";
import { parseProtoStream } from "@ag-ui/client";
import { decode, encode } from "@ag-ui/proto";
import { Subject } from "rxjs";

const hex = (bytes) => Buffer.from(bytes).toString("hex");
const bytes = (text) => new Uint8Array(Buffer.from(text, "hex"));

function stream(chunks) {
  const source = new Subject();
  const events = [];
  let failure;
  parseProtoStream(source).subscribe({
    next: (event) => events.push(event),
    error: (error) => (failure = error),
  });
  for (const chunk of chunks) source.next({ type: "data", data: bytes(chunk) });
  source.complete();
  return failure === undefined ? { events } : { events, error: String(failure.message) };
}

function answer(request) {
  if (request.encode !== undefined) return { hex: hex(encode(request.encode)) };
  if (request.decode !== undefined) return { event: decode(bytes(request.decode)) };
  if (request.stream !== undefined) return stream(request.stream);
  throw new Error("no such request");
}

// The packages warn on the console about what they drop; standard output is for answers.
console.warn = console.log = console.debug = () => {};

const answers = [];
for await (const line of createInterface({ input: process.stdin })) {
  try {
    answers.push(JSON.stringify(answer(JSON.parse(line))));
  } catch (error) {
    answers.push(JSON.stringify({ error: String(error.message), name: error.name }));
  }
}
process.stdout.write(answers.map((line) => line + "\n").join(""));
