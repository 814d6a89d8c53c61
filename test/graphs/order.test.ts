import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isHoldfastError, run } from "holdfast";
import { memory } from "holdfast/checkpointers/memory";
import { type Order, order, orderActions } from "holdfast/graphs";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type WorldClient, worldClient } from "../../examples/world/client.ts";
import { createWorld } from "../../examples/world/server.ts";

const lamp: Order = {
  orderId: "order-1",
  customer: "ada@example.com",
  item: "lamp",
  quantity: 2,
  amountCents: 12_900,
  currency: "EUR",
};
const config = { configurable: { thread_id: "t1" } };

let server: ReturnType<typeof createWorld>;
let world: WorldClient;
let receipts: string;

beforeEach(async () => {
  receipts = await mkdtemp(join(tmpdir(), "holdfast-test-"));
  server = createWorld().listen(0, "127.0.0.1");
  await once(server, "listening");
  world = worldClient(`http://127.0.0.1:${(server.address() as AddressInfo).port}/main`);
});

afterEach(async () => {
  server.closeAllConnections();
  server.close();
  await Promise.all([once(server, "close"), rm(receipts, { recursive: true })]);
});

function start(timeoutMs = 10_000) {
  const checkpointer = memory();
  return { checkpointer, app: order({ world, receipts, timeoutMs }).compile({ checkpointer }) };
}

/** Times the work was done, by endpoint. */
async function executed(): Promise<Record<string, number>> {
  return Object.fromEntries((await world.ledger()).map((entry) => [entry.endpoint, entry.executed]));
}

/** The effect that a settle request is about. */
function keyOf(request: unknown): string {
  return (request as { key: string }).key;
}

describe("order", () => {
  test("charges, reserves, mails once each, and writes the receipt", async () => {
    const result = await run(start().app, { order: lamp }, config);
    expect(result.status).toBe("finished");
    expect(await executed()).toEqual({ charge: 1, reserve: 1, mail: 1 });
    expect(JSON.parse(await readFile(join(receipts, "order-1.json"), "utf8"))).toEqual({
      order: lamp,
      charge: { chargeId: "charge-order-1-1" },
      reservation: { reservationId: "reservation-order-1-1" },
      mail: { messageId: "mail-order-1-1" },
    });
  });

  test.each(["charge", "reserve"] as const)(
    "where the answer to a %s is lost, the receiver is asked and nothing is done twice",
    async (endpoint) => {
      const { app } = start();
      await world.fault({ endpoint, kind: "drop" });
      await expect(run(app, { order: lamp }, config)).rejects.toThrow("fetch failed");
      expect((await run(app, null, config)).status).toBe("finished");
      expect((await world.ledger()).find((entry) => entry.endpoint === endpoint)).toMatchObject({
        calls: 1,
        executed: 1,
      });
    },
  );

  test("a charge that was begun and never answered is given up after its timeout, then found", async () => {
    const { app } = start(50);
    await world.fault({ endpoint: "charge", kind: "silent" });
    const error = await run(app, { order: lamp }, config).catch((reason: unknown) => reason);
    expect(isHoldfastError(error, "EFFECT_TIMEOUT")).toBe(true);
    expect((await run(app, null, config)).status).toBe("finished");
    expect(await executed()).toEqual({ charge: 1, reserve: 1, mail: 1 });
  });

  test("a late answer is an answer", async () => {
    await world.fault({ endpoint: "charge", kind: "late", delayMs: 20 });
    expect((await run(start().app, { order: lamp }, config)).status).toBe("finished");
  });

  test.each(["charge", "reserve", "mail"] as const)(
    "a %s that was refused before the work is done on the next attempt, without a question",
    async (endpoint) => {
      const { app } = start();
      await world.fault({ endpoint, kind: "unavailable" });
      await expect(run(app, { order: lamp }, config)).rejects.toThrow("NOT_EXECUTED");
      expect((await run(app, null, config)).status).toBe("finished");
      expect(await executed()).toEqual({ charge: 1, reserve: 1, mail: 1 });
    },
  );

  test("a mail whose answer is lost waits for a person; settled as done, it is not sent again", async () => {
    const { app, checkpointer } = start();
    await world.fault({ endpoint: "mail", kind: "drop" });
    await expect(run(app, { order: lamp }, config)).rejects.toThrow("fetch failed");
    const parked = await run(app, null, config);
    expect(parked.status).toBe("parked");
    const [wait] = parked.waits;
    expect(wait).toMatchObject({ kind: "settle", value: { type: "settle", effect: "send-mail" } });
    const key = keyOf(wait?.value);
    await checkpointer.settle(key, { done: { messageId: "mail-order-1-1" } }, { by: "test" });
    expect((await run(app, null, config)).status).toBe("finished");
    expect(await executed()).toEqual({ charge: 1, reserve: 1, mail: 1 });
  });

  test("a mail that is settled as not sent is sent", async () => {
    const { app, checkpointer } = start();
    await world.fault({ endpoint: "mail", kind: "drop" });
    await expect(run(app, { order: lamp }, config)).rejects.toThrow("fetch failed");
    const parked = await run(app, null, config);
    const key = keyOf(parked.waits[0]?.value);
    await checkpointer.settle(key, { notDone: true }, { by: "test" });
    const result = await run(app, null, config);
    expect(result.values.mail).toEqual({ messageId: "mail-order-1-2" });
    expect(await executed()).toEqual({ charge: 1, reserve: 1, mail: 2 });
  });

  test("an order whose id would be no file name is refused before anything happens", async () => {
    await expect(run(start().app, { order: { ...lamp, orderId: "../../etc" } }, config)).rejects.toThrow("orderId");
    expect(await world.ledger()).toEqual([]);
    expect(await readdir(receipts)).toEqual([]);
  });

  test("a charge and a reservation can be taken back", async () => {
    await run(start().app, { order: lamp }, config);
    const actions = orderActions({ world });
    await actions.chargeCard.undo({ chargeId: "charge-order-1-1" });
    await actions.reserveStock.undo({ reservationId: "reservation-order-1-1" });
    expect((await world.ledger()).map((entry) => [entry.endpoint, entry.undone])).toEqual([
      ["charge", 1],
      ["reserve", 1],
      ["mail", 0],
    ]);
  });
});
