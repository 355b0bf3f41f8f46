// What an agent of @ag-ui/client makes of whole streams: one JSON array of events per line on
// stdin; per line on stdout whether the run was completed or refused, the types of the events that
// reached its subscribers, and the messages and the state afterwards.
import { AbstractAgent } from "@ag-ui/client";
import { createInterface } from "node:readline";
import { from } from "rxjs";

console.warn = () => {};
console.error = () => {};

class Replay extends AbstractAgent {
  constructor(events) {
    super({ threadId: "t" });
    this.events = events;
  }
  run() {
    return from(this.events);
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const agent = new Replay(JSON.parse(line));
  const answer = { outcome: "completed", events: [] };
  const onEvent = ({ event }) => void answer.events.push(event.type);
  try {
    await agent.runAgent({ runId: "r" }, { onEvent });
  } catch (error) {
    answer.outcome = "refused";
    answer.error = String(error.message ?? error);
  }
  answer.messages = agent.messages;
  answer.state = agent.state;
  answer.interrupts = agent.pendingInterrupts.map((interrupt) => interrupt.id);
  console.log(JSON.stringify(answer));
}
