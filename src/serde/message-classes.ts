/** The message classes of LangChain, and how an untouched instance of each looks. */

import {
  AIMessage,
  AIMessageChunk,
  ChatMessage,
  ChatMessageChunk,
  FunctionMessage,
  FunctionMessageChunk,
  HumanMessage,
  HumanMessageChunk,
  RemoveMessage,
  SystemMessage,
  SystemMessageChunk,
  ToolMessage,
  ToolMessageChunk,
} from "@langchain/core/messages";

/** Every message carries it, also those of a second copy of the package. */
export const MESSAGE_MARK = Symbol.for("langchain.message");

type MessageClass = { new (fields: never): object; readonly prototype: object };

export interface MessageClassEntry {
  readonly name: string;
  readonly create: MessageClass;
}

const entry = (name: string, create: unknown): MessageClassEntry => ({
  name,
  create: create as MessageClass,
});

/** Stored names are fixed here and not taken from `constructor.name`, which a bundler may change. */
export const messageClasses: readonly MessageClassEntry[] = [
  entry("HumanMessage", HumanMessage),
  entry("AIMessage", AIMessage),
  entry("SystemMessage", SystemMessage),
  entry("ToolMessage", ToolMessage),
  entry("FunctionMessage", FunctionMessage),
  entry("ChatMessage", ChatMessage),
  entry("RemoveMessage", RemoveMessage),
  entry("HumanMessageChunk", HumanMessageChunk),
  entry("AIMessageChunk", AIMessageChunk),
  entry("SystemMessageChunk", SystemMessageChunk),
  entry("ToolMessageChunk", ToolMessageChunk),
  entry("FunctionMessageChunk", FunctionMessageChunk),
  entry("ChatMessageChunk", ChatMessageChunk),
];
