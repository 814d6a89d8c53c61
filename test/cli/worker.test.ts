/** `holdfast worker` as a real process: what it executes, how it ends, and what it says where it cannot begin. */

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { sqlite } from "holdfast/checkpointers/sqlite";
import { createRuntime } from "holdfast/runs";
import { describe, expect, onTestFinished, test } from "vitest";
import { probeApp } from "../../src/cli/probes.ts";
import { compiled, scratchDirectory } from "../backends/scratch.ts";
import { root } from "../repository/source-tree.ts";
import { type Program, start } from "./process.ts";
import { holdfast } from "./terminal.ts";

const GRAPHS = compiled("test/cli/programs/graphs.ts");

/** A store that this process starts runs in, and its URL for others. */
async function store() {
  const file = join(await scratchDirectory(), "runs.db");
  const checkpointer = await sqlite(file, { synchronous: "OFF" });
  onTestFinished(() => checkpointer.close());
  const runtime = createRuntime({ checkpointer, graphs: {} });
  const begin = async (what: string) => (await runtime.start("steps", { log: [what] }, { threadId: "t" })).run.id;
  const log = async () => {
    const tuple = await checkpointer.getTuple({ configurable: { thread_id: "t" } });
    return tuple?.checkpoint.channel_values["log"];
  };
  return { url: `sqlite:${file}`, runtime, begin, log };
}

function worker(url: string, ...args: readonly string[]): Program {
  return start(["worker", "--url", url, "--graphs", GRAPHS, "--json", ...args]);
}

describe("holdfast worker", () => {
  test("executes a run that another process has started, says so, and ends with 0 at SIGTERM", async () => {
    const { url, begin, log } = await store();
    const id = await begin("go");
    const program = worker(url, "--concurrency", "2");
    expect(await program.line({ event: "ready" })).toMatchObject({ graphs: ["steps", "asks"], store: url });
    expect(await program.line({ event: "run" })).toMatchObject({
      id,
      status: "succeeded",
      thread: "t",
      graph: "steps",
    });
    expect(await log()).toEqual(["go", "first", "second"]);
    program.signal("SIGTERM");
    expect(await program.line({ event: "ended" })).toMatchObject({ claimed: 1, takenOver: 0, lost: 0 });
    expect(await program.ended).toEqual({ code: 0, stderr: "" });
  });

  test("a run that fails has a line with its error", async () => {
    const { url, begin } = await store();
    const id = await begin("throw");
    const program = worker(url);
    expect(await program.line({ event: "run" })).toMatchObject({
      id,
      status: "failed",
      error: { name: "TypeError", message: "no such card" },
    });
  });

  test("SIGTERM ends the superstep and hands the run back; the next worker goes on behind it", async () => {
    const { url, begin, log, runtime } = await store();
    const id = await begin("hold");
    const first = worker(url, "--probe-port", "0");
    const { probePort } = await first.line({ event: "ready" });
    const status = async (path: string) => (await fetch(`http://127.0.0.1:${probePort}/${path}`)).status;
    await first.line({ event: "node", node: "first" });
    for (let ready = 0; ready !== 200; ready = await status("readyz"));
    first.signal("SIGTERM");
    await first.line({ event: "draining", running: 1 });
    expect([await status("livez"), await status("readyz")]).toEqual([200, 503]);
    first.signal("SIGUSR2");
    expect(await first.line({ event: "run" })).toMatchObject({ id, status: "queued" });
    expect(await first.ended).toEqual({ code: 0, stderr: "" });
    expect(await log()).toEqual(["hold", "first"]);
    const second = worker(url);
    expect(await second.line({ event: "node" })).toMatchObject({ node: "second" });
    expect(await second.line({ event: "run" })).toMatchObject({ id, status: "succeeded", epoch: 2 });
    expect(await log()).toEqual(["hold", "first", "second"]);
    expect((await runtime.get(id)).failures).toBe(0);
  });

  test("a second signal aborts a node that never ends; its run is handed back, and the exit code is 0", async () => {
    const { url, begin, log, runtime } = await store();
    const id = await begin("stuck");
    const program = worker(url);
    await program.line({ event: "node" });
    program.signal("SIGINT");
    await program.line({ event: "draining" });
    program.signal("SIGTERM");
    expect(await program.line({ event: "run" })).toMatchObject({ id, status: "queued" });
    expect(await program.ended).toEqual({ code: 0, stderr: "" });
    expect(await runtime.get(id)).toMatchObject({ status: "queued", worker: undefined, failures: 0, deaths: 0 });
    expect(await log()).toEqual(["stuck"]);
  });

  test("the run of a worker that was killed is taken over by the next one", async () => {
    const { url, begin } = await store();
    const id = await begin("hold");
    const killed = worker(url);
    await killed.line({ event: "node" });
    killed.signal("SIGKILL");
    await killed.ended;
    const next = worker(url);
    await next.line({ event: "node", node: "first" });
    next.signal("SIGUSR2");
    expect(await next.line({ event: "run" })).toMatchObject({ id, status: "succeeded", epoch: 2 });
    next.signal("SIGTERM");
    expect(await next.line({ event: "ended" })).toMatchObject({ claimed: 1, takenOver: 1 });
  });
});

describe("the module with the graphs", () => {
  /** A module inside the package, so that its own name leads to its built files. */
  function written(name: string, source: string): string {
    const directory = mkdtempSync(join(root, "dist", "graphs-"));
    onTestFinished(() => rmSync(directory, { recursive: true }));
    const file = join(directory, name);
    writeFileSync(file, source);
    return file;
  }

  const SOURCE = `
    import { Annotation, START, StateGraph } from "@langchain/langgraph";
    import type { Checkpointer } from "holdfast";
    enum Name { Only = "only" }
    export default async (checkpointer: Checkpointer) => ({
      [Name.Only]: new StateGraph(Annotation.Root({})).addNode("a", () => ({})).addEdge(START, "a").compile({ checkpointer }),
    });`;

  test("is TypeScript, with an async function as its default export", async () => {
    const { url } = await store();
    const program = start(["worker", "--url", url, "--graphs", written("graphs.ts", SOURCE), "--json"]);
    expect(await program.line({ event: "ready" })).toMatchObject({ graphs: ["only"] });
    program.signal("SIGTERM");
    expect(await program.ended).toEqual({ code: 0, stderr: "" });
  });

  test("is CommonJS", async () => {
    const { url } = await store();
    const source = `
      const { Annotation, START, StateGraph } = require("@langchain/langgraph");
      const graph = new StateGraph(Annotation.Root({})).addNode("a", () => ({})).addEdge(START, "a");
      module.exports = { graphs: (checkpointer) => ({ only: graph.compile({ checkpointer }) }) };`;
    const program = start(["worker", "--url", url, "--graphs", written("graphs.cjs", source), "--json"]);
    expect(await program.line({ event: "ready" })).toMatchObject({ graphs: ["only"] });
  });

  test("in TypeScript without tsx, on a Node that strips no types, is refused with what to install", async () => {
    const hook = `export const resolve = (name, context, next) => {
      if (name === "tsx/esm/api") throw Object.assign(new Error("no tsx"), { code: "ERR_MODULE_NOT_FOUND" });
      return next(name, context);
    };`;
    const url = (source: string) => `data:text/javascript,${encodeURIComponent(source)}`;
    const preload = `import { register } from "node:module";
      Object.defineProperty(process.features, "typescript", { value: false });
      register(${JSON.stringify(url(hook))});`;
    const args = ["worker", "--url", (await store()).url, "--graphs", written("graphs.ts", SOURCE)];
    const { code, stderr } = await start(args, ["--import", url(preload)]).ended;
    expect({ code, stderr }).toMatchObject({ code: 1, stderr: expect.stringContaining("npm install tsx") });
    expect(stderr).toMatch(/^error DRIVER_MISSING /);
  });

  test.each([
    ["exports nothing of the kind", "export const graph = 1;", /exports no function `graphs`/],
    ["makes no graphs", "export const graphs = () => ({});", /has made no graphs/],
    ["makes what is no graph", "export const graphs = () => ({ a: 1 });", /graph "a" is no compiled graph/],
    ["throws", 'throw new RangeError("no key");', /RangeError: no key\n +at .*graphs\.js/],
    ["cannot be parsed", "export const graphs = (", /SyntaxError/],
  ])("that %s is refused with exit code 2", async (_what, source, message) => {
    const { url } = await store();
    const { code, stderr } = await start(["worker", "--url", url, "--graphs", written("graphs.js", source)]).ended;
    expect(code).toBe(2);
    expect(stderr).toMatch(message);
  });

  test("that is not there, and a URL or number that is wrong, are refused with exit code 2", async () => {
    const { url } = await store();
    const wrong = [
      ["--url", url, "--graphs", "absent.js"],
      ["--url", "sqllite:a.db", "--graphs", GRAPHS],
      ["--url", "memory:", "--graphs", GRAPHS],
      ["--url", url, "--graphs", GRAPHS, "--schema", "x"],
      ["--url", url, "--graphs", GRAPHS, "--concurrency", "0"],
      ["--url", url, "--graphs", GRAPHS, "--probe-port", "70000"],
      ["--url", url],
    ];
    for (const args of wrong) {
      const { code, stdout, stderr } = await holdfast(["worker", ...args]);
      expect({ args, code, stdout }).toEqual({ args, code: 2, stdout: "" });
      expect(stderr).not.toBe("");
    }
  });
});

describe("probes", () => {
  test("tell that the process answers, and whether it claims", async () => {
    let ready = false;
    const app = probeApp(() => ready);
    const statuses = async () => [(await app.request("/livez")).status, (await app.request("/readyz")).status];
    expect(await statuses()).toEqual([200, 503]);
    ready = true;
    expect(await statuses()).toEqual([200, 200]);
  });

  test("on a port that is taken end the program with 1 before it claims anything", async () => {
    const { url, begin, runtime } = await store();
    const first = worker(url, "--probe-port", "0");
    const { probePort } = await first.line({ event: "ready" });
    first.signal("SIGTERM");
    const holder = worker((await store()).url, "--probe-port", String(await first.ended.then(() => probePort)));
    await holder.line({ event: "ready" });
    const id = await begin("go");
    const { code, stderr } = await worker(url, "--probe-port", String(probePort)).ended;
    expect(code).toBe(1);
    expect(stderr).toContain("CANNOT_OPEN");
    expect((await runtime.get(id)).epoch).toBe(0);
  });
});
