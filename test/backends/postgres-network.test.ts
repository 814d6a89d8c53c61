/** Postgres behind a network that cuts, keeps back and falls silent. */

import type { Backend } from "holdfast";
import { describe, expect, inject, onTestFinished, test } from "vitest";
import { postgresBackend } from "../../checkpointers/postgres/backend.ts";
import {
  accept,
  blob,
  checkpoint,
  codes,
  encoded,
  headOf,
  items,
  run,
  runRow,
  valuesOf,
  writes,
} from "../../src/testing/backend-rows.ts";
import { newSchema, query, quoted } from "../servers/schemas.ts";
import { type Fate, type TcpProxy, proxyTo } from "../servers/proxy.ts";
import { watching } from "./wakes.ts";

const url = new URL(inject("postgresUrl"));

const isCommit = (message: string) => message.includes("holdfast_commit_1");

/** A backend whose connections go through a proxy; the first commit after `next` has that fate. */
async function behindProxy(options: Parameters<typeof postgresBackend>[1] = {}) {
  let fate: Fate = "pass";
  const proxy = await proxyTo(Number(url.port), (message) => {
    if (!isCommit(message)) return "pass";
    const now = fate;
    fate = "pass";
    return now;
  });
  const through = new URL(url);
  through.port = String(proxy.port);
  const schema = await newSchema();
  const backend = await postgresBackend(through.href, { schema, ...options });
  onTestFinished(async () => {
    await backend.close();
    await proxy.close();
  });
  const next = (what: Fate) => {
    fate = what;
  };
  return { backend, proxy, schema, next };
}

const rows = async (schema: string, table: string) =>
  Number((await query(`select count(*) as n from ${quoted(schema)}.holdfast_${table}`))[0]?.["n"]);

/** A commit that would be refused if it were applied twice. */
const appending = (n: number) => [
  checkpoint(`${n}`, { parent: n === 1 ? undefined : `${n - 1}`, heads: [n === 1 ? null : `${n - 1}`] }),
  items("list", n - 1, [n]),
  blob(`${n}`, "data"),
];

async function expectApplied(backend: Backend, schema: string, n: number): Promise<void> {
  expect(await headOf(backend)).toBe(`${n}`);
  expect(await valuesOf(backend, "list", 99)).toEqual(Array.from({ length: n }, (_, at) => at + 1));
  expect(await rows(schema, "checkpoints")).toBe(n);
}

describe.each<Fate>(["cut before", "cut after", "half open", "keep"])(
  "a commit whose connection is lost (%s)",
  (fate) => {
    test("is applied once, and its verdict is that of the one application", async () => {
      const { backend, proxy, schema, next } = await behindProxy({ answerTimeoutMs: 300 });
      await accept(backend, ...appending(1));
      next(fate);
      expect(await codes(backend, [appending(2), [checkpoint("x", { heads: ["nothing"] })]])).toEqual([
        "accepted",
        "HEAD_MOVED",
      ]);
      expect(proxy.seen).toBe(1);
      await expectApplied(backend, schema, 2);
      await accept(backend, ...appending(3));
      await expectApplied(backend, schema, 3);
    });

    test("is applied once in the ordinary way of one statement too", async () => {
      const { backend, proxy, schema, next } = await behindProxy({ answerTimeoutMs: 300 });
      await accept(backend, ...appending(1));
      next(fate);
      await accept(backend, ...appending(2));
      expect(proxy.seen).toBe(1);
      await accept(backend, ...appending(3));
      await expectApplied(backend, schema, 3);
    });
  },
);

test("what the network has kept back until it was given up and made again changes nothing when it arrives", async () => {
  const { backend, proxy, next } = await behindProxy();
  await accept(backend, checkpoint("1"));
  const error = (value: string) => writes([[-1, "__error__", value]], { checkpoint: "1", slot: -1 });
  next("keep");
  await accept(backend, error("first"));
  await accept(backend, error("second"));
  await proxy.release();
  const [stored, ...more] = (await backend.load("t", "", "1")).writes;
  expect([stored?.body, more]).toEqual([encoded([[-1, "__error__", "second"]]), []]);
});

test("the locks of a commit whose network fails between its statements are not kept until the server notices", async () => {
  const schema = await newSchema();
  let commits = 0;
  // The second call of a commit that is judged by rows: the first has taken the locks.
  const proxy = await proxyTo(Number(url.port), (message) => (isCommit(message) && ++commits === 3 ? "keep" : "pass"));
  const through = new URL(url);
  through.port = String(proxy.port);
  const backend = await postgresBackend(through.href, { schema, answerTimeoutMs: 300, retryForMs: 5000 });
  onTestFinished(async () => {
    await backend.close();
    await proxy.close();
  });
  expect(await codes(backend, [appending(1), [checkpoint("x", { heads: ["nothing"] })]])).toEqual([
    "accepted",
    "HEAD_MOVED",
  ]);
  expect(proxy.seen).toBe(1);
  await accept(backend, ...appending(2));
  await expectApplied(backend, schema, 2);
});

test("a read whose connection is cut is asked again", async () => {
  const { backend, proxy } = await behindProxy();
  await accept(backend, ...appending(1));
  proxy.cut();
  expect(await headOf(backend)).toBe("1");
});

test("a listening connection that falls silent is found out and made again", async () => {
  let silent = 0;
  const isBeat = (message: string) => message.endsWith("select 1\0");
  const proxy = await proxyTo(Number(url.port), (message) =>
    isBeat(message) && ++silent === 2 ? "half open" : "pass",
  );
  const through = new URL(url);
  through.port = String(proxy.port);
  const backend = await postgresBackend(through.href, { schema: await newSchema(), answerTimeoutMs: 200 });
  onTestFinished(async () => {
    await backend.close();
    await proxy.close();
  });
  const heard = await watching(backend);
  await heard.after(async () => {});
  expect(proxy.seen).toBe(1);
  await heard.after(() => accept(backend, run(runRow("r", { due: 5 }), null)));
});

test("a server that stays away fails the commit after retryForMs, and the process lives", async () => {
  const { backend, proxy } = await behindProxy({ retryForMs: 200 });
  await accept(backend, ...appending(1));
  await proxy.close();
  await expect(Promise.resolve(backend.commit([appending(2)]))).rejects.toMatchObject({
    code: "STORAGE_FAILED",
    message: expect.stringContaining("cannot be reached"),
    retryable: true,
  });
  await expect(backend.load("t", "", undefined)).rejects.toMatchObject({ code: "STORAGE_FAILED" });
});

test("an address where nobody listens is told at once, without the password", async () => {
  const proxy: TcpProxy = await proxyTo(1, () => "pass");
  const nobody = `postgres://user:secret@127.0.0.1:${proxy.port}/database`;
  await proxy.close();
  const error: unknown = await postgresBackend(nobody).catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ code: "CANNOT_OPEN" });
  expect(String(error)).toContain("ECONNREFUSED");
  expect(JSON.stringify(error) + String(error)).not.toContain("secret");
});
