/**
 * Messages, the bulk of an agent's state: one flat node each, compared without allocation and revived without
 * LangChain's constructors (they cost 1 to 3 µs and rewrite their argument).
 *
 * A message keeps its constructor's argument in `lc_kwargs`; `toJSON()` walks its keys and reads the values from the
 * message. Usually each of its values is the very value of the message's field, so a node keeps only which keys it has
 * and in which order (`shape`, one letter each). A message edited out of this form (extra fields, another value in
 * `lc_kwargs`) is kept by `instanceCodec` instead.
 */

import { MESSAGE_MARK, messageClasses } from "./message-classes.ts";
import {
	damaged,
	type Tree,
	type TreeNode,
	tagged,
	UNDEFINED,
} from "./tree.ts";

type Fields = Record<PropertyKey, unknown>;

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
const KEYS: ReadonlyMap<string, string> = new Map(
	Object.entries(LETTERS).map(([key, letter]) => [letter, key]),
);

/** Own fields that are the same in every instance of the class. */
const CONSTANT = [
	"lc_serializable",
	"lc_kwargs",
	"lc_namespace",
	"lc_direct_tool_output",
	"type",
];

export class MessageShape {
	readonly text: string;
	readonly keys: readonly string[];
	constructor(text: string, keys: readonly string[]) {
		this.text = text;
		this.keys = keys;
	}
}

/** One message class. */
export class MessageKind {
	readonly name: string;
	readonly prototype: object;
	readonly type: string;
	readonly directOutput: boolean;
	/** Own string keys of an untouched instance, in order. */
	readonly keys: readonly string[];
	/** Fields beyond those every message has, and their value in an untouched instance: `[]` or undefined. */
	readonly rest: readonly string[];
	readonly restIsList: readonly boolean[];
	readonly #shapes = new Map<string, MessageShape>();
	/** Makes instances that differ from the constructor's in nothing; its prototype is the class's. */
	readonly #blank: new () => Fields;

	constructor(name: string, specimen: Fields) {
		this.name = name;
		this.prototype = Object.getPrototypeOf(specimen) as object;
		this.type = String(specimen.type);
		this.directOutput = "lc_direct_tool_output" in specimen;
		this.keys = Object.keys(specimen);
		this.rest = this.keys.filter(
			(key) => !CONSTANT.includes(key) && !COMMON.includes(key),
		);
		this.restIsList = this.rest.map((key) => Array.isArray(specimen[key]));
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
				if (key === undefined || !this.keys.includes(key))
					throw damaged(`a message of an unknown shape "${text}"`);
				return key;
			});
			shape = new MessageShape(text, keys);
			this.#shapes.set(text, shape);
		}
		return shape;
	}
}

const COMMON = [
	"id",
	"name",
	"content",
	"additional_kwargs",
	"response_metadata",
];

/**
 * A constructor that sets the same own properties in the same order as the class does, as V8 can optimise it. Anything
 * the class adds in a later version, which this does not know, is taken from the untouched instance.
 */
function blankOf(specimen: Fields): new () => Fields {
	const { type } = specimen;
	const direct = "lc_direct_tool_output" in specimen;
	const later = Object.keys(specimen).filter(
		(key) => !CONSTANT.includes(key) && !COMMON.includes(key),
	);
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

const kindList = messageClasses.map(
	({ name, create }) => new MessageKind(name, specimenOf(create)),
);
const kindsByName = new Map(kindList.map((kind) => [kind.name, kind]));
const kindsByPrototype = new Map(
	kindList.map((kind) => [kind.prototype, kind]),
);

/** Prototypes of a second copy of LangChain, once seen. */
const foreignKinds = new WeakMap<object, MessageKind>();

/**
 * The class of a message by its prototype. A second copy of LangChain (an application that uses `require` gets the
 * CommonJS one) is recognised by brand and name; its messages come back as instances of this copy's classes.
 */
export function messageKind(
	proto: object,
	value: object,
): MessageKind | undefined {
	const kind = kindsByPrototype.get(proto) ?? foreignKinds.get(proto);
	if (
		kind !== undefined ||
		(value as Fields)[MESSAGE_MARK] !== true ||
		!Object.hasOwn(proto, "constructor")
	)
		return kind;
	const foreign = kindsByName.get(proto.constructor.name);
	const parent: unknown = Object.getPrototypeOf(proto)?.constructor?.name;
	if (
		foreign === undefined ||
		(parent !== "BaseMessage" && parent !== "BaseMessageChunk")
	)
		return undefined;
	foreignKinds.set(proto, foreign);
	return foreign;
}

export function isUsualMessage(kind: MessageKind, message: object): boolean {
	return (
		hasUsualFields(kind, message as Fields) &&
		shapeOf(kind, message as Fields) !== undefined
	);
}

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

/** Whether `value` is a plain object without properties. */
export function isEmptyObject(value: unknown): boolean {
	if (
		typeof value !== "object" ||
		value === null ||
		Object.getPrototypeOf(value) !== Object.prototype
	)
		return false;
	for (const _key in value) return false;
	return true;
}

export const isEmptyList = (value: unknown): boolean =>
	Array.isArray(value) &&
	value.length === 0 &&
	Object.getPrototypeOf(value) === Array.prototype;

/**
 * The node of a message, or undefined where it is out of its usual shape. `tree` makes the trees of the fields.
 */
export function messageTree(
	kind: MessageKind,
	message: object,
	tree: (value: unknown, field: string) => Tree,
): MessageTree | undefined {
	const fields = message as Fields;
	if (!hasUsualFields(kind, fields)) return undefined;
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
		isEmptyObject(fields.additional_kwargs)
			? undefined
			: tree(fields.additional_kwargs, "additional_kwargs"),
		isEmptyObject(fields.response_metadata)
			? undefined
			: tree(fields.response_metadata, "response_metadata"),
		rest,
	);
}

/** Whether a message has exactly its class's own fields, and the constant ones have their constant values. */
function hasUsualFields(kind: MessageKind, fields: Fields): boolean {
	const { keys } = kind;
	let n = 0;
	for (const key in fields) {
		if (key !== keys[n]) return false;
		n++;
	}
	if (n !== keys.length) return false;
	const namespace = fields.lc_namespace as readonly unknown[];
	return (
		fields.type === kind.type &&
		fields.lc_serializable === true &&
		fields[MESSAGE_MARK] === true &&
		Array.isArray(namespace) &&
		namespace.length === 2 &&
		namespace[0] === "langchain_core" &&
		namespace[1] === "messages" &&
		(!kind.directOutput || fields.lc_direct_tool_output === true)
	);
}

/** The shape of `lc_kwargs`, or undefined where it holds a value that is not the message's own. */
function shapeOf(kind: MessageKind, fields: Fields): MessageShape | undefined {
	const kwargs = fields.lc_kwargs;
	if (
		typeof kwargs !== "object" ||
		kwargs === null ||
		Object.getPrototypeOf(kwargs) !== Object.prototype
	) {
		return undefined;
	}
	let text = "";
	for (const key in kwargs) {
		const letter = Object.hasOwn(LETTERS, key) ? LETTERS[key] : undefined;
		if (letter === undefined || !kind.keys.includes(key)) return undefined;
		if (!Object.is((kwargs as Fields)[key], fields[key])) return undefined;
		text += letter;
	}
	return Object.getOwnPropertySymbols(kwargs).length === 0
		? kind.shape(text)
		: undefined;
}

/** Whether {@link messageTree} would give this tree. `same` compares the fields that are no equal primitives. */
export function sameMessage(
	tree: MessageTree,
	message: object,
	same: (tree: Tree, value: unknown) => boolean,
): boolean {
	const { kind, shape } = tree;
	const fields = message as Fields;
	const { content, id, name, additional_kwargs, response_metadata } = fields;
	if (tree.content !== content && !same(tree.content, content)) return false;
	if (tree.id !== id && (tree.id === undefined || !same(tree.id, id)))
		return false;
	if (tree.name !== name && (tree.name === undefined || !same(tree.name, name)))
		return false;
	if (
		tree.kwargs === undefined
			? !isEmptyObject(additional_kwargs)
			: !same(tree.kwargs, additional_kwargs)
	) {
		return false;
	}
	if (
		tree.metadata === undefined
			? !isEmptyObject(response_metadata)
			: !same(tree.metadata, response_metadata)
	) {
		return false;
	}
	return (
		(kind.rest.length === 0 || sameRest(tree, fields, same)) &&
		hasUsualFields(kind, fields) &&
		sameShape(shape, fields.lc_kwargs, fields)
	);
}

function sameRest(
	tree: MessageTree,
	fields: Fields,
	same: (tree: Tree, value: unknown) => boolean,
): boolean {
	const { rest: names, restIsList } = tree.kind;
	for (let i = 0; i < names.length; i++) {
		const item = fields[names[i] as string];
		const stored = tree.rest === undefined ? undefined : tree.rest[i];
		if (stored === undefined) {
			if (restIsList[i] ? !isEmptyList(item) : item !== undefined) return false;
		} else if (!same(stored, item)) {
			return false;
		}
	}
	return true;
}

function sameShape(
	shape: MessageShape,
	kwargs: unknown,
	fields: Fields,
): boolean {
	if (
		typeof kwargs !== "object" ||
		kwargs === null ||
		Object.getPrototypeOf(kwargs) !== Object.prototype
	)
		return false;
	const { keys } = shape;
	let n = 0;
	for (const key in kwargs) {
		if (key !== keys[n] || !Object.is((kwargs as Fields)[key], fields[key]))
			return false;
		n++;
	}
	return n === keys.length;
}

/** The node of a stored message, its fields as `tree` gives them. */
export function storedMessage(
	parts: readonly Tree[],
	tree: (stored: Tree) => Tree,
): MessageTree {
	const [, name, text, fields] = parts;
	const kind = kindsByName.get(name as string);
	if (kind === undefined)
		throw damaged(`a message of an unknown class ${JSON.stringify(name)}`);
	if (
		typeof text !== "string" ||
		typeof fields !== "object" ||
		fields === null ||
		Array.isArray(fields)
	) {
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
export function revivedMessage(
	tree: MessageTree,
	value: (stored: Tree) => unknown,
): object {
	const { kind, shape, rest } = tree;
	const message = kind.blank();
	message.content = value(tree.content);
	if (tree.id !== undefined) message.id = value(tree.id);
	if (tree.name !== undefined) message.name = value(tree.name);
	message.additional_kwargs =
		tree.kwargs === undefined ? {} : value(tree.kwargs);
	message.response_metadata =
		tree.metadata === undefined ? {} : value(tree.metadata);
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
