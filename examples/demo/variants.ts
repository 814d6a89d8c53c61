import type { Calls } from "./cases.ts";

export type VariantName = "holdfast" | "official" | "official-sync";

/** A way to run the graphs that is measured. */
export interface Variant {
  readonly name: VariantName;
  readonly label: string;
  readonly calls: Calls;
  readonly saver: "holdfast" | "official";
  /** LangGraph's durability; undefined = its default. */
  readonly durability: "sync" | undefined;
}

export type DemoBackend = "sqlite" | "jsonl";

export function variants(backend: DemoBackend): readonly Variant[] {
  return [
    { name: "holdfast", label: `Holdfast, ${backend}`, calls: "effects", saver: "holdfast", durability: undefined },
    { name: "official", label: "SqliteSaver, default", calls: "plain", saver: "official", durability: undefined },
    { name: "official-sync", label: "SqliteSaver, sync", calls: "plain", saver: "official", durability: "sync" },
  ];
}
