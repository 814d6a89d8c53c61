import { describe, test } from "vitest";
import { storeNames } from "../backends-table.ts";
import { realSubject } from "../checkpointer/subject.ts";
import { forkGuarantees } from "./guarantees.ts";

describe.each(storeNames)("%s", (store) => {
  test.each(forkGuarantees)("$name", async ({ check }) => check(await realSubject(store)));
});
