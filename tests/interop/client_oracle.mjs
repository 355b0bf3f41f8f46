// What subscribers of the TypeScript client are told. One JSON object per line on stdin,
// {"threadId", "events", "messages", "state", "subscribers": [seed or null, ...], "resume",
// "middleware"}; per line on stdout {"trace": [...], "resolved", "result", "newMessages", "messages",
// "state", "interrupts"}. With a stack of middleware, which the tests have too, "events" instead of the
// trace: what the subscribers were given.
//
// A subscriber with a seed mutates by a rule that the tests follow too. Events come one by one, each
// after all callbacks of the one before it.
import { createHash } from "node:crypto";
import { createInterface } from "node:readline";
import { setImmediate as turn } from "node:timers/promises";
import { AbstractAgent, FilterToolCallsMiddleware, Middleware } from "@ag-ui/client";
import { concatMap, from, map, Observable } from "rxjs";

console.warn = console.error = console.log = () => {};

const NOTICES = ["onNewMessage", "onNewToolCall", "onMessagesChanged", "onStateChanged"];
const CALLBACKS = [
  ...["RunInitialized", "RunFailed", "RunFinalized", "Event"],
  ...["RunStarted", "RunFinished", "RunError", "StepStarted", "StepFinished"].map((n) => n + "Event"),
  ...["SubagentStarted", "SubagentFinished", "SubagentError"].map((n) => n + "Event"),
  ...["TextMessageStart", "TextMessageContent", "TextMessageEnd"].map((n) => n + "Event"),
  ...["ToolCallStart", "ToolCallArgs", "ToolCallEnd", "ToolCallResult"].map((n) => n + "Event"),
  ...["StateSnapshot", "StateDelta", "MessagesSnapshot"].map((n) => n + "Event"),
  ...["ActivitySnapshot", "ActivityDelta", "Raw", "Custom"].map((n) => n + "Event"),
  ...["ReasoningStart", "ReasoningMessageStart", "ReasoningMessageContent"].map((n) => n + "Event"),
  ...["ReasoningMessageEnd", "ReasoningEnd", "ReasoningEncryptedValue"].map((n) => n + "Event"),
]
  .map((name) => "on" + name)
  .concat(NOTICES);

function canonical(value) {
  if (Array.isArray(value)) return value.map(canonical);
  if (value === null || typeof value !== "object") return value;
  const entries = Object.entries(value).filter(([, item]) => item !== undefined);
  return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)).map(([k, v]) => [k, canonical(v)]));
}

const sha = (text) => createHash("sha256").update(text).digest("hex").slice(0, 12);

// Most messages are as they were in the call before.
const known = new Map();

function hash(value) {
  if (Array.isArray(value)) return sha(value.map(hash).join());
  const text = JSON.stringify(value) ?? "undefined";
  let found = known.get(text);
  if (found === undefined) known.set(text, (found = sha(JSON.stringify(canonical(value)) ?? text)));
  return found;
}

// These hold on to a message that a mutation replaces (a difference with a test of its own).
const HOLDING = /Content|Args|End|Activity/;

function mutation(rule, count, callback, { messages, state }) {
  if (HOLDING.test(callback)) return rule % 2 ? { stopPropagation: count % 19 === 0 } : {};
  switch ((rule * 31 + count * 17) % 23) {
    case 0:
      return { messages: [...messages, { id: `x${count}`, role: "user", content: "x" }] };
    case 1:
      return { state: { count } };
    case 2:
      return { stopPropagation: true };
    case 3:
      return { messages: messages.slice(0, -1), stopPropagation: true };
    case 4:
      return { messages: messages.slice(1) };
    case 5:
      return {};
  }
}

class Recorder {
  constructor(number, seed, trace) {
    let count = 0;
    for (const callback of CALLBACKS) {
      this[callback] = (call) => {
        trace.push({
          by: number,
          callback,
          type: call.event?.type,
          buffer: call.textMessageBuffer ?? call.reasoningMessageBuffer ?? call.toolCallBuffer,
          name: call.toolCallName,
          args: call.toolCallArgs,
          outcome: call.outcome,
          result: call.result,
          pending: call.pendingToolCallIds,
          interrupts: call.interrupts?.map((interrupt) => interrupt.id),
          activity: call.activityMessage && hash(call.activityMessage),
          existing: call.existingMessage && hash(call.existingMessage),
          message: call.message && hash(call.message),
          toolCall: call.toolCall && hash(call.toolCall),
          messages: hash(call.messages),
          state: hash(call.state),
        });
        if (seed !== null && !NOTICES.includes(callback)) return mutation(seed, count++, callback, call);
      };
    }
  }
}

class Replay extends AbstractAgent {
  run() {
    return new Observable((observer) => {
      (async () => {
        for (const event of this.events) {
          observer.next(event);
          await turn();
          await turn();
        }
        observer.complete();
      })();
    });
  }
}

class AddsCustom extends Middleware {
  run(input, next) {
    return this.runNextWithState(input, next).pipe(
      concatMap(({ event, messages, state }) => {
        const changes = ["TEXT_MESSAGE_END", "TOOL_CALL_END", "STATE_DELTA"].includes(event.type);
        const value = { messages: messages.length, state };
        return from(changes ? [event, { type: "CUSTOM", name: "length", value }] : [event]);
      }),
    );
  }
}

class Expands extends Middleware {
  run(input, next) {
    return this.runNext(input, next);
  }
}

const shout = (event) =>
  event.type === "TEXT_MESSAGE_CONTENT" ? { ...event, delta: event.delta.toUpperCase() } : event;
const shouts = (input, next) => next.run(input).pipe(map(shout));

const STACKS = {
  three: () => [new AddsCustom(), new FilterToolCallsMiddleware({ disallowedToolCalls: ["f"] }), shouts],
  "filter outermost": () => [
    new FilterToolCallsMiddleware({ allowedToolCalls: ["g"] }),
    new Expands(),
    new AddsCustom(),
  ],
  functions: () => [shouts, shouts],
};

for await (const line of createInterface({ input: process.stdin })) {
  const job = JSON.parse(line);
  const agent = new Replay({
    threadId: job.threadId,
    initialMessages: job.messages ?? [],
    initialState: job.state ?? {},
  });
  agent.events = job.events;
  const trace = [];
  if (job.middleware !== undefined) {
    const events = [];
    agent.use(...STACKS[job.middleware]());
    agent.subscribe({ onEvent: ({ event }) => void events.push(structuredClone(event)) });
    const answer = { events, resolved: true };
    try {
      await agent.runAgent({ runId: "r" });
    } catch (error) {
      answer.resolved = false;
      answer.error = String(error.message ?? error);
    }
    const { messages, state } = agent;
    process.stdout.write(JSON.stringify({ ...answer, messages, state }) + "\n");
    continue;
  }
  const [last, ...others] = (job.subscribers ?? [null]).map((seed, number) => new Recorder(number, seed, trace));
  others.forEach((subscriber) => agent.subscribe(subscriber));
  const answer = { trace, resolved: true };
  try {
    const { result, newMessages } = await agent.runAgent({ runId: "r", resume: job.resume }, last);
    Object.assign(answer, { result, newMessages: hash(newMessages) });
  } catch (error) {
    answer.resolved = false;
    answer.error = String(error.message ?? error);
  }
  await turn();
  await turn();
  answer.messages = agent.messages;
  answer.state = agent.state;
  answer.interrupts = agent.pendingInterrupts.map((interrupt) => interrupt.id);
  process.stdout.write(JSON.stringify(answer) + "\n");
}
