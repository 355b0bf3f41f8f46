// What the TypeScript client's compatibility boundary makes of event streams. One JSON array of
// events per line on stdin, one of what comes out per line on stdout.
import { AbstractAgent, CompatibilityBoundary } from "@ag-ui/client";
import { createInterface } from "node:readline";
import { from, lastValueFrom, toArray } from "rxjs";

console.warn = () => {};

class Replay extends AbstractAgent {
  constructor(events) {
    super();
    this.events = events;
  }
  run() {
    return from(this.events);
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const input = { threadId: "t", runId: "r", messages: [], tools: [], context: [] };
  const events = new CompatibilityBoundary().run(input, new Replay(JSON.parse(line)));
  process.stdout.write(JSON.stringify(await lastValueFrom(events.pipe(toArray()))) + "\n");
}
