// What the TypeScript implementation of protobuf costs. One job per line on stdin, of either kind,
//
//   {"encode": [event, ...]}     {"decode": [hex, ...]}
//
// and per line on stdout {"nanoseconds": for one item, "results": [hex or event, ...]}: of some
// passes over all items the one in the middle.
import { decode, encode } from "@ag-ui/proto";
import { createInterface } from "node:readline";

const PASSES = 5;

function timed(items, work) {
  const passes = [];
  for (let pass = 0; pass < PASSES; pass++) {
    const started = process.hrtime.bigint();
    for (const item of items) work(item);
    passes.push(Number(process.hrtime.bigint() - started));
  }
  passes.sort((a, b) => a - b);
  return { nanoseconds: passes[PASSES >> 1] / items.length, results: items.map(work) };
}

function answer(job) {
  if (job.decode) {
    return timed(job.decode.map((hex) => new Uint8Array(Buffer.from(hex, "hex"))), decode);
  }
  const { results, nanoseconds } = timed(job.encode, encode);
  return { nanoseconds, results: results.map((bytes) => Buffer.from(bytes).toString("hex")) };
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(JSON.stringify(answer(JSON.parse(line))) + "\n");
}
