/**
 * The classes of messages: which own fields an instance has, in which order, and how to make one without LangChain's
 * constructors (they cost up to 3 µs and rewrite their argument).
 */

import { MESSAGE_MARK, messageClasses } from "./message-classes.ts";
import { damaged } from "./tree.ts";

/** A message, seen as its properties. */
export type Fields = Record<PropertyKey, unknown>;

/** Keys of `lc_kwargs` that are also fields of a message. Letters are stored: never change one. */
const LETTERS: Readonly<Record<string, string>> = {
  content: "c",
  id: "i",
  name: "n",
  additional_kwargs: "a",
  response_metadata: "r",
  tool_calls: "t",
  invalid_tool_calls: "v",
  tool_call_chunks: "h",
  usage_metadata: "u",
  tool_call_id: "k",
  status: "s",
  artifact: "f",
  metadata: "m",
  role: "o",
};
const KEYS: ReadonlyMap<string, string> = new Map(Object.entries(LETTERS).map(([key, letter]) => [letter, key]));

/** Own fields that are the same in every instance of the class. */
const CONSTANT = ["lc_serializable", "lc_kwargs", "lc_namespace", "lc_direct_tool_output", "type"];

/** Which keys `lc_kwargs` has; all their values are those of the message's own fields. */
export class MessageShape {
  readonly text: string;
  readonly keys: readonly string[];

  constructor(text: string, keys: readonly string[]) {
    this.text = text;
    this.keys = keys;
  }
}

const families: Readonly<Record<string, MessageKind["family"]>> = {
  "": "plain",
  "tool_calls,invalid_tool_calls,usage_metadata": "ai",
  "status,tool_call_id,metadata,artifact": "tool",
};

/** One message class. */
export class MessageKind {
  readonly name: string;
  readonly prototype: object;
  readonly create: unknown;
  readonly type: string;
  readonly directOutput: boolean;
  /** Own string keys of an untouched instance, in order. */
  readonly keys: readonly string[];
  /** Fields beyond those every message has, and their value in an untouched instance: `[]` or undefined. */
  readonly rest: readonly string[];
  readonly restIsList: readonly boolean[];
  /** How the fields beyond the common ones are compared. */
  readonly family: "plain" | "ai" | "tool" | "other";
  /** The letter of each field that `lc_kwargs` may have too. */
  readonly letters: ReadonlyMap<string, string>;
  readonly #shapes = new Map<string, MessageShape>();
  /** Makes instances that differ from the constructor's in nothing; its prototype is the class's. */
  readonly #blank: new () => Fields;

  constructor(name: string, specimen: Fields) {
    this.name = name;
    this.prototype = Object.getPrototypeOf(specimen) as object;
    this.create = specimen.constructor;
    this.type = String(specimen.type);
    this.directOutput = "lc_direct_tool_output" in specimen;
    this.keys = Object.keys(specimen);
    this.rest = this.keys.filter((key) => !CONSTANT.includes(key) && !COMMON.includes(key));
    this.restIsList = this.rest.map((key) => Array.isArray(specimen[key]));
    this.family = families[this.rest.join()] ?? "other";
    this.letters = new Map(Object.entries(LETTERS).filter(([key]) => this.keys.includes(key)));
    this.#blank = blankOf(specimen);
  }

  blank(): Fields {
    return new this.#blank();
  }

  shape(text: string): MessageShape {
    let shape = this.#shapes.get(text);
    if (shape === undefined) {
      const keys = Array.from(text, (letter) => {
        const key = KEYS.get(letter);
        if (key === undefined || !this.letters.has(key)) throw damaged(`a message of an unknown shape "${text}"`);
        return key;
      });
      shape = new MessageShape(text, keys);
      this.#shapes.set(text, shape);
    }
    return shape;
  }
}

const COMMON = ["id", "name", "content", "additional_kwargs", "response_metadata"];

/**
 * A constructor that sets the same own properties in the same order as the class does, as V8 can optimise it. Anything
 * the class adds in a later version, which this does not know, is taken from the untouched instance.
 */
function blankOf(specimen: Fields): new () => Fields {
  const { type } = specimen;
  const direct = "lc_direct_tool_output" in specimen;
  const later = Object.keys(specimen).filter((key) => !CONSTANT.includes(key) && !COMMON.includes(key));
  const isAi = later.join() === "tool_calls,invalid_tool_calls,usage_metadata";
  function Blank(this: Fields): void {
    this.lc_serializable = true;
    this.lc_kwargs = undefined;
    this.lc_namespace = ["langchain_core", "messages"];
    this[MESSAGE_MARK] = true;
    this.id = undefined;
    this.name = undefined;
    this.content = undefined;
    this.additional_kwargs = undefined;
    this.response_metadata = undefined;
    if (direct) this.lc_direct_tool_output = true;
    this.type = type;
    if (isAi) {
      this.tool_calls = undefined;
      this.invalid_tool_calls = undefined;
      this.usage_metadata = undefined;
    } else {
      for (const key of later) this[key] = undefined;
    }
  }
  Blank.prototype = Object.getPrototypeOf(specimen);
  return Blank as unknown as new () => Fields;
}

const specimenOf = (create: new (fields: never) => object): Fields => {
  const fields = {
    content: "",
    id: undefined,
    name: undefined,
    role: "",
    tool_call_id: "",
  };
  return new create(fields as never) as Fields;
};

const kindList = messageClasses.map(({ name, create }) => new MessageKind(name, specimenOf(create)));
export const kindsByName: ReadonlyMap<string, MessageKind> = new Map(kindList.map((kind) => [kind.name, kind]));
const kindsByPrototype = new Map(kindList.map((kind) => [kind.prototype, kind]));

/** Prototypes of a second copy of LangChain, once seen. */
const foreignKinds = new WeakMap<object, MessageKind>();

/**
 * The class of a message by its prototype. A second copy of LangChain (an application that uses `require` gets the
 * CommonJS one) is recognised by brand and name; its messages come back as instances of this copy's classes.
 */
export function messageKind(proto: object, value: object): MessageKind | undefined {
  const kind = kindsByPrototype.get(proto) ?? foreignKinds.get(proto);
  if (kind !== undefined || (value as Fields)[MESSAGE_MARK] !== true || !Object.hasOwn(proto, "constructor"))
    return kind;
  const foreign = kindsByName.get(proto.constructor.name);
  const parent: unknown = Object.getPrototypeOf(proto)?.constructor?.name;
  if (foreign === undefined || (parent !== "BaseMessage" && parent !== "BaseMessageChunk")) return undefined;
  foreignKinds.set(proto, foreign);
  return foreign;
}
