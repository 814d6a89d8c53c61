/**
 * Handles an order: charges a card, reserves stock, sends a mail, writes a receipt. Four kinds of outside world:
 *
 * | action        | a second call with the same key | can one ask whether it happened | after a kill in the middle       |
 * |---------------|---------------------------------|---------------------------------|----------------------------------|
 * | charge-card   | is the first one's answer       | yes: `verify`                   | asks, then records or charges    |
 * | reserve-stock | is the first one's answer       | yes: `verify`                   | asks, then records or reserves   |
 * | send-mail     | is a second mail                | no                              | waits for a person: `settle`     |
 * | write-receipt | is the same file                | not needed                      | writes it again: `rerun`         |
 *
 * Every action has a node of its own, so that each has its own superstep and its own checkpoint.
 */

import { join } from "node:path";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { effect } from "holdfast";
import { z } from "zod";
import { type WrittenFile, writeFileAtomic } from "./atomic-file.ts";

/** An order. The id becomes a file name. */
export const orderSchema = z.object({
  orderId: z.string().regex(/^[A-Za-z0-9-]{1,64}$/),
  customer: z.string().min(3),
  item: z.string().min(1),
  quantity: z.number().int().positive(),
  amountCents: z.number().int().positive(),
  currency: z.string().length(3),
});
export type Order = z.infer<typeof orderSchema>;

const chargeInput = orderSchema.pick({ orderId: true, customer: true, amountCents: true, currency: true });
const chargeOutput = z.object({ chargeId: z.string() });
const reserveInput = orderSchema.pick({ orderId: true, item: true, quantity: true });
const reserveOutput = z.object({ reservationId: z.string() });
const mailInput = z.object({ orderId: z.string(), to: z.string(), subject: z.string(), text: z.string() });
const mailOutput = z.object({ messageId: z.string() });
const receiptInput = z.object({ path: z.string(), content: z.string() });
const receiptOutput = z.object({ path: z.string(), bytes: z.number(), sha256: z.string() });

export type ChargeInput = z.infer<typeof chargeInput>;
export type Charge = z.infer<typeof chargeOutput>;
export type ReserveInput = z.infer<typeof reserveInput>;
export type Reservation = z.infer<typeof reserveOutput>;
export type Mail = z.infer<typeof mailInput>;
export type SentMail = z.infer<typeof mailOutput>;

/** What goes with a call to the outside: the key belongs into the request, the signal to `fetch`. */
export interface Call {
  readonly idempotencyKey: string;
  readonly signal: AbortSignal;
}

/**
 * The outside world as this graph needs it. A method throws `NotExecuted` where it knows that nothing happened, and
 * any other error where it does not know. The `find` methods answer undefined only where it surely did not happen.
 */
export interface OrderWorld {
  charge(input: ChargeInput, call: Call): Promise<Charge>;
  findCharge(call: Call): Promise<Charge | undefined>;
  refund(charge: Charge): Promise<void>;
  reserve(input: ReserveInput, call: Call): Promise<Reservation>;
  findReservation(call: Call): Promise<Reservation | undefined>;
  release(reservation: Reservation): Promise<void>;
  sendMail(mail: Mail, call: Call): Promise<SentMail>;
}

export interface OrderOptions {
  readonly world: OrderWorld;
  /** Directory of the receipts, one `<orderId>.json` each. Default `receipts`. */
  readonly receipts?: string;
  /** How long one call to the outside may take before it is aborted and counts as unknown. Default 10 000. */
  readonly timeoutMs?: number;
}

/** Input: `order`. The rest is the graph's. */
export const OrderState = Annotation.Root({
  order: Annotation<Order>(),
  charge: Annotation<Charge>(),
  reservation: Annotation<Reservation>(),
  mail: Annotation<SentMail>(),
  receipt: Annotation<WrittenFile>(),
});

/** The actions of the graph as plain data: what {@link order} makes effects of. */
export function orderActions({ world, timeoutMs = 10_000 }: OrderOptions) {
  return {
    chargeCard: {
      input: chargeInput,
      output: chargeOutput,
      timeoutMs,
      run: (input: ChargeInput, call: Call) => world.charge(input, call),
      verify: (_input: ChargeInput, call: Call) => world.findCharge(call),
      undo: (charge: Charge) => world.refund(charge),
    },
    reserveStock: {
      input: reserveInput,
      output: reserveOutput,
      timeoutMs,
      run: (input: ReserveInput, call: Call) => world.reserve(input, call),
      verify: (_input: ReserveInput, call: Call) => world.findReservation(call),
      undo: (reservation: Reservation) => world.release(reservation),
    },
    sendMail: {
      input: mailInput,
      output: mailOutput,
      timeoutMs,
      // The mail server neither knows our key nor can be asked. Whoever guesses here sends it twice or never.
      onUnknown: "settle" as const,
      run: (mail: Mail, call: Call) => world.sendMail(mail, call),
    },
    writeReceipt: {
      input: receiptInput,
      output: receiptOutput,
      onUnknown: "rerun" as const,
      run: (input: { path: string; content: string }) => writeFileAtomic(input.path, input.content),
    },
  };
}

/** What the nodes call. */
export interface OrderCalls {
  chargeCard(input: ChargeInput): Promise<Charge>;
  reserveStock(input: ReserveInput): Promise<Reservation>;
  sendMail(mail: Mail): Promise<SentMail>;
  writeReceipt(input: { path: string; content: string }): Promise<WrittenFile>;
}

/** The graph around any implementation of its calls. Most want {@link order}. */
export function orderGraph(calls: OrderCalls, { receipts = "receipts" }: Pick<OrderOptions, "receipts"> = {}) {
  return new StateGraph(OrderState)
    .addNode("charge-card", async ({ order }) => ({ charge: await calls.chargeCard(chargeInput.parse(order)) }))
    .addNode("reserve-stock", async ({ order }) => ({
      reservation: await calls.reserveStock(reserveInput.parse(order)),
    }))
    .addNode("send-mail", async ({ order, charge }) => ({ mail: await calls.sendMail(confirmation(order, charge)) }))
    .addNode("write-receipt", async ({ order, charge, reservation, mail }) => ({
      receipt: await calls.writeReceipt({
        path: join(receipts, `${orderSchema.parse(order).orderId}.json`),
        content: `${JSON.stringify({ order, charge, reservation, mail }, null, 2)}\n`,
      }),
    }))
    .addEdge(START, "charge-card")
    .addEdge("charge-card", "reserve-stock")
    .addEdge("reserve-stock", "send-mail")
    .addEdge("send-mail", "write-receipt")
    .addEdge("write-receipt", END);
}

/**
 * The graph, to be compiled with a checkpointer:
 * `order({ world }).compile({ checkpointer: await sqlite("holdfast.db") })`.
 */
export function order(options: OrderOptions) {
  const actions = orderActions(options);
  return orderGraph(
    {
      chargeCard: effect("charge-card", actions.chargeCard),
      reserveStock: effect("reserve-stock", actions.reserveStock),
      sendMail: effect("send-mail", actions.sendMail),
      writeReceipt: effect("write-receipt", actions.writeReceipt),
    },
    options,
  );
}

function confirmation(order: Order, charge: Charge): Mail {
  return {
    orderId: order.orderId,
    to: order.customer,
    subject: `Your order ${order.orderId}`,
    text: `${order.quantity} × ${order.item}. Paid: ${(order.amountCents / 100).toFixed(2)} ${order.currency} (${charge.chargeId}).`,
  };
}
