/**
 * What a program under the crash matrix says about itself. All of it is for programs that the matrix starts: it sets
 * `HOLDFAST_DIR` (the state directory, new for every fault point) and `HOLDFAST_COUNTER_URL` (the counter, a process that
 * is not killed and to which the program's effects are the outside world).
 */

import { once } from "node:events";
import { writeSync } from "node:fs";
import { type IncomingMessage, request } from "node:http";
import { text } from "node:stream/consumers";
import { HoldfastError } from "../errors.ts";

/** Exit code of a program that is not finished and asks to be started again, for example to answer a question. */
export const START_AGAIN = 75;

/** The state directory of this run of the program; the same for every start after a kill. */
export function stateDirectory(): string {
  return fromMatrix("HOLDFAST_DIR");
}

/**
 * Prints the program's result, `{"result": …}` on a line of its own, synchronously. The last one counts. It is compared
 * with that of a run that was not killed, as JSON: leave out what may differ, such as ids and times.
 */
export function reportResult(value: unknown): void {
  writeSync(1, `${JSON.stringify({ result: value ?? null })}\n`);
}

export interface CountOptions {
  /** What the effect was handed; {@link counted} can be asked for it. */
  readonly idempotencyKey?: string;
  /** The counter is an idempotent receiver: it does not count a key again that it has seen. Default false. */
  readonly idempotent?: boolean;
  readonly signal?: AbortSignal;
}

/**
 * The side effect to count: one more execution of `identity`; resolves with how often it has been executed by now, this
 * time included.
 */
export async function count(identity: string, options: CountOptions = {}): Promise<number> {
  const { signal, ...rest } = options;
  const answer = await ask("count", { identity, ...rest }, signal);
  return (answer as { times: number }).times;
}

/**
 * How often `identity` has been executed, or only under this key: what a `verify` hook or an operator asks the outside
 * world.
 */
export async function counted(identity: string, idempotencyKey?: string): Promise<number> {
  const answer = await ask("counted", { identity, idempotencyKey });
  return (answer as { times: number }).times;
}

/**
 * Tells the counter that a node begins. Once a node of a later `step` has begun, a node of an earlier one has finished
 * and must not begin again; the matrix fails where one does. For graphs whose finished steps are durable before the
 * next one begins: durability "sync", or an effect in every step.
 */
export async function nodeStarted(name: string, step: number): Promise<void> {
  await ask("node", { name, step });
}

async function ask(what: string, body: unknown, signal?: AbortSignal): Promise<unknown> {
  // Not fetch: loading it takes longer than many a program runs.
  const call = request(`${fromMatrix("HOLDFAST_COUNTER_URL")}/${what}`, {
    method: "POST",
    ...(signal === undefined ? {} : { signal }),
  });
  call.end(JSON.stringify(body));
  const [response] = (await once(call, "response")) as [IncomingMessage];
  const answer = await text(response);
  if (response.statusCode !== 200) throw new Error(`counter: ${response.statusCode} ${answer}`);
  return JSON.parse(answer);
}

function fromMatrix(name: string): string {
  const value = process.env[name];
  if (value === undefined || value === "") {
    throw new HoldfastError(
      "INVALID_ARGUMENT",
      `${name} is not set: this program is meant to be started by crashMatrix. To start it by hand, set HOLDFAST_DIR to a ` +
        "directory and HOLDFAST_COUNTER_URL to the address of a counter (`node counter-server.js` prints one).",
    );
  }
  return value;
}
