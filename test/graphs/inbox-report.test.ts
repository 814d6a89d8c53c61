import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run } from "holdfast";
import { memory } from "holdfast/checkpointers/memory";
import { firstSentence, type InboxState, inboxReport, type Summarise, writeFileAtomic } from "holdfast/graphs";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

let root: string;
let inbox: string;
let report: string;

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "holdfast-test-"));
  inbox = join(root, "inbox");
  report = join(root, "report.md");
  await writeFileAtomic(join(inbox, "a.txt"), "Ada writes. More of it.\n");
  await writeFileAtomic(join(inbox, "b.md"), "Bob writes! More of it.\n");
  await writeFileAtomic(join(inbox, "c.txt"), "Cora writes? More of it.\n");
});

afterEach(() => rm(root, { recursive: true, force: true }));

const config = { configurable: { thread_id: "t1" }, recursionLimit: 1000 };

/** Remembers what it was asked, and fails once for each file in `failing`. */
function model(...failing: string[]) {
  const asked: { file: string; key: string }[] = [];
  const summarise: Summarise = async (source, call) => {
    asked.push({ file: source.file, key: call.idempotencyKey });
    const fails = failing.indexOf(source.file);
    if (fails >= 0) {
      failing.splice(fails, 1);
      throw new Error("the model is overloaded");
    }
    return firstSentence(source, call);
  };
  return { asked, summarise };
}

describe("inbox-report", () => {
  test("reports on every text file, one superstep each, in the order of the plan", async () => {
    const app = inboxReport().compile({ checkpointer: memory() });
    const result = await run<typeof InboxState.State>(app, { inbox, report }, config);
    expect(result.status).toBe("finished");
    expect(result.values.files).toEqual(["a.txt", "b.md", "c.txt"]);
    expect(await readFile(report, "utf8")).toBe(
      "# Inbox report\n\n3 files\n\n## a.txt\n\nAda writes.\n\n## b.md\n\nBob writes!\n\n## c.txt\n\nCora writes?\n",
    );
    const lengths: number[] = [];
    for await (const state of app.getStateHistory(config)) lengths.push(state.values.steps?.length ?? 0);
    expect(lengths.reverse()).toEqual([0, 0, 0, 1, 2, 3, 3]);
  });

  test("files that appear after the plan was made do not shift the steps", async () => {
    const { asked, summarise } = model("b.md");
    const app = inboxReport({ summarise }).compile({ checkpointer: memory() });
    await expect(run(app, { inbox, report }, config)).rejects.toThrow("overloaded");
    await writeFile(join(inbox, "0-late.txt"), "Late news.\n");
    const result = await run<typeof InboxState.State>(app, null, config);
    expect(result.values.steps.map((step) => step.file)).toEqual(["a.txt", "b.md", "c.txt"]);
    expect(asked.map((one) => one.file)).toEqual(["a.txt", "b.md", "b.md", "c.txt"]);
  });

  test("every attempt at one file has the same key, and every file another one", async () => {
    const { asked, summarise } = model("b.md");
    const app = inboxReport({ summarise }).compile({ checkpointer: memory() });
    await expect(run(app, { inbox, report }, config)).rejects.toThrow("overloaded");
    await run(app, null, config);
    const [a, b1, b2, c] = asked.map((one) => one.key);
    expect(b1).toBe(b2);
    expect(new Set([a, b1, c]).size).toBe(3);
  });

  test("a file that is gone when its turn comes is reported as unreadable", async () => {
    const { summarise } = model("a.txt");
    const app = inboxReport({ summarise }).compile({ checkpointer: memory() });
    await expect(run(app, { inbox, report }, config)).rejects.toThrow("overloaded");
    await rm(join(inbox, "b.md"));
    const result = await run<typeof InboxState.State>(app, null, config);
    expect(result.values.steps.map((step) => step.status)).toEqual(["summarised", "unreadable", "summarised"]);
  });

  test("started again after its end, it does nothing and says so", async () => {
    const { asked, summarise } = model();
    const app = inboxReport({ summarise }).compile({ checkpointer: memory() });
    await run(app, { inbox, report }, config);
    await rm(report);
    expect((await run(app, null, config)).status).toBe("already_done");
    expect(asked.length).toBe(3);
    expect(await readdir(root)).toEqual(["inbox"]);
  });

  test("an empty inbox gives a report that says so, and the report in the inbox is not read", async () => {
    const inside = join(root, "empty", "report.md");
    await writeFileAtomic(inside, "an old report");
    const app = inboxReport().compile({ checkpointer: memory() });
    await run(app, { inbox: join(root, "empty"), report: inside }, config);
    expect(await readFile(inside, "utf8")).toBe("# Inbox report\n\n0 files\n");
  });
});

describe("writeFileAtomic", () => {
  test("a reader sees the old content or the new one, never a part", async () => {
    const path = join(root, "big.txt");
    const contents = ["a".repeat(1 << 20), "b".repeat(1 << 20)] as const;
    await writeFileAtomic(path, contents[0]);
    let writing = true;
    const writer = (async () => {
      for (let round = 1; round <= 20; round += 1) await writeFileAtomic(path, contents[round % 2] as string);
      writing = false;
    })();
    while (writing) expect((contents as readonly string[]).includes(await readFile(path, "utf8"))).toBe(true);
    await writer;
  });

  test("what a killed attempt left behind is overwritten, and nothing is left in the end", async () => {
    await writeFile(join(root, ".out.txt.tmp"), "half of someth");
    expect(await writeFileAtomic(join(root, "out.txt"), "ö")).toMatchObject({ bytes: 2 });
    expect((await readdir(root)).sort()).toEqual(["inbox", "out.txt"]);
  });
});

test("a summary is the first sentence, shortened at 120 characters", () => {
  const call = { idempotencyKey: "k", signal: AbortSignal.timeout(1000) };
  const of = (text: string) => firstSentence({ file: "f", text }, call);
  expect(of("  One. Two.")).toBe("One.");
  expect(of("A title\nand more")).toBe("A title");
  expect(of("")).toBe("");
  expect(of("x".repeat(200))).toBe(`${"x".repeat(119)}…`);
});
