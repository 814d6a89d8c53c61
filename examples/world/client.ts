import { NotExecuted } from "holdfast";
import type { Call, Charge, Mail, OrderWorld, Reservation, SentMail, Summarise } from "holdfast/graphs";
import type { Fault } from "./faults.ts";
import type { Endpoint, Ledger } from "./shop.ts";

/** The world answered with a status that says nothing about whether the work was done. */
export class WorldError extends Error {
  readonly status: number;

  constructor(request: string, status: number, body: string) {
    super(`${request} answered ${status}: ${body}`);
    this.name = "WorldError";
    this.status = status;
  }
}

/** One shop of the world, as its customers and its bookkeeper see it. */
export interface WorldClient extends OrderWorld {
  /** The model: bills per call, and honours the key. */
  readonly summarise: Summarise;
  /** The sent folder: which mails went out for an order. */
  sentMails(orderId: string): Promise<readonly (Mail & SentMail)[]>;
  ledger(): Promise<Ledger>;
  fault(fault: Fault): Promise<void>;
  reset(): Promise<void>;
}

/** `shop` is the address with the shop's name: `http://127.0.0.1:4000/main`. */
export function worldClient(shop: string): WorldClient {
  const post = (path: string, body: unknown, call?: Call) => request(`${shop}/${path}`, body, call);
  const find = (endpoint: Endpoint, { idempotencyKey, signal }: Call) =>
    request(`${shop}/${endpoint}?key=${encodeURIComponent(idempotencyKey)}`, undefined, { signal });
  return {
    charge: async (input, call) => pick(await post("charge", input, call), "chargeId") as Charge,
    findCharge: async (call) => (await find("charge", call)) as Charge | undefined,
    refund: async (charge) => void (await post("refund", charge)),
    reserve: async (input, call) => pick(await post("reserve", input, call), "reservationId") as Reservation,
    findReservation: async (call) => (await find("reserve", call)) as Reservation | undefined,
    release: async (reservation) => void (await post("release", reservation)),
    sendMail: async (mail, call) => pick(await post("mail", mail, call), "messageId") as SentMail,
    // A summary of the beginning is enough here, and the user's files may be large.
    summarise: async ({ file, text }, call) =>
      String(pick(await post("summarise", { file, text: text.slice(0, 4096) }, call), "summary").summary),
    sentMails: async (orderId) => {
      const answer = await request(`${shop}/mail?orderId=${encodeURIComponent(orderId)}`, undefined);
      return (answer as { sent: (Mail & SentMail)[] }).sent;
    },
    ledger: async () => ((await request(`${shop}/ledger`, undefined)) as { ledger: Ledger }).ledger,
    fault: async (fault) => void (await post("faults", fault)),
    reset: async () => void (await post("reset", {})),
  };
}

/** Undefined for a GET that finds nothing. */
async function request(url: string, body: unknown, call: Partial<Call> = {}): Promise<unknown> {
  const response = await fetch(url, {
    method: body === undefined ? "GET" : "POST",
    headers: {
      "content-type": "application/json",
      ...(call.idempotencyKey === undefined ? {} : { "idempotency-key": call.idempotencyKey }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    ...(call.signal === undefined ? {} : { signal: call.signal }),
  });
  const text = await response.text();
  if (response.ok) return JSON.parse(text);
  if (response.status === 404 && body === undefined) return undefined;
  // 503 alone would not say it: a proxy answers so too, after the work was done. This world states it in its answer.
  if (response.status === 503 && (JSON.parse(text) as { executed?: boolean }).executed === false) {
    throw new NotExecuted(`${url} is not available; it says that nothing was done.`);
  }
  throw new WorldError(url, response.status, text);
}

/** The one field the caller is after; `cached` is left out, since it depends on how often one has asked. */
function pick(answer: unknown, field: string): Record<string, unknown> {
  return { [field]: (answer as Record<string, unknown>)[field] };
}
