/** Writes: first-writer-wins, special writes that replace, and the refusal of another run's different result. */

import assert from "node:assert/strict";
import type { BackendCase } from "../backend-case.ts";
import * as rows from "../backend-rows.ts";

const { accept, checkpoint, refuse, writes, writesOf } = rows;

export const writeCases: readonly BackendCase[] = [
  {
    name: "writes are read back as they were stored, also those that came before their checkpoint",
    async run({ backend }) {
      const op = writes([[0, "c", { a: ["\u0000", '"', "😀"] }]], { path: "~__pull, x", run: undefined });
      await accept(backend, op);
      assert.deepEqual((await backend.load("t", "", "1")).writes.length, 0, "no checkpoint, no writes");
      await accept(backend, checkpoint("1"));
      const { task, path, body, run } = op;
      assert.deepEqual((await backend.load("t", "", "1")).writes, [
        { checkpoint: "1", task, path, slot: 0, run, body },
      ]);
    },
  },
  {
    name: "what a task has written stays: equal calls again store nothing, further indexes are added",
    async run({ backend }) {
      await accept(backend, checkpoint("1"));
      const call = writes([
        [0, "c", 1],
        [1, "d", 2],
      ]);
      await accept(backend, call);
      await accept(backend, call);
      await accept(backend, writes([[1, "d", "later"]]));
      await accept(
        backend,
        writes([
          [1, "d", 2],
          [2, "e", 3],
        ]),
      );
      assert.deepEqual(await writesOf(backend), [
        'a 0 run 1 json/1 [[0,"c",1],[1,"d",2]]',
        'a 1 run 1 json/1 [[2,"e",3]]',
      ]);
    },
  },
  {
    name: "a special write replaces the one in its slot and leaves the other slots alone",
    async run({ backend }) {
      await accept(backend, checkpoint("1"), writes([[0, "c", 1]]));
      await accept(backend, writes([[-1, "__error__", "first"]], { slot: -1 }));
      await accept(backend, writes([[-3, "__interrupt__", "asked"]], { slot: -3 }));
      await accept(backend, writes([[-1, "__error__", "second"]], { slot: -1, run: "run 2" }));
      assert.deepEqual(await writesOf(backend), [
        'a -1 run 2 json/1 [[-1,"__error__","second"]]',
        'a -3 run 1 json/1 [[-3,"__interrupt__","asked"]]',
        'a 0 run 1 json/1 [[0,"c",1]]',
      ]);
    },
  },
  {
    name: "a special write may be replaced inside one commit",
    async run({ backend }) {
      await accept(
        backend,
        checkpoint("1"),
        writes([[-1, "__error__", 1]], { slot: -1 }),
        writes([[-1, "__error__", 2]], { slot: -1 }),
      );
      assert.deepEqual(await writesOf(backend), ['a -1 run 1 json/1 [[-1,"__error__",2]]']);
    },
  },
  {
    name: "a call that mixes regular and special writes is first-writer-wins as a whole",
    async run({ backend }) {
      await accept(backend, checkpoint("1"));
      await accept(
        backend,
        writes([
          [0, "c", 1],
          [-3, "__interrupt__", "first"],
        ]),
      );
      await accept(
        backend,
        writes([
          [1, "d", 2],
          [-3, "__interrupt__", "second"],
        ]),
      );
      assert.deepEqual(await writesOf(backend), [
        'a 0 run 1 json/1 [[0,"c",1],[-3,"__interrupt__","first"]]',
        'a 1 run 1 json/1 [[1,"d",2]]',
      ]);
    },
  },
  {
    name: "another run's different result of a task is refused with WRITE_CONFLICT and leaves nothing",
    async run({ backend }) {
      await accept(backend, checkpoint("1"), writes([[0, "c", 1]]));
      const other = writes(
        [
          [0, "c", 2],
          [1, "d", 3],
        ],
        { run: "run 2" },
      );
      await refuse(backend, "WRITE_CONFLICT", checkpoint("2", { parent: "1" }), other);
      await refuse(backend, "WRITE_CONFLICT", writes([[0, "other channel", 1]], { run: "run 2" }));
      assert.deepEqual(await writesOf(backend), ['a 0 run 1 json/1 [[0,"c",1]]']);
      assert.equal(await rows.headOf(backend), "1");
    },
  },
  {
    name: "another run's equal result is no conflict, nor is a result of another task, checkpoint, namespace or thread",
    async run({ backend }) {
      await accept(backend, checkpoint("1"), writes([[0, "c", 1]]));
      await accept(backend, writes([[0, "c", 1]], { run: "run 2" }));
      const different = (fields: Parameters<typeof writes>[1]) => writes([[0, "c", 2]], { run: "run 2", ...fields });
      await accept(backend, different({ task: "b" }));
      await accept(backend, different({ checkpoint: "2" }));
      await accept(backend, different({ ns: "sub" }));
      await accept(backend, different({ thread: "u" }));
      assert.deepEqual(await writesOf(backend), ['a 0 run 1 json/1 [[0,"c",1]]', 'b 0 run 2 json/1 [[0,"c",2]]']);
    },
  },
  {
    name: "a write outside a run never conflicts, and neither does a result after a recorded error",
    async run({ backend }) {
      await accept(backend, checkpoint("1"), writes([[0, "c", 1]]));
      await accept(backend, writes([[0, "c", 2]], { run: undefined }));
      await accept(backend, writes([[-1, "__error__", "thrown"]], { slot: -1 }));
      await accept(backend, writes([[0, "c", 3]], { run: "run 2" }));
      assert.deepEqual(await writesOf(backend), [
        'a -1 run 1 json/1 [[-1,"__error__","thrown"]]',
        'a 0 run 1 json/1 [[0,"c",1]]',
      ]);
    },
  },
];
