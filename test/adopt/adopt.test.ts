import { join } from "node:path";
import { Command } from "@langchain/langgraph";
import { adopt, type AdoptReport, type Checkpointer } from "holdfast";
import { openCheckpointer, openSource } from "holdfast/checkpointers";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { scratchDirectory } from "../backends/scratch.ts";
import { asking, at, fanOut, fill, nested, plain, talk } from "./graphs.ts";
import { listed, type Official, officialSqlite } from "./official.ts";

async function target(): Promise<Checkpointer> {
  const checkpointer = await openCheckpointer(`sqlite:${join(await scratchDirectory(), "holdfast.db")}`);
  onTestFinished(() => checkpointer.close());
  return checkpointer;
}

async function adopted(url: string, checkpointer: Checkpointer): Promise<AdoptReport> {
  const source = await openSource(url);
  try {
    return await adopt(source, checkpointer);
  } finally {
    await source.close();
  }
}

const officials: readonly (readonly [string, () => Promise<Official>])[] = [["SqliteSaver", officialSqlite]];

describe.each(officials)("threads of the official %s", (_name, open) => {
  test("are taken over with every checkpoint, write and parent, in all namespaces", async () => {
    const { saver, url } = await open();
    await fill(saver);
    const checkpointer = await target();
    const report = await adopted(url, checkpointer);
    expect(report.threads.filter(({ status }) => status !== "adopted")).toEqual([]);
    expect(report.complete).toBe(true);
    for (const { thread } of report.threads) {
      const config = { configurable: { thread_id: thread } };
      const [expected, found] = [await listed(saver, thread), await listed(checkpointer, thread)];
      expect(found.map(({ checkpoint }) => checkpoint)).toEqual(expected.map(({ checkpoint }) => checkpoint));
      expect(found.map(({ metadata }) => metadata)).toEqual(expected.map(({ metadata }) => metadata));
      expect(found.map(({ parentConfig }) => parentConfig)).toEqual(expected.map(({ parentConfig }) => parentConfig));
      const heads = await Promise.all([saver.getTuple(config), checkpointer.getTuple(config)]);
      expect(heads[1]?.checkpoint.id).toBe(heads[0]?.checkpoint.id);
    }
  });
});
