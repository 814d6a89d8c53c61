/** Where everything of a thread belongs: the tree of its checkpoints, and the effects and waits of each. */

import type { Checkpointer } from "./checkpointer.ts";
import { effectPlace } from "./effect-record.ts";
import { readMetadata } from "./fork-mark.ts";
import { type CheckpointMap, Lineage } from "./lineage.ts";
import type { CheckpointRow, DecisionRow, EffectRow, WaitRow } from "./model.ts";
import { type DecisionRecord, readDecision } from "./wait-record.ts";

/** What belongs to one checkpoint. */
export interface PlaceInHistory {
  readonly children: readonly string[];
  readonly head: boolean;
  readonly onHead: boolean;
  readonly left: boolean;
  readonly effects: readonly EffectRow[];
  readonly carried: readonly EffectRow[];
  readonly waits: readonly WaitRow[];
}

interface Node {
  readonly parent: string | undefined;
  readonly source: string;
  readonly children: string[];
}

const key = (ns: string, checkpoint: string): string => JSON.stringify([ns, checkpoint]);

/** Reads ids, effects and waits of the thread; no values. */
export async function byPlace(saver: Checkpointer, thread: string, subgraphs: boolean): Promise<Places> {
  const { backend, effectLedger } = saver;
  const places = new Places(saver, subgraphs);
  // By descending id, so under a clock that was set back a child may come after its parent: hence the whole tree first.
  for await (const row of backend.checkpoints({ thread, ...(subgraphs ? {} : { ns: "" }) })) places.addCheckpoint(row);
  places.setHead(thread, (await backend.load(thread, "", undefined)).head);
  for (const row of await backend.effects({ thread }))
    places.addEffect(row, effectPlace(effectLedger.serde, row).checkpoints);
  for (const row of await backend.waits({ thread })) places.addWait(row, await rootOf(saver, row));
  for await (const row of backend.decisions({ thread })) places.addDecision(row);
  return places;
}

/** The root checkpoint from whose task a subgraph waits. */
async function rootOf({ backend, effectLedger }: Checkpointer, row: WaitRow): Promise<string> {
  if (row.ns === "") return row.checkpoint;
  const { checkpoint } = await backend.load(row.thread, row.ns, row.checkpoint);
  if (checkpoint === undefined) return "";
  const { parents } = await readMetadata(backend, effectLedger.serde, checkpoint);
  return (parents as Record<string, string> | undefined)?.[""] ?? "";
}

export class Places {
  readonly #saver: Checkpointer;
  readonly #subgraphs: boolean;
  readonly #nodes = new Map<string, Node>();
  readonly #ids = new Set<string>();
  readonly #roots = new Set<string>();
  readonly #onHead = new Set<string>();
  /** Root checkpoints whose tasks' work is part of the head's lineage. */
  readonly #kept = new Set<string>();
  readonly #effects = new Map<string, EffectRow[]>();
  readonly #carried: EffectRow[] = [];
  readonly #waits = new Map<string, WaitRow[]>();
  readonly #decisions = new Map<string, DecisionRow[]>();
  #head: string | undefined;
  #lineage: Lineage | undefined;

  constructor(saver: Checkpointer, subgraphs: boolean) {
    this.#saver = saver;
    this.#subgraphs = subgraphs;
  }

  has(checkpoint: string): boolean {
    return this.#ids.has(checkpoint);
  }

  addCheckpoint({ ns, id, parent, source }: CheckpointRow): void {
    this.#ids.add(id);
    if (ns === "") this.#roots.add(id);
    this.#nodes.set(key(ns, id), { parent, source, children: this.#nodes.get(key(ns, id))?.children ?? [] });
    if (parent === undefined) return;
    const at = this.#nodes.get(key(ns, parent)) ?? { parent: undefined, source: "", children: [] };
    this.#nodes.set(key(ns, parent), at);
    at.children.push(id);
  }

  setHead(thread: string, head: string | undefined): void {
    const { backend, effectLedger } = this.#saver;
    this.#head = head;
    if (head === undefined) return;
    this.#lineage = new Lineage(backend, effectLedger.serde, { thread, committed: undefined }, new Map([["", head]]));
    let completes = true;
    for (let id: string | undefined = head; id !== undefined && !this.#onHead.has(id); ) {
      this.#onHead.add(id);
      if (completes) this.#kept.add(id);
      const node = this.#nodes.get(key("", id));
      completes = node?.source === "loop";
      id = node?.parent;
    }
  }

  /** Whether the head's lineage does not contain what was done from these checkpoints. */
  async isLeft(checkpoints: CheckpointMap): Promise<boolean> {
    return this.#lineage === undefined || !(await this.#lineage.includes(checkpoints));
  }

  addEffect(row: EffectRow, checkpoints: CheckpointMap): void {
    const root = checkpoints.get("") ?? "";
    if (!this.#roots.has(root)) this.#carried.push(row);
    else add(this.#effects, this.#subgraphs ? key(row.ns, row.checkpoint) : key("", root), row);
  }

  addWait(row: WaitRow, root: string): void {
    add(this.#waits, this.#subgraphs ? key(row.ns, row.checkpoint) : key("", root), row);
  }

  addDecision(row: DecisionRow): void {
    add(this.#decisions, row.wait, row);
  }

  at(ns: string, id: string, metadata: Readonly<Record<string, unknown>>): PlaceInHistory {
    const here = key(ns, id);
    const parents = metadata["parents"] as Readonly<Record<string, string>> | undefined;
    const node = this.#nodes.get(here);
    const root = ns === "" ? id : (parents?.[""] ?? "");
    return {
      children: node?.children ?? [],
      head: ns === "" ? id === this.#head : (node?.children.length ?? 0) === 0,
      onHead: (ns === "" ? this.#onHead : this.#kept).has(root),
      left: !this.#kept.has(root),
      effects: this.#effects.get(here) ?? [],
      carried: ns === "" && node?.parent === undefined ? this.#carried : [],
      waits: this.#waits.get(here) ?? [],
    };
  }

  decisionsOf(wait: string): Promise<DecisionRecord[]> {
    const { backend, effectLedger } = this.#saver;
    const rows = this.#decisions.get(wait) ?? [];
    return Promise.all(rows.map((row) => readDecision(backend, effectLedger.serde, row)));
  }
}

function add<T>(map: Map<string, T[]>, at: string, item: T): void {
  const items = map.get(at);
  if (items === undefined) map.set(at, [item]);
  else items.push(item);
}
