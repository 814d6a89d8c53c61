/**
 * Messages, the bulk of an agent's state: one flat node each, compared without allocation and revived without
 * LangChain's constructors (they cost 1 to 3 µs and rewrite their argument).
 *
 * A message keeps its constructor's argument in `lc_kwargs`; `toJSON()` walks its keys and reads the values from the
 * message. Usually each of its values is the very value of the message's field, so a node keeps only which keys it has
 * and in which order (`shape`, one letter each). A message edited out of this form (extra fields, another value in
 * `lc_kwargs`) is kept by `instanceCodec` instead.
 */

import { type Fields, kindsByName, type MessageKind, type MessageShape } from "./message-kind.ts";
import { isPlain, isPlainArray } from "./primitive.ts";
import { BlobTree, damaged, type Tree, type TreeNode, tagged, UNDEFINED } from "./tree.ts";

/** A message in its usual shape. A field that is undefined here has its default: undefined, `{}` or `[]`. */
export class MessageTree implements TreeNode {
  readonly kind: MessageKind;
  readonly shape: MessageShape;
  readonly content: Tree;
  readonly id: Tree | undefined;
  readonly name: Tree | undefined;
  readonly kwargs: Tree | undefined;
  readonly metadata: Tree | undefined;
  /** In the order of `kind.rest`; undefined where all have their defaults. */
  readonly rest: readonly (Tree | undefined)[] | undefined;
  /** The content of a message that is a text and nothing else, see {@link samePlainMessage}; undefined for others. */
  readonly text: string | undefined;
  /** The message that was compared last and found to be the same, and its parts by reference. Only compared with. */
  seen: object | undefined = undefined;
  seenKwargs: unknown = undefined;
  seenMetadata: unknown = undefined;
  seenCalls: unknown = undefined;
  seenInvalid: unknown = undefined;

  constructor(
    kind: MessageKind,
    shape: MessageShape,
    content: Tree,
    id: Tree | undefined,
    name: Tree | undefined,
    kwargs: Tree | undefined,
    metadata: Tree | undefined,
    rest: readonly (Tree | undefined)[] | undefined,
  ) {
    this.kind = kind;
    this.shape = shape;
    this.content = content;
    this.id = id;
    this.name = name;
    this.kwargs = kwargs;
    this.metadata = metadata;
    this.rest = rest;
    const bare = kwargs === undefined && metadata === undefined && rest === undefined && kind.family !== "other";
    this.text = bare && typeof id !== "object" && typeof name !== "object" ? textOf(content) : undefined;
  }

  toJSON(): Tree {
    const fields: Record<string, Tree> = { content: this.content };
    if (this.id !== undefined) fields.id = this.id;
    if (this.name !== undefined) fields.name = this.name;
    if (this.kwargs !== undefined) fields.additional_kwargs = this.kwargs;
    if (this.metadata !== undefined) fields.response_metadata = this.metadata;
    this.rest?.forEach((item, i) => {
      if (item !== undefined) fields[this.kind.rest[i] as string] = item;
    });
    return tagged("m", this.kind.name, this.shape.text, fields);
  }
}

function textOf(content: Tree): string | undefined {
  const text = content instanceof BlobTree ? content.data : content;
  return typeof text === "string" ? text : undefined;
}

/** Whether `value` is a plain object without properties. */
function isEmptyObject(value: unknown): boolean {
  if (!isPlain(value)) return false;
  for (const _key in value) return false;
  return true;
}

const isEmptyList = (value: unknown): boolean => Array.isArray(value) && value.length === 0 && isPlainArray(value);

/**
 * The node of a message, or undefined where it is out of its usual shape. `tree` makes the trees of the fields.
 */
export function messageTree(
  kind: MessageKind,
  message: object,
  tree: (value: unknown, field: string) => Tree,
): MessageTree | undefined {
  const fields = message as Fields;
  if (!hasUsualFields(kind, fields) || Object.getOwnPropertySymbols(fields).length !== 1) return undefined;
  const shape = shapeOf(kind, fields);
  if (shape === undefined) return undefined;
  let rest: (Tree | undefined)[] | undefined;
  for (let i = 0; i < kind.rest.length; i++) {
    const key = kind.rest[i] as string;
    const item = fields[key];
    if (kind.restIsList[i] ? isEmptyList(item) : item === undefined) continue;
    rest ??= new Array<Tree | undefined>(kind.rest.length).fill(undefined);
    rest[i] = tree(item, key);
  }
  return new MessageTree(
    kind,
    shape,
    tree(fields.content, "content"),
    fields.id === undefined ? undefined : tree(fields.id, "id"),
    fields.name === undefined ? undefined : tree(fields.name, "name"),
    isEmptyObject(fields.additional_kwargs) ? undefined : tree(fields.additional_kwargs, "additional_kwargs"),
    isEmptyObject(fields.response_metadata) ? undefined : tree(fields.response_metadata, "response_metadata"),
    rest,
  );
}

/** Whether a message has exactly its class's own fields, and the constant ones have their constant values. */
function hasUsualFields(kind: MessageKind, fields: Fields): boolean {
  if (!hasOwnKeys(kind, fields)) return false;
  const namespace = fields.lc_namespace as readonly unknown[] | undefined;
  return (
    fields.type === kind.type &&
    fields.lc_serializable === true &&
    namespace?.length === 2 &&
    namespace[0] === "langchain_core" &&
    namespace[1] === "messages" &&
    (!kind.directOutput || fields.lc_direct_tool_output === true)
  );
}

/** The shape of `lc_kwargs`, or undefined where it holds a value that is not the message's own. */
function shapeOf(kind: MessageKind, fields: Fields): MessageShape | undefined {
  const kwargs = fields.lc_kwargs;
  if (!isPlain(kwargs)) return undefined;
  let text = "";
  for (const key in kwargs) {
    const letter = kind.letters.get(key);
    if (letter === undefined || (kwargs as Fields)[key] !== fields[key]) return undefined;
    text += letter;
  }
  return kind.shape(text);
}

export function isUsualMessage(kind: MessageKind, message: object): boolean {
  return hasUsualFields(kind, message as Fields) && shapeOf(kind, message as Fields) !== undefined;
}

/**
 * {@link sameMessage} for a tree with a `text`. It runs over the whole conversation at every superstep, and there the
 * time goes into waiting for memory: what was looked at before is looked at again in as few steps as can be, so that the
 * processor gets on to the next messages meanwhile. Half the time of looking at everything anew (4,000 messages, cold
 * caches: 180 against 350 ns each).
 */
export function samePlainMessage(tree: MessageTree, message: object, same: Same): boolean {
  const fields = message as Fields;
  if (tree.seen === message) return isAsSeen(tree, fields);
  if (!sameMessage(tree, message, same)) return false;
  tree.seen = message;
  tree.seenKwargs = fields.additional_kwargs;
  tree.seenMetadata = fields.response_metadata;
  tree.seenCalls = fields.tool_calls;
  tree.seenInvalid = fields.invalid_tool_calls;
  return true;
}

function isAsSeen(tree: MessageTree, fields: Fields): boolean {
  const { kind } = tree;
  if (
    fields.content !== tree.text ||
    fields.id !== tree.id ||
    fields.name !== tree.name ||
    fields.additional_kwargs !== tree.seenKwargs ||
    fields.response_metadata !== tree.seenMetadata ||
    fields.type !== kind.type ||
    fields.lc_serializable !== true
  )
    return false;
  if (kind.family === "ai") {
    const { tool_calls, invalid_tool_calls } = fields as { tool_calls: unknown; invalid_tool_calls: unknown };
    if (tool_calls !== tree.seenCalls || invalid_tool_calls !== tree.seenInvalid || fields.usage_metadata !== undefined)
      return false;
    if ((tool_calls as unknown[]).length > 0 || (invalid_tool_calls as unknown[]).length > 0) return false;
  }
  for (const _key in tree.seenKwargs as object) return false;
  for (const _key in tree.seenMetadata as object) return false;
  // A field that was added stands at the end.
  let count = 0;
  let last = "";
  for (const key in fields) {
    count++;
    last = key;
  }
  return count === kind.keys.length && last === kind.keys[count - 1];
}

/** Whether {@link messageTree} would give this tree. `same` compares the fields that are no equal primitives. */
export function sameMessage(tree: MessageTree, message: object, same: Same): boolean {
  const { kind } = tree;
  const fields = message as Fields;
  const { content, id, name, additional_kwargs, response_metadata } = fields;
  return (
    sameField(tree.content, content, same) &&
    sameField(tree.id, id, same) &&
    sameField(tree.name, name, same) &&
    (tree.kwargs === undefined ? isEmptyObject(additional_kwargs) : same(tree.kwargs, additional_kwargs)) &&
    (tree.metadata === undefined ? isEmptyObject(response_metadata) : same(tree.metadata, response_metadata)) &&
    sameRest(tree, fields, same) &&
    fields.type === kind.type &&
    fields.lc_serializable === true &&
    (!kind.directOutput || fields.lc_direct_tool_output === true) &&
    hasOwnKeys(kind, fields)
  );
}

/**
 * Whether the message has exactly its class's own fields. The keys stand with the object's shape in V8, so this touches
 * no memory of the message itself. What stands behind `lc_kwargs` and `lc_namespace` is not looked at again: it repeats
 * the message and its class, and over a long conversation the memory touched per message is what the comparison costs.
 */
function hasOwnKeys(kind: MessageKind, fields: Fields): boolean {
  const { keys } = kind;
  let n = 0;
  for (const key in fields) {
    if (key !== keys[n]) return false;
    n++;
  }
  return n === keys.length;
}

type Same = (tree: Tree, value: unknown) => boolean;

function sameRest(tree: MessageTree, fields: Fields, same: Same): boolean {
  const { rest } = tree;
  switch (tree.kind.family) {
    case "plain":
      return true;
    case "ai": {
      const { tool_calls, invalid_tool_calls, usage_metadata } = fields;
      if (rest === undefined) {
        return isEmptyList(tool_calls) && isEmptyList(invalid_tool_calls) && usage_metadata === undefined;
      }
      return (
        (rest[0] === undefined ? isEmptyList(tool_calls) : same(rest[0], tool_calls)) &&
        (rest[1] === undefined ? isEmptyList(invalid_tool_calls) : same(rest[1], invalid_tool_calls)) &&
        sameField(rest[2], usage_metadata, same)
      );
    }
    case "tool": {
      const { status, tool_call_id, metadata, artifact } = fields;
      return (
        sameField(rest?.[0], status, same) &&
        sameField(rest?.[1], tool_call_id, same) &&
        sameField(rest?.[2], metadata, same) &&
        sameField(rest?.[3], artifact, same)
      );
    }
    case "other":
      return tree.kind.rest.every((key, i) => {
        const stored = rest?.[i];
        const isList = stored === undefined && tree.kind.restIsList[i];
        return isList ? isEmptyList(fields[key]) : sameField(stored, fields[key], same);
      });
  }
}

function sameField(stored: Tree | undefined, value: unknown, same: Same): boolean {
  return stored === undefined ? value === undefined : same(stored, value);
}

/** The node of a stored message, its fields as `tree` gives them. */
export function storedMessage(parts: readonly Tree[], tree: (stored: Tree) => Tree): MessageTree {
  const [, name, text, fields] = parts;
  const kind = kindsByName.get(name as string);
  if (kind === undefined) throw damaged(`a message of an unknown class ${JSON.stringify(name)}`);
  if (typeof text !== "string" || typeof fields !== "object" || fields === null || Array.isArray(fields)) {
    throw damaged("a message without fields");
  }
  const stored = fields as Readonly<Record<string, Tree | undefined>>;
  const known = (key: string): Tree | undefined => {
    const item = stored[key];
    return item === undefined ? undefined : tree(item);
  };
  let rest: (Tree | undefined)[] | undefined;
  for (let i = 0; i < kind.rest.length; i++) {
    const key = kind.rest[i] as string;
    if (stored[key] === undefined) continue;
    rest ??= new Array<Tree | undefined>(kind.rest.length).fill(undefined);
    rest[i] = tree(stored[key]);
  }
  return new MessageTree(
    kind,
    kind.shape(text),
    tree(stored.content ?? UNDEFINED),
    known("id"),
    known("name"),
    known("additional_kwargs"),
    known("response_metadata"),
    rest,
  );
}

/** A new message from its node. */
export function revivedMessage(tree: MessageTree, value: (stored: Tree) => unknown): object {
  const { kind, shape, rest } = tree;
  const message = kind.blank();
  message.content = value(tree.content);
  if (tree.id !== undefined) message.id = value(tree.id);
  if (tree.name !== undefined) message.name = value(tree.name);
  message.additional_kwargs = tree.kwargs === undefined ? {} : value(tree.kwargs);
  message.response_metadata = tree.metadata === undefined ? {} : value(tree.metadata);
  for (let i = 0; i < kind.rest.length; i++) {
    const item = rest?.[i];
    if (item !== undefined) message[kind.rest[i] as string] = value(item);
    else if (kind.restIsList[i]) message[kind.rest[i] as string] = [];
  }
  const kwargs: Fields = {};
  for (const key of shape.keys) kwargs[key] = message[key];
  message.lc_kwargs = kwargs;
  return message;
}
