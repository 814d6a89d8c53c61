/** What a call's definition makes of its input: the checked input, the key, and what the record says of the call. */

import type { EffectDefinition } from "./effect.ts";
import { type EffectLinks, effectKey } from "./effect-record.ts";
import type { Site } from "./effect-site.ts";
import { HoldfastError } from "./errors.ts";

type Definition = EffectDefinition<unknown, unknown>;

export function linksOf({ place }: Site, { onFork, onUnknown, simulate }: Definition): EffectLinks {
  const node = place.config.metadata?.["langgraph_node"];
  return {
    ...(typeof node === "string" ? { node } : {}),
    ...(onFork === undefined ? {} : { onFork }),
    ...(onUnknown === "rerun" ? { rerun: true } : {}),
    ...(simulate === undefined ? {} : { simulates: true }),
  };
}

export function givenKey(name: string, definition: Definition, input: unknown): string | undefined {
  if (definition.key === undefined) return undefined;
  const key = definition.key(input);
  if (typeof key === "string" && key !== "") return effectKey(["key", name, key]);
  throw new HoldfastError(
    "INVALID_ARGUMENT",
    `Effect ${JSON.stringify(name)}: key(input) gave ${JSON.stringify(key)}; it must give a string that is not empty.`,
  );
}

export function parseInput(name: string, definition: Definition, input: unknown): unknown {
  try {
    return definition.input.parse(input);
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : String(cause);
    throw new HoldfastError(
      "INVALID_ARGUMENT",
      `Effect ${JSON.stringify(name)} was called with an input that its schema refuses; it was not run. ${message}`,
      {
        cause,
        details: { name },
      },
    );
  }
}
