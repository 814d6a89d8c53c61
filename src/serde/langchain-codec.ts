/**
 * LangChain's and LangGraph's own classes, as their own properties. Instances only: a plain object that looks like one
 * is plain data. A revived instance is made from its prototype, not by its constructor: constructors rewrite what they
 * are given (`Send` makes commands of look-alikes in its arguments, `AIMessage` parses tool calls).
 *
 * Messages in their usual shape have a codec of their own, see `message.ts`; this one keeps those that were edited
 * out of that shape.
 */

import { Document } from "@langchain/core/documents";
import { Command, Overwrite, Send } from "@langchain/langgraph";
import { DeltaSnapshot } from "@langchain/langgraph-checkpoint";
import type { ClassCodec } from "./class-codec.ts";
import { messageKind } from "./message-kind.ts";
import { MESSAGE_MARK, messageClasses } from "./message-classes.ts";
import { damaged, setOwn } from "./tree.ts";

interface KnownClass {
  readonly name: string;
  readonly prototype: object;
  /** Symbol-keyed own properties of every instance, stored after the others. */
  readonly marks: readonly symbol[];
}

const COMMAND_MARK = Symbol.for("langgraph.command");

const known: readonly KnownClass[] = [
  { name: "Document", prototype: Document.prototype, marks: [] },
  { name: "Send", prototype: Send.prototype, marks: [] },
  { name: "Command", prototype: Command.prototype, marks: [COMMAND_MARK] },
  { name: "Overwrite", prototype: Overwrite.prototype, marks: [] },
  { name: "DeltaSnapshot", prototype: DeltaSnapshot.prototype, marks: [] },
  ...messageClasses.map(({ name, create }) => ({
    name,
    prototype: create.prototype as object,
    marks: [MESSAGE_MARK],
  })),
];

const byName = new Map(known.map((entry) => [entry.name, entry]));
const byPrototype = new Map(known.map((entry) => [entry.prototype, entry]));

/** Own `lg_name` of instances whose class may come from a second copy of the package. */
const branded = new Set(["Send", "Command", "Overwrite", "DeltaSnapshot"]);

/**
 * The known class of an instance, also one made by a second copy of LangChain (an application that uses `require`
 * gets the CommonJS copy): it carries the class's name and its brand, and comes back as this copy's class.
 */
function classOf(value: object, proto: object): KnownClass | undefined {
  const own = byPrototype.get(proto);
  if (own !== undefined) return own;
  const name: unknown = Object.hasOwn(proto, "constructor") ? proto.constructor.name : undefined;
  const entry = typeof name === "string" ? byName.get(name) : undefined;
  if (entry === undefined) return undefined;
  const fields = value as Record<PropertyKey, unknown>;
  if (branded.has(entry.name)) return fields.lg_name === entry.name ? entry : undefined;
  if (entry.name === "Document") return isDocumentShape(value, proto) ? entry : undefined;
  return messageKind(proto, value)?.name === entry.name ? entry : undefined;
}

/** A `Document` has no brand; other libraries have classes of that name. */
function isDocumentShape(value: object, proto: object): boolean {
  return (
    Object.keys(value).join() === "pageContent,metadata,id" &&
    Object.getOwnPropertyNames(proto).join() === "constructor"
  );
}

export function isKnownInstance(value: object, proto: object): boolean {
  return classOf(value, proto) !== undefined;
}

export const instanceCodec: ClassCodec = {
  tag: "i",
  parts: (value) => {
    const { name, marks } = classOf(value, Object.getPrototypeOf(value) as object) as KnownClass;
    const fields: Record<string, unknown> = {};
    for (const key of Object.keys(value)) setOwn(fields, key, (value as Record<string, unknown>)[key]);
    return [name, fields, ...marks.map((mark) => (value as Record<symbol, unknown>)[mark])];
  },
  create: ([name]) => {
    const entry = typeof name === "string" ? byName.get(name) : undefined;
    if (entry === undefined) throw damaged(`an instance of an unknown class ${JSON.stringify(name)}`);
    return Object.create(entry.prototype) as object;
  },
  fill: (value, [name, fields, ...marks]) => {
    const entry = byName.get(name as string) as KnownClass;
    for (const [key, item] of Object.entries(Object(fields))) setOwn(value, key, item);
    for (const [i, mark] of entry.marks.entries()) setOwn(value, mark, marks[i]);
  },
  place: () => "",
};

/** Symbols an instance carries by its class, so that they are not taken for a user's. */
export const knownMarks: ReadonlySet<symbol> = new Set([MESSAGE_MARK, COMMAND_MARK]);
