// How long the TypeScript client takes. One job per line on stdin,
// {"work": "reduce" | "compact", "events": [...], "messages": [...]}; per line on stdout
// {"nanoseconds": ..., "result": ...}, for doing it once.
import { compactEvents, defaultApplyEvents } from "@ag-ui/client";
import { createInterface } from "node:readline";
import { from, lastValueFrom } from "rxjs";

console.warn = () => {};

async function work({ work, events, messages }) {
  if (work === "compact") return compactEvents(events);
  const agent = { messages, pendingInterrupts: [] };
  const input = { threadId: "t", runId: "r", messages, state: {}, tools: [], context: [] };
  return (await lastValueFrom(defaultApplyEvents(input, from(events), agent, []))).messages;
}

for await (const line of createInterface({ input: process.stdin })) {
  const job = JSON.parse(line);
  const started = process.hrtime.bigint();
  const result = await work(job);
  const nanoseconds = Number(process.hrtime.bigint() - started);
  process.stdout.write(JSON.stringify({ nanoseconds, result }) + "\n");
}
