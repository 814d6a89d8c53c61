/** Lists: appended to once per place, continued by branches that share a prefix and nothing else. */

import assert from "node:assert/strict";
import type { BackendCase } from "../backend-case.ts";
import * as rows from "../backend-rows.ts";

const { accept, base, items, itemsOf, refuse, valuesOf } = rows;

export const listCases: readonly BackendCase[] = [
  {
    name: "the first items of a list come in order, whatever order they were stored in",
    async run({ backend }) {
      await accept(backend, items("l", 3, [3, 4]), items("l", 10, [10]));
      await accept(backend, items("l", 0, [0, 1, 2]), items("l", 5, [5, 6, 7, 8, 9]));
      assert.deepEqual(await itemsOf(backend, "l", 11), ["l 0+3", "l 3+2", "l 5+5", "l 10+1"]);
      assert.deepEqual((await backend.items("t", "l", 11)).rows[1], {
        list: "l",
        start: 3,
        count: 2,
        body: "json/1 [3,4]",
      });
      assert.deepEqual(await valuesOf(backend, "l", 11), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    },
  },
  {
    name: "only rows that hold one of the first items come, each whole",
    async run({ backend }) {
      await accept(backend, items("l", 0, [0, 1, 2]), items("l", 3, [3, 4]), items("l", 5, [5]));
      assert.deepEqual(await itemsOf(backend, "l", 0), []);
      assert.deepEqual(await itemsOf(backend, "l", 1), ["l 0+3"]);
      assert.deepEqual(await itemsOf(backend, "l", 3), ["l 0+3"]);
      assert.deepEqual(await itemsOf(backend, "l", 4), ["l 0+3", "l 3+2"]);
      assert.deepEqual(await valuesOf(backend, "l", 4), [0, 1, 2, 3]);
    },
  },
  {
    name: "a list says whether it goes on after the items asked for",
    async run({ backend }) {
      const extended = async (list: string, length: number) => (await backend.items("t", list, length)).extended;
      await accept(backend, items("l", 0, [0, 1, 2]), items("l", 3, [3]));
      assert.deepEqual(
        [await extended("l", 0), await extended("l", 2), await extended("l", 3), await extended("l", 4)],
        [true, true, true, false],
      );
      await accept(backend, items("m", 2, ["x"], base("l", 2)));
      assert.deepEqual([await extended("m", 1), await extended("m", 2), await extended("m", 3)], [true, true, false]);
      assert.equal(await extended("l", 4), false, "a branch extends itself, not the list it continues");
      assert.equal(await extended("unknown", 0), false);
      assert.deepEqual(await itemsOf(backend, "unknown", 3), []);
    },
  },
  {
    name: "a place in a list is taken once: storing it again is refused with LIST_CONFLICT",
    async run({ backend }) {
      await accept(backend, items("l", 0, ["first"]));
      await refuse(backend, "LIST_CONFLICT", items("l", 1, ["more"]), items("l", 0, ["second"]));
      await refuse(backend, "LIST_CONFLICT", items("l", 0, ["first"]));
      assert.deepEqual(await valuesOf(backend, "l", 9), ["first"]);
      await accept(backend, items("l", 0, ["other thread"], { thread: "u" }), items("m", 0, ["other list"]));
    },
  },
  {
    name: "two branches that continue one list do not see each other's items",
    async run({ backend }) {
      await accept(backend, items("l", 0, [0, 1]), items("l", 2, [2]));
      await accept(backend, items("m", 3, ["m3"], base("l", 3)));
      await accept(backend, items("n", 3, ["n3", "n4"], base("l", 3)), items("l", 3, ["l3"]));
      await accept(backend, items("m", 4, ["m4"]));
      assert.deepEqual(await valuesOf(backend, "l", 9), [0, 1, 2, "l3"]);
      assert.deepEqual(await valuesOf(backend, "m", 9), [0, 1, 2, "m3", "m4"]);
      assert.deepEqual(await valuesOf(backend, "n", 9), [0, 1, 2, "n3", "n4"]);
      assert.deepEqual(await itemsOf(backend, "m", 9), ["l 0+2", "l 2+1", "m 3+1", "m 4+1"]);
    },
  },
  {
    name: "a base may be cut inside a row, and a branch may be read shorter than its base",
    async run({ backend }) {
      await accept(backend, items("l", 0, [0, 1, 2, 3, 4]), items("l", 5, [5]));
      await accept(backend, items("m", 2, ["m2", "m3"], base("l", 2)));
      await accept(backend, items("n", 3, ["n3"], base("m", 3)));
      assert.deepEqual(await valuesOf(backend, "m", 9), [0, 1, "m2", "m3"]);
      assert.deepEqual(await valuesOf(backend, "n", 9), [0, 1, "m2", "n3"]);
      assert.deepEqual(await itemsOf(backend, "n", 4), ["l 0+5", "m 2+2", "n 3+1"]);
      assert.deepEqual(await valuesOf(backend, "n", 1), [0]);
      assert.deepEqual(await itemsOf(backend, "n", 2), ["l 0+5"]);
      assert.deepEqual(await itemsOf(backend, "n", 3), ["l 0+5", "m 2+2"]);
    },
  },
  {
    name: "a base may end inside the base of its base",
    async run({ backend }) {
      await accept(backend, items("l", 0, [0, 1, 2, 3]));
      await accept(backend, items("m", 4, ["m4"], base("l", 4)));
      await accept(backend, items("n", 2, ["n2"], base("m", 2)));
      assert.deepEqual(await valuesOf(backend, "n", 9), [0, 1, "n2"]);
      assert.deepEqual(await itemsOf(backend, "n", 9), ["l 0+4", "n 2+1"]);
    },
  },
  {
    name: "a chain of fifty branches is read through to its beginning",
    async run({ backend }) {
      await accept(backend, items("0", 0, [0, "cut"]));
      for (let at = 1; at <= 50; at++) {
        await accept(backend, items(`${at}`, at, [at, "cut"], base(`${at - 1}`, at)));
      }
      const { rows: found, extended } = await backend.items("t", "50", 51);
      assert.deepEqual([found.length, extended], [51, true]);
      assert.deepEqual(
        await valuesOf(backend, "50", 51),
        Array.from({ length: 51 }, (_, at) => at),
      );
    },
  },
  {
    name: "two thousand rows of one list come in order",
    async run({ backend }) {
      await accept(backend, ...Array.from({ length: 2000 }, (_, at) => items("l", at * 2, [at, -at])));
      const found = await itemsOf(backend, "l", 4000);
      assert.equal(found.length, 2000);
      assert.ok(found.every((row, at) => row === `l ${at * 2}+2`));
    },
  },
];
