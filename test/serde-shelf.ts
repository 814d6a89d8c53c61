import { createHash } from "node:crypto";
import { encoded, payload, Serde, type Tree, type ValueType } from "../src/serde.ts";

export const where = () => 'channel "x" written by task "a"';

/** Stores values as a backend would: JSON text, and blobs by hash. */
export class Shelf {
  readonly serde: Serde;
  readonly blobs = new Map<string, string | Uint8Array>();

  constructor(types: readonly ValueType[] = []) {
    this.serde = new Serde({ types });
  }

  tree(value: unknown): Tree {
    const put = (data: string | Uint8Array) => {
      const hash = createHash("sha256").update(data).digest("hex");
      this.blobs.set(hash, data);
      return hash;
    };
    return this.serde.toTree(value, { put }, where);
  }

  text(value: unknown): string {
    return encoded(this.serde.stringify(this.tree(value)));
  }

  read(text: string): unknown {
    return this.serde.fromTree(this.serde.parse(payload(text)), this.blobs, where);
  }
}

/** Longer than the limit from which strings are blobs. */
export const long = "lorem ipsum ".repeat(50);

export const toolCall = { name: "search", args: { q: ["a", 1] }, id: "call-1", type: "tool_call" as const };
