/** A fork is one commit: whatever fails, it is there whole or not at all. */

import { ask, Checkpointer, effect, isHoldfastError, timeTravel } from "holdfast";
import { memoryBackend } from "holdfast/checkpointers/memory";
import { faultSweep } from "holdfast/testing";
import { expect, test } from "vitest";
import { z } from "zod";
import { chain } from "../checkpointer/guarantees.ts";
import { at } from "../checkpointer/subject.ts";
import { before, entriesOf } from "./travel.ts";

/** A thread that has charged, and waits for an answer. */
function shop(saver: Checkpointer) {
  const charge = effect("charge", { input: z.number(), run: (cents) => `receipt of ${cents}` });
  return chain(saver, {
    charge: async ({ n }) => ({ log: [await charge(n), "large ".repeat(300)] }),
    q: async () => ({ log: [String((await ask("Ship?")).decision)] }),
  });
}

async function scenario(to: string | undefined) {
  const backend = memoryBackend();
  await shop(new Checkpointer(backend)).invoke({ n: 1 }, at("t"));
  return {
    backend,
    run: async (faulty: typeof backend) => {
      const travel = timeTravel(shop(new Checkpointer(faulty)));
      const values = { log: ["edited ".repeat(300)] };
      await travel.fork("t", await before(travel, "charge"), { values, ...(to === undefined ? {} : { to }) });
    },
    recover: async () => {
      const saver = new Checkpointer(backend);
      const travel = timeTravel(shop(saver));
      const [old, made] = [await entriesOf(travel), await entriesOf(travel, to ?? "t", { values: true })];
      const [wait] = await saver.waits({ thread: "t" });
      const forked = to === undefined ? made[0]?.fork !== undefined : made.length > 0;
      return {
        forked,
        open: wait?.status === "open",
        head: old[0]?.head === true,
        carried: made[0]?.carried.length ?? 0,
        values: forked ? ((made[0]?.values ?? { log: [] }) as { log: string[] }).log.length : 1,
        broken: (await saver.verifyDecisions()).broken,
      };
    },
  };
}

test.each([undefined, "u"])(
  "a fork whose commit fails is there whole or not at all, and says so (to: %s)",
  async (to) => {
    const outcomes = new Set<boolean>();
    await faultSweep({
      scenario: () => scenario(to),
      print: () => {},
      check: ({ error, result }) => {
        outcomes.add(result.forked);
        if (error === undefined) expect(result.forked).toBe(true);
        else expect(isHoldfastError(error), String(error)).toBe(true);
        // In place the old question is closed with the fork; a new thread takes the effect along and leaves the question.
        const expected =
          to === undefined ? { open: !result.forked, carried: 0 } : { open: true, carried: result.forked ? 1 : 0 };
        expect(result).toMatchObject({ ...expected, head: true, values: 1, broken: [] });
      },
    });
    expect(outcomes).toEqual(new Set([true, false]));
  },
);
