// What the TypeScript client makes of event streams. One JSON array of events per line on stdin;
// per line on stdout: what chunk expansion and verification gave, and the index of the event that
// each refused (counted in its own input).
import { transformChunks, verifyEvents } from "@ag-ui/client";
import { createInterface } from "node:readline";
import { Subject } from "rxjs";

function through(operator, events) {
  const source = new Subject();
  const output = [];
  let refused = null;
  source.pipe(operator).subscribe({
    next: (event) => output.push(event),
    error: (error) => (refused = { message: String(error.message ?? error) }),
  });
  for (const [index, event] of events.entries()) {
    source.next(event);
    if (refused !== null) {
      refused.index = index;
      return { output, refused };
    }
  }
  source.complete();
  return { output, refused };
}

for await (const line of createInterface({ input: process.stdin })) {
  const expanded = through(transformChunks(false), JSON.parse(line));
  const verified = through(verifyEvents(false), expanded.output);
  const answer = {
    expanded: expanded.output,
    expandRefused: expanded.refused,
    verified: verified.output.length,
    verifyRefused: verified.refused,
  };
  process.stdout.write(JSON.stringify(answer) + "\n");
}
