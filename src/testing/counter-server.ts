/**
 * The independent counter, a process of its own: `node counter-server.js` listens on 127.0.0.1 and prints its address.
 * It lives as long as its standard input is open, so it never outlives whoever started it.
 *
 * `POST /<run>/count {identity, idempotencyKey?, idempotent?}` · `POST /<run>/counted {identity, idempotencyKey?}` · `POST /<run>/node {name, step}` ·
 * `POST /<run>/report {}` → {@link CounterReport}. Runs are kept apart by the first part of the path.
 */

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

/** Everything counted in one run. */
export interface CounterReport {
  /** `times` is what counts; `calls` includes those that an idempotent receiver has absorbed. */
  readonly counts: Readonly<Record<string, { readonly times: number; readonly calls: number }>>;
  /** Nodes in the order in which they began. */
  readonly nodes: readonly { readonly name: string; readonly step: number }[];
}

interface Question {
  readonly identity?: string;
  readonly idempotencyKey?: string;
  readonly idempotent?: boolean;
  readonly name?: string;
  readonly step?: number;
}

class Ledger {
  /** Calls for each (identity, idempotency key). */
  readonly #keys = new Map<string, number>();
  readonly #counts = new Map<string, { times: number; calls: number }>();
  readonly #nodes: { name: string; step: number }[] = [];

  answer(what: string, question: Question): unknown {
    switch (what) {
      case "count":
        return this.#count(question);
      case "counted":
        return { times: this.#counted(question) };
      case "node":
        this.#nodes.push({ name: question.name ?? "", step: question.step ?? 0 });
        return {};
      case "report":
        return { counts: Object.fromEntries(this.#counts), nodes: this.#nodes } satisfies CounterReport;
      default:
        return undefined;
    }
  }

  #count({ identity = "", idempotencyKey, idempotent = false }: Question): { times: number } {
    const entry = this.#counts.get(identity) ?? { times: 0, calls: 0 };
    this.#counts.set(identity, entry);
    entry.calls += 1;
    const key = JSON.stringify([identity, idempotencyKey]);
    const seen = this.#keys.get(key) ?? 0;
    this.#keys.set(key, seen + 1);
    if (seen === 0 || !idempotent) entry.times += 1;
    return { times: entry.times };
  }

  #counted({ identity = "", idempotencyKey }: Question): number {
    if (idempotencyKey === undefined) return this.#counts.get(identity)?.times ?? 0;
    return this.#keys.get(JSON.stringify([identity, idempotencyKey])) ?? 0;
  }
}

const ledgers = new Map<string, Ledger>();

const server = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  // Only "end" acts: a request that is cut off by a kill has not been made.
  request.on("end", () => {
    const [, run = "", what = ""] = (request.url ?? "").split("/");
    const ledger = ledgers.get(run) ?? new Ledger();
    ledgers.set(run, ledger);
    const answer = ledger.answer(what, JSON.parse(Buffer.concat(chunks).toString("utf8") || "{}"));
    response.writeHead(answer === undefined ? 404 : 200, { "content-type": "application/json" });
    response.end(JSON.stringify(answer ?? { error: `unknown: ${what}` }));
  });
});

server.listen(0, "127.0.0.1", () => {
  process.stdout.write(`http://127.0.0.1:${(server.address() as AddressInfo).port}\n`);
});
process.stdin.on("end", () => process.exit(0)).resume();
