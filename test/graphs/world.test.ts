import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { isHoldfastError } from "holdfast";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type WorldClient, WorldError, worldClient } from "../../examples/world/client.ts";
import { createWorld } from "../../examples/world/server.ts";

const charge = { orderId: "order-1", customer: "ada@example.com", amountCents: 100, currency: "EUR" };
const stock = { orderId: "order-1", item: "lamp", quantity: 1 };
const mail = { orderId: "order-1", to: "ada@example.com", subject: "s", text: "t" };
const call = (idempotencyKey: string, signal = AbortSignal.timeout(10_000)) => ({ idempotencyKey, signal });

let server: ReturnType<typeof createWorld>;
let base: string;
let world: WorldClient;

beforeEach(async () => {
  server = createWorld().listen(0, "127.0.0.1");
  await once(server, "listening");
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  world = worldClient(`${base}/main`);
});

afterEach(async () => {
  server.closeAllConnections();
  server.close();
  await once(server, "close");
});

const entry = async (endpoint: string) => (await world.ledger()).find((one) => one.endpoint === endpoint);

describe("the outside world", () => {
  test("a second charge with the same key is the first one's answer and is not done again", async () => {
    const first = await world.charge(charge, call("k1"));
    expect(await world.charge(charge, call("k1"))).toEqual(first);
    expect(await entry("charge")).toMatchObject({ calls: 2, executed: 1, keys: { k1: 2 } });
  });

  test("a second charge of the same order under another key is done, and counted as the repetition it is", async () => {
    const first = await world.charge(charge, call("k1"));
    expect(await world.charge(charge, call("k2"))).not.toEqual(first);
    expect(await entry("charge")).toMatchObject({ subject: "order-1", calls: 2, executed: 2 });
  });

  test("the mail server sends again whatever the key, and its sent folder shows both", async () => {
    await world.sendMail(mail, call("k1"));
    await world.sendMail(mail, call("k1"));
    expect(await entry("mail")).toMatchObject({ calls: 2, executed: 2 });
    expect((await world.sentMails("order-1")).map((one) => one.messageId)).toEqual([
      "mail-order-1-1",
      "mail-order-1-2",
    ]);
  });

  test("a key can be asked about: what was answered, or that nothing was done", async () => {
    expect(await world.findCharge(call("k1"))).toBeUndefined();
    const done = await world.charge(charge, call("k1"));
    const reserved = await world.reserve(stock, call("k1"));
    expect(await world.findCharge(call("k1"))).toEqual(done);
    expect(await world.findReservation(call("k1"))).toEqual(reserved);
  });

  test("a charge or reservation is taken back once, however often that is asked", async () => {
    const done = await world.charge(charge, call("k1"));
    const reserved = await world.reserve(stock, call("k1"));
    await world.refund(done);
    await world.refund(done);
    await world.release(reserved);
    expect(await entry("charge")).toMatchObject({ executed: 1, undone: 1 });
    expect(await entry("reserve")).toMatchObject({ executed: 1, undone: 1 });
    await expect(world.refund({ chargeId: "none" })).rejects.toThrow(WorldError);
  });

  test("an unavailable endpoint says that nothing was done, and nothing was", async () => {
    await world.fault({ endpoint: "charge", kind: "unavailable" });
    const refusal = await world.charge(charge, call("k1")).catch((error: unknown) => error);
    expect(isHoldfastError(refusal, "NOT_EXECUTED")).toBe(true);
    expect(await entry("charge")).toBeUndefined();
    await world.charge(charge, call("k1"));
    expect(await entry("charge")).toMatchObject({ executed: 1 });
  });

  test("a broken connection hides an answer, not the work", async () => {
    await world.fault({ endpoint: "charge", kind: "drop" });
    await expect(world.charge(charge, call("k1"))).rejects.toThrow("fetch failed");
    expect(await world.findCharge(call("k1"))).toEqual({ chargeId: "charge-order-1-1" });
  });

  test("a silent endpoint has done the work when the caller gives up", async () => {
    await world.fault({ endpoint: "mail", kind: "silent" });
    const patience = new AbortController();
    const sending = world.sendMail(mail, call("k1", patience.signal));
    while ((await world.sentMails("order-1")).length === 0);
    patience.abort(new Error("gave up"));
    await expect(sending).rejects.toThrow("gave up");
    expect(await entry("mail")).toMatchObject({ calls: 1, executed: 1 });
  });

  test("a late answer comes after the work, and faults are used up by as many requests as ordered", async () => {
    await world.fault({ endpoint: "reserve", kind: "late", times: 2, delayMs: 1 });
    await world.fault({ endpoint: "reserve", kind: "unavailable" });
    await world.reserve(stock, call("k1"));
    await world.reserve(stock, call("k1"));
    await expect(world.reserve(stock, call("k1"))).rejects.toThrow("NOT_EXECUTED");
    await world.reserve(stock, call("k1"));
    expect(await entry("reserve")).toMatchObject({ calls: 3, executed: 1 });
  });

  test("shops do not see each other, and a reset forgets one shop only", async () => {
    const other = worldClient(`${base}/other`);
    await world.charge(charge, call("k1"));
    await other.charge(charge, call("k1"));
    await world.reset();
    expect(await world.ledger()).toEqual([]);
    expect(await other.ledger()).toMatchObject([{ executed: 1 }]);
  });

  test("a request that makes no sense is refused and counted nowhere", async () => {
    const answers = await Promise.all([
      fetch(`${base}/main/charge`, { method: "POST", body: "{" }),
      fetch(`${base}/main/faults`, { method: "POST", body: '{"endpoint":"charge","kind":"flood"}' }),
      fetch(`${base}/main/teleport`, { method: "POST", body: "{}" }),
    ]);
    expect(answers.map((one) => one.status)).toEqual([400, 400, 404]);
    expect(await world.ledger()).toEqual([]);
  });
});
