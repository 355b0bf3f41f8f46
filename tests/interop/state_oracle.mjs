// What the TypeScript client adds event streams up to. One JSON object per line on stdin:
// {"events": [...], "messages": [...], "state": ...}, the events verified and expanded; per line on
// stdout: the messages, the state and the pending interrupts after the last event, and what
// compactEvents makes of the events.
import { compactEvents, defaultApplyEvents } from "@ag-ui/client";
import { createInterface } from "node:readline";
import { from, lastValueFrom, scan } from "rxjs";

process.env.SUPPRESS_TRANSFORMATION_WARNINGS = "1";
console.warn = () => {};

async function reduce({ events, messages, state }) {
  const agent = { messages, pendingInterrupts: [] };
  const input = { threadId: "t", runId: "r", messages, state, tools: [], context: [] };
  const latest = (known, mutation) => ({ ...known, ...mutation });
  const mutations = defaultApplyEvents(input, from(events), agent, []);
  const start = { messages, state };
  const result = await lastValueFrom(mutations.pipe(scan(latest, start)), { defaultValue: start });
  return { ...result, pendingInterrupts: agent.pendingInterrupts };
}

for await (const line of createInterface({ input: process.stdin })) {
  const job = { messages: [], state: {}, ...JSON.parse(line) };
  const compacted = compactEvents(structuredClone(job.events));
  const answer = { ...(await reduce(job)), compacted };
  process.stdout.write(JSON.stringify(answer) + "\n");
}
