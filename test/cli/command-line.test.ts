import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { sqlite } from "holdfast/checkpointers/sqlite";
import { describe, expect, inject, test } from "vitest";
import { at, asking, plain } from "../adopt/graphs.ts";
import { officialSqlite } from "../adopt/official.ts";
import { scratchDirectory } from "../backends/scratch.ts";
import { manifest, root } from "../repository/source-tree.ts";
import { newSchema, query, quoted } from "../servers/schemas.ts";
import { holdfast } from "./terminal.ts";

async function official() {
  const { saver, url } = await officialSqlite();
  await plain(saver).invoke({ log: [] }, at("finished"));
  await asking(saver).invoke({ log: [] }, at("paused"));
  const into = `sqlite:${join(await scratchDirectory(), "holdfast.db")}`;
  return { saver, url, into };
}

describe("holdfast adopt", () => {
  test("prints a table of what was taken over on stdout, nothing on stderr, and exits with 0", async () => {
    const { url, into } = await official();
    const { code, stdout, stderr } = await holdfast(["adopt", url, "--into", into]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toMatch(/^thread +result +checkpoints +writes +waits +source +differences$/m);
    expect(stdout).toMatch(/^finished +adopted +5 +\d+ +0 +[\d.]+ kB +0$/m);
    expect(stdout).toMatch(/^paused +adopted +3 +\d+ +1 +[\d.]+ (?:k?B) +0$/m);
    expect(stdout).toMatch(/^2 threads +adopted +8 /m);
    expect(stdout).toContain("reads back from sqlite:");
    const again = await holdfast(["adopt", url, "--into", into]);
    expect(again.stdout).toMatch(/^finished +equal /m);
  });

  test("with --json prints the report as one JSON document", async () => {
    const { url, into } = await official();
    const { stdout } = await holdfast(["adopt", url, "--into", into, "--json"]);
    const report = JSON.parse(stdout) as { complete: boolean; totals: { threads: number }; threads: unknown[] };
    expect({ complete: report.complete, threads: report.threads.length }).toEqual({ complete: true, threads: 2 });
    expect(report.totals).toMatchObject({ threads: 2, checkpoints: 8, waits: 1, differences: 0 });
  });

  test("exits with 1 where a thread is refused, names it on stderr, and takes over the others", async () => {
    const { url, into } = await official();
    const target = await sqlite(into.slice("sqlite:".length));
    await plain(target).invoke({ log: ["mine"] }, at("finished"));
    await target.close();
    const { code, stdout, stderr } = await holdfast(["adopt", url, "--into", into]);
    expect({ code, stderr }).toEqual({ code: 1, stderr: 'thread "finished": refused\n' });
    expect(stdout).toMatch(/^paused +adopted /m);
  });

  test("writes into the schema of Postgres that --into-schema names", async () => {
    const { url } = await official();
    const [into, schema] = [inject("postgresUrl"), await newSchema()];
    const { code } = await holdfast(["adopt", url, "--into", into, "--into-schema", schema]);
    expect(code).toBe(0);
    const taken = await query(`select id from ${quoted(schema)}.holdfast_threads order by id`);
    expect(taken).toEqual([{ id: "finished" }, { id: "paused" }]);
  });

  test("shows progress where somebody watches", async () => {
    const { url, into } = await official();
    const { stderr } = await holdfast(["adopt", url, "--into", into], { isTTY: true });
    expect(stderr).toContain('thread 1 of 2, "finished": copying 1 of 5');
  });
});

describe("the command line", () => {
  test.each([
    ["no command", []],
    ["an unknown command", ["adopted"]],
    ["an unknown option", ["backup", "--url", "sqlite:a", "--to", "b", "--fast"]],
    ["a missing option", ["adopt", "langgraph-sqlite:a.db"]],
    ["an unknown source", ["adopt", "langgraph-sqllite:a.db", "--into", "memory:"]],
    ["an unknown target", ["backup", "--url", "sqllite:a", "--to", "b"]],
    ["a copy of what is gone with its process", ["backup", "--url", "memory:", "--to", "b"]],
    ["a schema for SQLite", ["adopt", "langgraph-sqlite:a.db", "--into", "memory:", "--schema", "x"]],
  ])("that is wrong ends with exit code 2 and prints nothing on stdout: %s", async (_what, args) => {
    const { code, stdout, stderr } = await holdfast(args);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).not.toBe("");
    expect(existsSync("b")).toBe(false);
  });

  test("prints an error as code, message and way out, without a stack, and exits with 1", async () => {
    const file = join(await scratchDirectory(), "absent.db");
    const { code, stderr } = await holdfast(["adopt", `langgraph-sqlite:${file}`, "--into", "memory:"]);
    expect(code).toBe(1);
    expect(stderr).toMatch(
      /^error CANNOT_OPEN .*absent\.db cannot be read: .*Name a file that LangGraph's SqliteSaver has made\.\n$/,
    );
    const json = await holdfast(["adopt", `langgraph-sqlite:${file}`, "--into", "memory:", "--json"]);
    expect(JSON.parse(json.stderr)).toMatchObject({ error: { code: "CANNOT_OPEN" } });
  });

  test("never prints the password of a URL", async () => {
    const { stderr } = await holdfast(["adopt", "langgraph-postgress:postgres://me:hunter2@db/x", "--into", "memory:"]);
    expect(stderr).not.toContain("hunter2");
  });

  test("uses colours in a terminal only, and not where NO_COLOR is set", async () => {
    const args = ["backup", "--url", "memory:", "--to", "b"];
    expect((await holdfast(args, { isTTY: true })).stderr).toContain("\u001b[31m");
    expect((await holdfast(args, { isTTY: true, env: { NO_COLOR: "1" } })).stderr).not.toContain("\u001b");
    expect((await holdfast(args)).stderr).not.toContain("\u001b");
  });

  test("is the program holdfast, with the version of the package", async () => {
    const program = join(root, manifest.bin["holdfast"] as string);
    const { stdout } = await promisify(execFile)(process.execPath, [program, "--version"]);
    expect(stdout).toBe(`${manifest.version}\n`);
    const { url, into } = await official();
    const run = await promisify(execFile)(process.execPath, [program, "adopt", url, "--into", into]);
    expect(run.stdout).toMatch(/^2 threads +adopted /m);
  });
});
