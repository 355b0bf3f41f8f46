// Runs the `HttpAgent` of @ag-ui/client 0.0.59 over streams that a server would send: parsing,
// expansion, verification and application. One JSON array of events per line on stdin; per line on
// stdout, why the run failed (or null), the events that the application saw, and the messages.
import { createInterface } from "node:readline";
import { HttpAgent } from "@ag-ui/client-0059";

console.error = () => {};
console.warn = () => {};

for await (const line of createInterface({ input: process.stdin })) {
  const events = JSON.parse(line);
  const body = events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join("");
  const headers = { "content-type": "text/event-stream" };
  const fetch = async () => new Response(body, { headers });
  const agent = new HttpAgent({ url: "http://127.0.0.1/", threadId: "t", fetch });
  const seen = [];
  let failed = null;
  try {
    await agent.runAgent({ runId: "r" }, { onEvent: ({ event }) => void seen.push(event) });
  } catch (error) {
    failed = String(error.message ?? error);
  }
  process.stdout.write(JSON.stringify({ failed, seen, messages: agent.messages }) + "\n");
}
