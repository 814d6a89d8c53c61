import { describe, test } from "vitest";
import { sharedStoreNames, storeNames } from "../backends-table.ts";
import { realSubject } from "../checkpointer/subject.ts";
import { waitGuarantees } from "./guarantees.ts";

describe.each(storeNames)("%s", (name) => {
  for (const guarantee of waitGuarantees) {
    if (guarantee.needs === "shared" && !sharedStoreNames.includes(name)) continue;
    test(guarantee.name, async () => guarantee.check(await realSubject(name)));
  }
});
