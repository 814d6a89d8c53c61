/** Kills the counting program and looks at what is left; the tests of one backend's row of the README's table. */

import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { run } from "holdfast";
import { describe, expect, test } from "vitest";
import { config, counting, type Durability, FINISHED, input, STEPS, stores } from "./program.ts";

const program = fileURLToPath(new URL("../../dist/bundled/test/loss/program.js", import.meta.url));
/** Commits that async durability may hold back; a superstep of one task has one or two. */
const HELD_BACK_MAX = 32;

/** Kills the program in superstep 151. */
export function kill(store: string, durability: Durability, turns: boolean, path: string): void {
  const args = [program, store, durability, turns ? "turns" : "none", path];
  const child = spawnSync(process.execPath, args, { encoding: "utf8", cwd: dirname(path) });
  expect([child.signal, child.stderr]).toEqual(["SIGKILL", ""]);
}

/** What is stored after the kill; then goes on to the end. */
async function stored(store: string, durability: Durability, turns = true): Promise<number | undefined> {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-loss-"));
  try {
    const path = join(directory, "state");
    kill(store, durability, turns, path);
    const checkpointer = await (stores[store] as (path: string) => ReturnType<(typeof stores)[string]>)(path);
    const app = counting(checkpointer, false, false);
    const { values } = await app.getState(config(durability));
    const result = await run(app, input, config(durability));
    expect([result.status, result.values["n"]]).toEqual(["finished", STEPS]);
    await checkpointer.close();
    return values.n;
  } finally {
    rmSync(directory, { recursive: true });
  }
}

/** One test for each cell of a row. */
export function testRow(store: string): void {
  describe(store, () => {
    test("sync durability: a kill takes no finished step", async () => {
      expect(await stored(store, "sync")).toBe(FINISHED);
    });

    test.each([
      ["nodes that wait for something", true],
      ["nodes that never give the event loop a turn", false],
    ])(
      `async durability, %s: a kill takes at most the steps of the last ${HELD_BACK_MAX} commits`,
      async (_nodes, turns) => {
        const n = (await stored(store, "async", turns)) as number;
        expect(n).toBeLessThanOrEqual(FINISHED);
        expect(n).toBeGreaterThanOrEqual(FINISHED - HELD_BACK_MAX);
      },
    );

    test("exit durability: a kill takes the whole run", async () => {
      expect(await stored(store, "exit")).toBeUndefined();
    });
  });
}
