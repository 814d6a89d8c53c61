/** LangGraph's own suite for checkpoint savers, whole, and the proof that all of it ran. */

import { deltaChannelHistoryTests, validate } from "@langchain/langgraph-checkpoint-validation";
import type { Checkpointer } from "holdfast";
import { afterEach, describe, expect, test } from "vitest";

/** 718 cases of `validate` and 8 of `deltaChannelHistoryTests`. */
const CASES = 726;

export function publicSuite(name: string, createCheckpointer: () => Promise<Checkpointer>): void {
  let ran = 0;
  // The suite skips cases for some names; ours is none of them. A case that is skipped does not come here.
  const initializer = {
    checkpointerName: `holdfast ${name}`,
    createCheckpointer,
    destroyCheckpointer: (saver: Checkpointer) => saver.close(),
  };
  describe(`LangGraph's suite on ${name}`, () => {
    afterEach(() => {
      ran += 1;
    });
    validate(initializer);
    deltaChannelHistoryTests(initializer);
  });
  test(`all ${CASES} cases of LangGraph's suite ran on ${name}, none was skipped`, () => {
    expect(ran).toBe(CASES);
  });
}
