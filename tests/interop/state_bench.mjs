// How long the TypeScript client takes, in nanoseconds: one JSON object per line on stdin,
// {"work": "reduce" | "compact", "events": [...], "messages": [...], "rounds": n}; per line on stdout
// the median over the rounds for all the events.
import { compactEvents, defaultApplyEvents } from "@ag-ui/client";
import { createInterface } from "node:readline";
import { from, lastValueFrom } from "rxjs";

console.warn = () => {};

async function once({ work, events, messages = [] }) {
  const agent = { messages, pendingInterrupts: [] };
  const input = { threadId: "t", runId: "r", messages, state: {}, tools: [], context: [] };
  const started = process.hrtime.bigint();
  if (work === "compact") compactEvents(events);
  else await lastValueFrom(defaultApplyEvents(input, from(events), agent, []));
  return Number(process.hrtime.bigint() - started);
}

for await (const line of createInterface({ input: process.stdin })) {
  const job = JSON.parse(line);
  const times = [];
  for (let round = 0; round < job.rounds; round++) times.push(await once(job));
  times.sort((a, b) => a - b);
  process.stdout.write(JSON.stringify(times[times.length >> 1]) + "\n");
}
