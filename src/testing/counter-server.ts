/**
 * The independent counter, a process of its own: `node counter-server.js` listens on 127.0.0.1 and prints its address.
 * It lives as long as its standard input is open, so it never outlives whoever started it.
 *
 * `POST /<run>/count {identity, idempotencyKey?}` · `POST /<run>/counted {identity}` · `POST /<run>/node {name, step}` ·
 * `POST /<run>/report {}` → {@link CounterReport}. Runs are kept apart by the first part of the path.
 */

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

/** Everything counted in one run. */
export interface CounterReport {
  /** `times` is what counts; `calls` includes those of keys seen before. */
  readonly counts: Readonly<Record<string, { readonly times: number; readonly calls: number }>>;
  /** Nodes in the order in which they began. */
  readonly nodes: readonly { readonly name: string; readonly step: number }[];
}

class Ledger {
  readonly #keys = new Set<string>();
  readonly #counts = new Map<string, { times: number; calls: number }>();
  readonly #nodes: { name: string; step: number }[] = [];

  answer(what: string, body: { identity?: string; idempotencyKey?: string; name?: string; step?: number }): unknown {
    switch (what) {
      case "count":
        return this.#count(body.identity ?? "", body.idempotencyKey);
      case "counted":
        return { times: this.#counts.get(body.identity ?? "")?.times ?? 0 };
      case "node":
        this.#nodes.push({ name: body.name ?? "", step: body.step ?? 0 });
        return {};
      case "report":
        return { counts: Object.fromEntries(this.#counts), nodes: this.#nodes } satisfies CounterReport;
      default:
        return undefined;
    }
  }

  #count(identity: string, key: string | undefined): { times: number } {
    const entry = this.#counts.get(identity) ?? { times: 0, calls: 0 };
    this.#counts.set(identity, entry);
    entry.calls += 1;
    if (key === undefined || !this.#keys.has(key)) entry.times += 1;
    if (key !== undefined) this.#keys.add(key);
    return { times: entry.times };
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
