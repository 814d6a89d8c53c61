import { describe, test } from "vitest";
import { sharedStoreNames, storeNames } from "../backends-table.ts";
import { stateGuarantees } from "./guarantees.ts";
import { realSubject } from "./subject.ts";

describe.each(storeNames)("%s", (name) => {
  for (const guarantee of stateGuarantees) {
    if (guarantee.needs === "shared" && !sharedStoreNames.includes(name)) continue;
    test(guarantee.name, async () => guarantee.check(await realSubject(name)));
  }
});
