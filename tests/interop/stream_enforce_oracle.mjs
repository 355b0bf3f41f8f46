// What the TypeScript client's enforcement makes of single events. One JSON event per line on
// stdin; per line on stdout `{ event }` (null if it was dropped) or `{ refused }`.
import { enforceEvents } from "@ag-ui/client";
import { createInterface } from "node:readline";
import { of } from "rxjs";

console.warn = () => {};

for await (const line of createInterface({ input: process.stdin })) {
  const answer = { event: null };
  of(JSON.parse(line))
    .pipe(enforceEvents(false))
    .subscribe({
      next: (event) => (answer.event = event),
      error: (error) => (answer.refused = String(error.message ?? error)),
    });
  process.stdout.write(JSON.stringify(answer) + "\n");
}
