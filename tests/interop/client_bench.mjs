// How long an agent of @ag-ui/client takes for an event: a JSON object with the events of a run and
// the messages before it on stdin, seconds an event on stdout.
import { AbstractAgent } from "@ag-ui/client";
import { readFileSync } from "node:fs";
import { from } from "rxjs";

process.env.NODE_ENV = "production";
const { events, messages } = JSON.parse(readFileSync(0, "utf-8"));

class Replay extends AbstractAgent {
  run() {
    return from(structuredClone(events));
  }
}

let best = Infinity;
for (let round = 0; round < 3; round += 1) {
  const agent = new Replay({ threadId: "t", initialMessages: messages });
  const start = performance.now();
  await agent.runAgent({ runId: "r" });
  best = Math.min(best, performance.now() - start);
}
console.log(best / 1000 / events.length);
