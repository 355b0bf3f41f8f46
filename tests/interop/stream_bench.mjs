// What chunk expansion and verification of the TypeScript client cost. A JSON array of events on
// stdin, the seconds per event on stdout: the median of some rounds after those in which it is
// compiled.
import { transformChunks, verifyEvents } from "@ag-ui/client";
import { readFileSync } from "node:fs";
import { Subject } from "rxjs";

const events = JSON.parse(readFileSync(0, "utf8"));
const rounds = [];
for (let round = 0; round < 60; round++) {
  const source = new Subject();
  let count = 0;
  source.pipe(transformChunks(false), verifyEvents(false)).subscribe({ next: () => count++ });
  const start = process.hrtime.bigint();
  for (const event of events) source.next(event);
  if (round >= 30) rounds.push(Number(process.hrtime.bigint() - start));
  if (count < events.length) throw new Error("an event was refused");
}
rounds.sort((a, b) => a - b);
process.stdout.write(String(rounds[rounds.length >> 1] / events.length / 1e9));
