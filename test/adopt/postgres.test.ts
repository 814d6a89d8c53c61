/** What is particular to databases of the official PostgresSaver. */

import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import { adopt } from "holdfast";
import { openCheckpointer, openSource } from "holdfast/checkpointers";
import { expect, inject, onTestFinished, test } from "vitest";
import { scratchDirectory } from "../backends/scratch.ts";
import { holdfast } from "../cli/terminal.ts";
import { at, branch, fill, plain } from "./graphs.ts";
import { adopted, listed, officialPostgres, target } from "./official.ts";

const valued = (checkpointer: BaseCheckpointSaver, value: () => unknown) =>
  new StateGraph(Annotation.Root({ value: Annotation<unknown> }))
    .addNode("give", () => ({ value: value() }))
    .addEdge(START, "give")
    .compile({ checkpointer });

test("branches that share one stored value are named, and taken over as the official saver reads them", async () => {
  const official = await officialPostgres();
  await branch(official.saver);
  await plain(official.saver).invoke({ log: [] }, at("straight"));
  const checkpointer = await target();
  const report = await adopted(official, checkpointer);
  const [branches, straight] = report.threads;
  expect(branches).toMatchObject({ thread: "branches", status: "adopted" });
  expect(branches?.notes.length).toBeGreaterThan(0);
  expect(branches?.notes[0]).toMatch(
    /share one stored value of channel .*PostgresSaver 1\.0\.5 keeps the first one only/,
  );
  expect(straight).toMatchObject({ thread: "straight", status: "adopted", notes: [] });
  const values = async (saver: BaseCheckpointSaver) =>
    (await listed(saver, "branches")).map(({ checkpoint }) => checkpoint.channel_values);
  expect(await values(checkpointer)).toEqual(await values(official.saver));
});

test("a value that the official saver could not serialize is named with its channel", async () => {
  const official = await officialPostgres();
  await valued(official.saver, () => 17n).invoke({ value: "fine" }, at("big"));
  const report = await adopted(official, await target());
  const [big] = report.threads;
  expect(big).toMatchObject({ thread: "big", status: "adopted" });
  expect(big?.notes).toContainEqual(expect.stringMatching(/channel "value" was stored as “unable to serialize”/));
});

test("what is put after the opening of the source comes with the next adoption", async () => {
  const official = await officialPostgres();
  await plain(official.saver).invoke({ log: [] }, at("one"));
  const source = await openSource(official.url, { schema: official.schema });
  onTestFinished(() => source.close());
  await plain(official.saver).invoke({ log: [] }, at("two"));
  const checkpointer = await target();
  expect((await adopt(source, checkpointer)).threads.map(({ thread }) => thread)).toEqual(["one"]);
  const next = await adopted(official, checkpointer);
  expect(next.threads.map(({ thread, status }) => [thread, status])).toEqual([
    ["one", "equal"],
    ["two", "adopted"],
  ]);
});

test("a schema without the official tables is refused by name", async () => {
  const url = `langgraph-postgres:${inject("postgresUrl")}`;
  await expect(openSource(url, { schema: "Nothing here" })).rejects.toMatchObject({
    code: "FOREIGN_DATABASE",
    message: expect.stringContaining('"Nothing here"'),
  });
});

test("a server that cannot be reached is an error with a code, and without the password", async () => {
  const url = "langgraph-postgres:postgres://me:hunter2@127.0.0.1:1/x";
  const { code, stderr } = await holdfast(["adopt", url, "--into", "memory:"]);
  expect(code).toBe(1);
  expect(stderr).toMatch(/^error CANNOT_OPEN /);
  expect(stderr).not.toContain("hunter2");
});

test("holdfast adopt takes the schema as an option, and prints neither user nor password", async () => {
  const official = await officialPostgres();
  await plain(official.saver).invoke({ log: [] }, at("one"));
  const into = `sqlite:${join(await scratchDirectory(), "holdfast.db")}`;
  const { code, stdout } = await holdfast([
    "adopt",
    official.url,
    "--into",
    into,
    "--schema",
    String(official.schema),
    "--json",
  ]);
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({
    complete: true,
    comparedWith: "PostgresSaver 1.0.5",
    totals: { threads: 1 },
  });
  expect(stdout).not.toContain("@127.0.0.1");
});

test("threads of every kind are taken over into a Postgres database of ours", async () => {
  const official = await officialPostgres();
  await fill(official.saver);
  const checkpointer = await openCheckpointer(inject("postgresUrl"), { schema: `adopted ${randomUUID()}` });
  onTestFinished(() => checkpointer.close());
  const report = await adopted(official, checkpointer);
  expect(report.threads.filter(({ status }) => status !== "adopted")).toEqual([]);
  expect(report.totals.waits).toBe(4);
  expect((await adopted(official, checkpointer)).threads.every(({ status }) => status === "equal")).toBe(true);
});
