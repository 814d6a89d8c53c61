/**
 * Names of keys, fields and index members. An id is never a part of a key's name (a thread stands there as its digest), and
 * inside a field or member every id but the last carries its length, so no character of one is a separator or a pattern.
 * What is last is compared by Redis byte by byte: UTF-8 sorts by code point.
 */

import { hash } from "node:crypto";
import { wellFormed } from "../ids.ts";

/** Threads whose digest is remembered. */
const KNOWN_MAX = 1000;
const known = new Map<string, string>();

/** Stands for a thread in the names of keys, and, once it is deleted, for its id. */
export function threadDigest(thread: string): string {
  let digest = known.get(thread);
  if (digest === undefined) {
    digest = hash("sha256", `holdfast thread ${wellFormed(thread)}`, "hex");
    if (known.size >= KNOWN_MAX) known.clear();
    known.set(thread, digest);
  }
  return digest;
}

/** `<bytes>:<text>`, which the scripts can take apart again. */
export function part(text: string): string {
  return `${Buffer.byteLength(wellFormed(text))}:${text}`;
}

/** Fields of a thread's hash; where rows are listed, also the members of its index. */
export const headField = (ns: string) => `n${wellFormed(ns)}`;
export const checkpointPrefix = (ns: string) => `c${part(ns)}`;
export const checkpointField = (ns: string, id: string) => checkpointPrefix(ns) + wellFormed(id);
export const writesPrefix = (ns: string, checkpoint: string, task: string) =>
  `w${part(ns)}${part(checkpoint)}${part(task)}`;
/** Regular slots after special ones; the letter tells the scripts which it is. */
export const slotName = (slot: number) => (slot < 0 ? `s${-slot}` : `t${`${slot}`.padStart(6, "0")}`);
export const listPrefix = (list: string) => `i${part(list)}`;
export const itemsField = (list: string, start: number) => listPrefix(list) + paddedNumber(start);
export const baseField = (list: string) => `b${wellFormed(list)}`;
export const blobField = (hash: string) => `B${wellFormed(hash)}`;
export const decisionField = (seq: number) => `D${seq}`;

/** Whole numbers from 0, in the order of their digits. */
export function paddedNumber(number: number): string {
  return `${number}`.padStart(16, "0");
}

const double = new DataView(new ArrayBuffer(8));

/** A moment as 16 hex digits that sort as the moments do, fractions and negative ones included. */
export function sortableMoment(moment: number): string {
  double.setFloat64(0, moment === 0 ? 0 : moment);
  let bits = double.getBigUint64(0);
  bits = moment < 0 ? ~bits & 0xffffffffffffffffn : bits | 0x8000000000000000n;
  return bits.toString(16).padStart(16, "0");
}

export function momentOf(sortable: string): number {
  const bits = BigInt(`0x${sortable}`);
  const positive = (bits & 0x8000000000000000n) !== 0n;
  double.setBigUint64(0, positive ? bits & 0x7fffffffffffffffn : ~bits & 0xffffffffffffffffn);
  return double.getFloat64(0);
}
