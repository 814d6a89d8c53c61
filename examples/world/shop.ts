/**
 * The books of the outside world: what was asked, what was done. It knows nothing of graphs, checkpoints or effects.
 *
 * Work is counted twice: by idempotency key, and by what the caller wanted (`charge of order-1`), whatever key it came
 * under. The second count is the judge: an order has been charged twice if there are two charges of it.
 */

/** Names of the endpoints that do work. */
export type Endpoint = "charge" | "reserve" | "mail" | "summarise";

/** What the world has on one thing that somebody wanted done. */
export interface LedgerEntry {
  readonly endpoint: Endpoint;
  /** Whom or what it was for: an order id, a file name. */
  readonly subject: string;
  /** Requests that arrived. */
  readonly calls: number;
  /** How often the work was done. More than one is a repetition. */
  readonly executed: number;
  /** How often it was taken back: refunds, releases. */
  readonly undone: number;
  /** Requests by idempotency key. */
  readonly keys: Readonly<Record<string, number>>;
}

export type Ledger = readonly LedgerEntry[];
export type Body = Readonly<Record<string, unknown>>;

/** How an endpoint works. */
interface Trade {
  /** Whether it answers a second request with the same key by the first one's answer. */
  readonly deduplicates: boolean;
  /** The field of the request that says what it is for. */
  readonly subject: string;
  /** Does the n-th piece of work for a subject. */
  readonly work: (subject: string, n: number, body: Body) => Body;
}

const trades: Record<Endpoint, Trade> = {
  charge: { deduplicates: true, subject: "orderId", work: (subject, n) => ({ chargeId: `charge-${subject}-${n}` }) },
  reserve: {
    deduplicates: true,
    subject: "orderId",
    work: (subject, n) => ({ reservationId: `reservation-${subject}-${n}` }),
  },
  mail: { deduplicates: false, subject: "orderId", work: (subject, n) => ({ messageId: `mail-${subject}-${n}` }) },
  summarise: { deduplicates: true, subject: "file", work: (_subject, _n, body) => ({ summary: firstLine(body.text) }) },
};

export function isEndpoint(name: string): name is Endpoint {
  return Object.hasOwn(trades, name);
}

interface Account {
  readonly endpoint: Endpoint;
  readonly subject: string;
  calls: number;
  undone: number;
  readonly keys: Record<string, number>;
  readonly works: { readonly request: Body; readonly answer: Body; taken: boolean }[];
}

/** One customer of the world; shops do not see each other. */
export class Shop {
  readonly #accounts = new Map<string, Account>();
  readonly #byKey = new Map<string, Body>();

  /** Handles a request for work. */
  handle(endpoint: Endpoint, body: Body, key: string | undefined): Body & { readonly cached: boolean } {
    const trade = trades[endpoint];
    const subject = String(body[trade.subject] ?? "");
    const account = this.#account(endpoint, subject);
    account.calls += 1;
    if (key !== undefined) account.keys[key] = (account.keys[key] ?? 0) + 1;
    const known = trade.deduplicates && key !== undefined ? this.#byKey.get(`${endpoint} ${key}`) : undefined;
    if (known !== undefined) return { ...known, cached: true };
    const answer = trade.work(subject, account.works.length + 1, body);
    account.works.push({ request: body, answer, taken: false });
    if (trade.deduplicates && key !== undefined) this.#byKey.set(`${endpoint} ${key}`, answer);
    return { ...answer, cached: false };
  }

  /** The answer that was given under this key, for endpoints that remember keys. */
  find(endpoint: Endpoint, key: string): Body | undefined {
    return this.#byKey.get(`${endpoint} ${key}`);
  }

  /** Everything that was done for a subject: the sent folder, as far as mails are concerned. */
  done(endpoint: Endpoint, subject: string): readonly Body[] {
    return (this.#accounts.get(`${endpoint} ${subject}`)?.works ?? []).map((work) => ({
      ...work.request,
      ...work.answer,
    }));
  }

  /** Takes a piece of work back, given what its answer said; a second time changes nothing. False where there is none. */
  undo(endpoint: Endpoint, answer: Body): boolean {
    for (const account of this.#accounts.values()) {
      if (account.endpoint !== endpoint) continue;
      const work = account.works.find((one) =>
        Object.entries(answer).every(([name, value]) => one.answer[name] === value),
      );
      if (work === undefined) continue;
      if (!work.taken) account.undone += 1;
      work.taken = true;
      return true;
    }
    return false;
  }

  ledger(): Ledger {
    return [...this.#accounts.values()].map(({ works, ...account }) => ({
      ...account,
      keys: { ...account.keys },
      executed: works.length,
    }));
  }

  #account(endpoint: Endpoint, subject: string): Account {
    const id = `${endpoint} ${subject}`;
    let account = this.#accounts.get(id);
    if (account === undefined) {
      account = { endpoint, subject, calls: 0, undone: 0, keys: {}, works: [] };
      this.#accounts.set(id, account);
    }
    return account;
  }
}

function firstLine(text: unknown): string {
  const line =
    String(text ?? "")
      .trim()
      .split(/(?<=[.!?])\s|\n/, 1)[0] ?? "";
  return line.length > 120 ? `${line.slice(0, 119)}…` : line;
}
