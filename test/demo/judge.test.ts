import { describe, expect, test } from "vitest";
import { judge, type Traces } from "../../examples/demo/judge.ts";
import { killsDefault, readOptions } from "../../examples/demo/options.ts";
import { samePlaces, spread } from "../../examples/demo/points.ts";
import type { LedgerEntry } from "../../examples/world/shop.ts";

const entry = (
  endpoint: LedgerEntry["endpoint"],
  executed: number,
  keys: Record<string, number> = {},
): LedgerEntry => ({
  endpoint,
  subject: "order-1",
  calls: executed,
  executed,
  undone: 0,
  keys,
});
const unbroken: Traces = {
  ledger: [entry("charge", 1), entry("mail", 1)],
  files: { "receipt.json": "{}" },
  values: { mail: "m1" },
};

describe("the judge", () => {
  test("finds nothing in a run that is like the unbroken one", () => {
    expect(judge(structuredClone(unbroken), unbroken)).toEqual({
      executed: 3,
      repeated: 0,
      lost: 0,
      differs: [],
      complaints: [],
    });
  });

  test("counts a second charge of an order as repeated, although each key was used once", () => {
    const verdict = judge({ ...unbroken, ledger: [entry("charge", 2, { k1: 1, k2: 1 }), entry("mail", 1)] }, unbroken);
    expect(verdict).toMatchObject({ executed: 4, repeated: 1, lost: 0 });
    expect(verdict.complaints).toEqual(["charge of order-1 was done 2 times instead of 1"]);
  });

  test("counts work that the unbroken run knows nothing of as repeated", () => {
    expect(judge({ ...unbroken, ledger: [...unbroken.ledger, entry("reserve", 1)] }, unbroken)).toMatchObject({
      repeated: 1,
    });
  });

  test("counts work and files that are missing as lost, each by itself", () => {
    expect(judge({ ...unbroken, ledger: [entry("charge", 2)], files: {} }, unbroken)).toMatchObject({
      repeated: 1,
      lost: 2,
    });
  });

  test("names another state and another file", () => {
    const verdict = judge({ ...unbroken, files: { "receipt.json": "{" }, values: undefined }, unbroken);
    expect(verdict.differs).toEqual(["receipt.json", "state"]);
  });
});

test("points are spread evenly, first and last among them, none twice", () => {
  const ten = Array.from({ length: 10 }, (_, index) => index);
  expect(spread(ten, 4)).toEqual([0, 3, 6, 9]);
  expect(spread(ten, 1)).toEqual([0]);
  expect(spread(ten, 9)).toHaveLength(9);
  expect(new Set(spread(ten, 9)).size).toBe(9);
  expect(spread(ten, 99)).toEqual(ten);
  expect(spread(ten, 0)).toEqual([]);
});

test("another program is killed at the same effects, and as often while it stores something", () => {
  const chosen = ["commit:1:before", "effect:mail:1:inside", "commit:2:inside", "commit:3:after"];
  const reachable = [
    "commit:1:before",
    "commit:1:after",
    "effect:mail:1:before",
    "effect:mail:1:inside",
    "commit:2:before",
    "commit:2:after",
  ];
  expect(samePlaces(chosen, reachable)).toEqual([
    "commit:1:before",
    "effect:mail:1:inside",
    "commit:2:before",
    "commit:2:after",
  ]);
  expect(samePlaces(["effect:mail:1:inside"], reachable)).toEqual(["effect:mail:1:inside"]);
});

describe("the demo's options", () => {
  test("have defaults", () => {
    const expected = { backend: "sqlite", kills: killsDefault, inbox: undefined, json: false, keep: false };
    expect(readOptions([])).toEqual(expected);
    expect(readOptions(["--help"])).toBe("help");
  });

  test.each([
    [["--backend", "memory"], "the memory of a process is gone when it is killed"],
    [["--backend", "postgres"], 'is "postgres"; it is sqlite or jsonl'],
    [["--kills", "0"], 'is "0"; it is a whole number from 1'],
    [["--kills", "many"], 'is "many"'],
    [["--fast"], "--fast"],
    [["stray"], "stray"],
  ])("%j is refused, and told why", (args, why) => {
    expect(readOptions(args)).toEqual({ refused: expect.stringContaining(why) });
  });
});
