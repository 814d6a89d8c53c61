/**
 * The places where a process of a durable graph can die, given names.
 *
 * - `commit:<n>:before|inside|after`: the n-th group of commits of this process, from 1. `before` nothing has reached the
 *   backend; `inside` the backend is half done (before COMMIT, or after part of a line); `after` it is durable and nobody
 *   has been told.
 * - `effect:<name>:<n>:before|inside|after`: the n-th call of a body of that name in this process. `before` the intent is
 *   durable and the body has not begun; `after` the body has ended and nothing is recorded.
 * - `point:<name>:<n>`: the n-th time the program itself called `faultPoint(name)`.
 *
 * `inside` of an effect is reached once per call, at the first of these moments while the body is pending:
 * 1. the body calls `faultPoint()`, without a name;
 * 2. the answer to an HTTP request that the body began arrives (`fetch`, undici, `node:http`): the other side has done
 *    its work and the body has not seen it, which is the worst instant of all;
 * 3. such a request fails, for example by a timeout;
 * 4. the first turn of the event loop in which the body is pending and has begun no such request.
 * A body that ends without giving the event loop a turn has no inside: synchronous bodies, transactions.
 */

import { AsyncLocalStorage } from "node:async_hooks";
import { channel, subscribe, unsubscribe } from "node:diagnostics_channel";
import { type CommitEvent, channels, type EffectEvent } from "../events.ts";

/** Where {@link faultPoint} publishes: `{ name }`, or `{}` for the inside of the effect that calls it. */
export const faultPointChannel = channel("holdfast:testing:point");

/**
 * Names a place of your own program where a test may kill it: `point:<name>:<n>`. Without a name, inside the body of
 * an effect, it marks the point `effect:…:inside`. Does nothing where nobody listens, so it may stay in a program.
 */
export function faultPoint(name?: string): void {
  if (faultPointChannel.hasSubscribers) faultPointChannel.publish({ name });
}

/** One call of an effect's body. */
interface Call {
  readonly point: string;
  requests: number;
  ended: boolean;
  /** Whether its inside has been reached. */
  inside: boolean;
}

type Listener = (message: unknown) => void;

/** Counts from 1 for each name. */
class Counts {
  readonly #counts = new Map<string, number>();

  next(name: string): number {
    const count = (this.#counts.get(name) ?? 0) + 1;
    this.#counts.set(name, count);
    return count;
  }
}

/**
 * Calls `reached` with the name of every fault point of this thread as it is reached, synchronously; returns what ends
 * it. Points are counted from this call on.
 */
export function watchFaultPoints(reached: (point: string) => void): () => void {
  const counts = new Counts();
  const listeners: [name: string, listener: Listener][] = [
    ...commitListeners(counts, reached),
    ...effectListeners(counts, reached),
  ];
  for (const [name, listener] of listeners) subscribe(name, listener);
  return () => {
    for (const [name, listener] of listeners) unsubscribe(name, listener);
  };
}

function commitListeners(counts: Counts, reached: (point: string) => void): [string, Listener][] {
  // Several checkpointers of one process number their groups apart: what is open here is matched by that number.
  const open: { readonly point: string; readonly number: number }[] = [];
  const before = (event: CommitEvent) => {
    const point = `commit:${counts.next("commit")}`;
    open.push({ point, number: event.number });
    reached(`${point}:before`);
  };
  const inside = () => {
    // A database transaction of a body commits by itself: it has an inside and nothing around it.
    const point = open.at(-1)?.point ?? `commit:${counts.next("commit")}`;
    reached(`${point}:inside`);
  };
  const after = (event: CommitEvent) => {
    const at = open.findIndex((one) => one.number === event.number);
    const [done] = at < 0 ? [] : open.splice(at, 1);
    // A group that failed as a whole was not stored: there is nothing after it.
    if (done !== undefined && event.error === undefined) reached(`${done.point}:after`);
  };
  return [
    [channels.commitBefore.name as string, before as Listener],
    [channels.commitInside.name as string, inside],
    [channels.commitAfter.name as string, after as Listener],
  ];
}

function effectListeners(counts: Counts, reached: (point: string) => void): [string, Listener][] {
  const current = new AsyncLocalStorage<Call | undefined>();
  const open = new Map<string, Call>();
  const owners = new WeakMap<object, Call>();

  const enter = (call: Call | undefined) => {
    if (call === undefined || call.ended || call.inside) return;
    call.inside = true;
    reached(`${call.point}:inside`);
  };
  const before = (event: EffectEvent) => {
    const point = `effect:${event.name}:${counts.next(`effect:${event.name}`)}`;
    reached(`${point}:before`);
    const call: Call = { point, requests: 0, ended: false, inside: false };
    open.set(event.key, call);
    // The body is called in the same synchronous step as this listener, so it and all it starts belong to the call.
    current.enterWith(call);
    setImmediate(() => {
      if (call.requests === 0) enter(call);
    });
  };
  const after = (event: EffectEvent) => {
    const call = open.get(event.key);
    if (call === undefined) return;
    open.delete(event.key);
    call.ended = true;
    current.enterWith(undefined);
    reached(`${call.point}:after`);
  };
  const requestBegan = ({ request }: { readonly request: object }) => {
    const call = current.getStore();
    if (call === undefined) return;
    call.requests += 1;
    owners.set(request, call);
  };
  const requestAnswered = ({ request }: { readonly request: object }) => enter(owners.get(request));
  const named = ({ name }: { readonly name?: string }) => {
    if (name === undefined) enter(current.getStore());
    else reached(`point:${name}:${counts.next(`point:${name}`)}`);
  };
  return [
    [channels.effectBefore.name as string, before as Listener],
    [channels.effectAfter.name as string, after as Listener],
    [faultPointChannel.name as string, named as Listener],
    ["undici:request:create", requestBegan as Listener],
    ["undici:request:headers", requestAnswered as Listener],
    ["undici:request:error", requestAnswered as Listener],
    ["http.client.request.start", requestBegan as Listener],
    ["http.client.response.finish", requestAnswered as Listener],
    ["http.client.request.error", requestAnswered as Listener],
  ];
}

const COMMIT = /^commit:[1-9]\d*:(before|inside|after)$/;
const EFFECT = /^effect:.+:[1-9]\d*:(before|inside|after)$/s;
const POINT = /^point:.+:[1-9]\d*$/s;

/** Whether `text` has the form of a fault point's name. */
export function isFaultPoint(text: string): boolean {
  return COMMIT.test(text) || EFFECT.test(text) || POINT.test(text);
}
