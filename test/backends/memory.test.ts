import { describeBackend, type OpenedBackend } from "holdfast/testing";
import { expect, test } from "vitest";
import { memoryBackend } from "../../checkpointers/memory/backend.ts";
import { weightOf } from "../../checkpointers/memory/change.ts";
import { MemoryState } from "../../checkpointers/memory/state.ts";
import {
  blob,
  decision,
  decisionRow,
  deleteThread,
  effect,
  effectRow,
  endWait,
  move,
  run,
  runRow,
  wait,
  waitRow,
} from "../../src/testing/backend-rows.ts";

async function open(): Promise<OpenedBackend> {
  const state = new MemoryState();
  const backend = memoryBackend({ state });
  return { backend, second: async () => memoryBackend({ state }), destroy: () => backend.close() };
}

await describeBackend("memoryBackend()", open);

test("two memory backends share nothing unless they are given the same state", async () => {
  const [one, other] = [memoryBackend(), memoryBackend()];
  await one.commit([[{ kind: "blob", thread: "t", era: 0, hash: "h", data: "data" }]]);
  expect((await other.blobs("t", ["h"])).size).toBe(0);
});

test("rows that are read are frozen, so no reader can change what another one reads", async () => {
  const backend = memoryBackend();
  const place = { thread: "t", era: 0, ns: "" };
  await backend.commit([
    [
      {
        kind: "checkpoint",
        ...place,
        id: "1",
        parent: undefined,
        source: "input",
        body: "json/1 {}",
        heads: undefined,
      },
      {
        kind: "writes",
        ...place,
        checkpoint: "1",
        task: "a",
        path: "",
        slot: undefined,
        run: "r",
        body: 'json/1 [[0,"c",1]]',
      },
      { kind: "items", ...place, list: "l", start: 0, count: 1, body: "json/1 [1]", base: undefined },
      wait(waitRow("open"), null),
      wait(waitRow("ended"), null),
      endWait("ended"),
      decision(decisionRow(1)),
      run(runRow("r"), null),
      move(runRow("r"), "running"),
    ],
  ]);
  const { checkpoint, writes, waits } = await backend.load("t", "", undefined);
  const [ended] = await backend.waits({ id: "ended" });
  const { rows } = await backend.items("t", "l", 1);
  const runs = await backend.runs({});
  expect(runs).toHaveLength(1);
  for (const row of [checkpoint, ...writes, ...rows, ...waits, ended, ...runs, await backend.decision("t", 1)])
    expect(Object.isFrozen(row)).toBe(true);
});

test("a state weighs what its rows weigh, whatever was replaced, ended and deleted", async () => {
  const state = new MemoryState();
  const backend = memoryBackend({ state });
  const of = (thread: string) => [
    wait(waitRow(`open ${thread}`, { thread }), null),
    wait(waitRow(`answered ${thread}`, { thread }), null),
    wait(waitRow(`answered ${thread}`, { thread, status: "answered", rev: 1, body: "json/1 1" }), 0),
    endWait(`answered ${thread}`, { thread }),
    decision(decisionRow(1, { thread })),
    run(runRow(`run ${thread}`, { thread, key: `key of ${thread}` }), null),
    move(runRow(`run ${thread}`, { thread, key: `key of ${thread}` }), "running", { body: "json/1 2" }),
    effect(effectRow(`own ${thread}`, { thread }), null),
    effect(effectRow(`given ${thread}`, { thread, ordinal: -1 }), null),
    blob("h", "data", { thread }),
  ];
  const check = () => {
    const weights = [...state.changes()].map(weightOf);
    expect(state.weight).toBe(weights.reduce((sum, weight) => sum + weight, 0));
  };
  for (const thread of ["t", "u"]) {
    expect(await backend.commit([of(thread)])).toEqual([undefined]);
    check();
  }
  await backend.commit([[deleteThread("t")]]);
  check();
});

test("what memory promises is stated: one process, no durability, no transactions", () => {
  expect(memoryBackend().capabilities).toEqual({
    processes: "one",
    durability: "none",
    ephemeral: true,
    transactions: false,
  });
});
