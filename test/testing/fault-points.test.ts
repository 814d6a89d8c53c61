import { spawnSync } from "node:child_process";
import { createServer, get, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { channels } from "holdfast";
import { faultPoint, watchFaultPoints } from "holdfast/testing";
import { afterEach, beforeEach, expect, test } from "vitest";

let reached: string[];
let unwatch: () => void;
let server: Server;
let url: string;

beforeEach(async () => {
  reached = [];
  unwatch = watchFaultPoints((point) => reached.push(point));
  server = createServer((_request, response) => {
    reached.push("(the server acts)");
    response.end("done");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
});

afterEach(() => {
  unwatch();
  server.closeAllConnections();
  server.close();
});

let keys = 0;

/** Publishes what the library publishes around a body. */
async function effect(name: string, body: () => unknown): Promise<void> {
  await Promise.resolve();
  keys += 1;
  const event = { name, key: String(keys), thread: "t", attempt: 1 };
  channels.effectBefore.publish(event);
  try {
    await body();
  } finally {
    channels.effectAfter.publish(event);
  }
}

const commit = (number: number) => ({ number, commits: 1, ops: 1, bytes: 1, kinds: [] });

test("commits are counted over all checkpointers of the process", () => {
  channels.commitBefore.publish(commit(1));
  channels.commitInside.publish(undefined);
  channels.commitAfter.publish(commit(1));
  channels.commitBefore.publish(commit(7));
  channels.commitAfter.publish(commit(7));
  expect(reached).toEqual([
    "commit:1:before",
    "commit:1:inside",
    "commit:1:after",
    "commit:2:before",
    "commit:2:after",
  ]);
});

test("a commit that failed as a whole has no point after it", () => {
  channels.commitBefore.publish(commit(1));
  channels.commitAfter.publish({ ...commit(1), error: new Error("disk full") });
  expect(reached).toEqual(["commit:1:before"]);
});

test("the inside of a body that fetches is the arrival of the answer, after the other side has acted", async () => {
  await effect("pay", async () => (await fetch(url, { method: "POST", body: "1" })).text());
  expect(reached).toEqual(["effect:pay:1:before", "(the server acts)", "effect:pay:1:inside", "effect:pay:1:after"]);
});

test("the same with node:http", async () => {
  await effect("pay", () => new Promise((resolve) => get(url, (response) => response.resume().on("end", resolve))));
  expect(reached).toEqual(["effect:pay:1:before", "(the server acts)", "effect:pay:1:inside", "effect:pay:1:after"]);
});

test("a request that is given up on has been sent: its failure is the inside", async () => {
  server.removeAllListeners("request");
  const controller = new AbortController();
  server.on("request", () => {
    reached.push("(the server acts)");
    controller.abort();
  });
  await effect("pay", () => fetch(url, { signal: controller.signal }).catch(() => undefined));
  expect(reached).toEqual(["effect:pay:1:before", "(the server acts)", "effect:pay:1:inside", "effect:pay:1:after"]);
});

test("the inside of any other body is its first turn of the event loop, once", async () => {
  await effect("wait", async () => {
    await new Promise(setImmediate);
    await new Promise(setImmediate);
  });
  expect(reached).toEqual(["effect:wait:1:before", "effect:wait:1:inside", "effect:wait:1:after"]);
});

test("a body that never gives the loop a turn has no inside", async () => {
  await effect("quick", () => 1);
  await new Promise(setImmediate);
  expect(reached).toEqual(["effect:quick:1:before", "effect:quick:1:after"]);
});

test("a body may mark its inside itself, also one that is synchronous", async () => {
  await effect("marked", () => faultPoint());
  expect(reached).toEqual(["effect:marked:1:before", "effect:marked:1:inside", "effect:marked:1:after"]);
});

test("bodies that run at once have insides of their own", async () => {
  await Promise.all([
    effect("a", async () => {
      await new Promise(setImmediate);
      faultPoint();
    }),
    effect("b", () => faultPoint()),
    effect("a", () => fetch(url).then((response) => response.text())),
  ]);
  const insides = reached.filter((point) => point.endsWith("inside"));
  expect(insides).toEqual(["effect:b:1:inside", "effect:a:1:inside", "effect:a:2:inside"]);
});

test("what follows an effect does not belong to it", async () => {
  await effect("first", () => new Promise(setImmediate));
  faultPoint();
  await fetch(url).then((response) => response.text());
  expect(reached.filter((point) => point.endsWith("inside"))).toEqual(["effect:first:1:inside"]);
});

test("named points of the program are counted by name", () => {
  faultPoint("saved");
  faultPoint("saved");
  faultPoint("sent");
  expect(reached).toEqual(["point:saved:1", "point:saved:2", "point:sent:1"]);
});

test("a process is killed at its point: nothing after it runs, no exit hook either", () => {
  const kill = new URL("../../dist/src/testing/kill.js", import.meta.url).href;
  const points = new URL("../../dist/src/testing/fault-points.js", import.meta.url).href;
  const program = `
    import { faultPoint } from ${JSON.stringify(points)};
    import { writeSync } from "node:fs";
    process.on("exit", () => writeSync(1, "exit hook"));
    faultPoint("here");
    writeSync(1, "between ");
    faultPoint("here");
    writeSync(1, "after");`;
  const start = (killAt?: string) =>
    spawnSync(process.execPath, ["--import", kill, "--input-type=module", "-e", program], {
      encoding: "utf8",
      env: { ...process.env, ...(killAt === undefined ? {} : { HOLDFAST_KILL_AT: killAt }) },
    });
  expect(start("point:here:2")).toMatchObject({ signal: "SIGKILL", status: null, stdout: "between " });
  expect(start("point:there:1")).toMatchObject({ signal: null, status: 0, stdout: "between afterexit hook" });
  expect(start("point:there").status).toBe(1);
  expect(start("point:there").stderr).toContain('HOLDFAST_KILL_AT is "point:there", which is no fault point');
});
