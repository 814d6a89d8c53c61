/**
 * What this process knows of the newest checkpoint of each namespace: the form of every channel, and the items of its
 * lists. With it a put writes only what changed; without it the parent's row is read first. Never trusted for
 * correctness across processes: the backend's preconditions (head, list places) are.
 */

import type { Backend } from "./backend.ts";
import { type ChannelSplit, type Form, type Forms, type ParsedBody, parseBody } from "./checkpoint-row.ts";
import type { ReadCheckpoint } from "./checkpoint-reader.ts";
import { capturedItems, type KnownList, ListWriter, planValue } from "./lists.ts";
import type { Place } from "./place.ts";
import type { BlobSink, Serde, Tree } from "./serde.ts";
import { referenceOf, ValueReader } from "./values.ts";

/** Characters of channel values kept for comparison, over all threads; the least recently used are dropped. */
const KEPT_CHARS = 64_000_000;

interface Line {
  readonly checkpoint: string;
  readonly forms: Forms;
  readonly size: number;
  /** Lists that a task of this checkpoint wrote back grown, by channel. */
  written: Map<string, KnownList> | undefined;
}

const NO_FORMS: Forms = new Map();

export class KnownState {
  readonly lists: ListWriter;
  readonly #backend: Backend;
  readonly #serde: Serde;
  readonly #threads = new Map<string, Map<string, Line>>();
  #size = 0;

  constructor(backend: Backend, serde: Serde) {
    this.#backend = backend;
    this.#serde = serde;
    this.lists = new ListWriter(serde);
  }

  /** The parent's forms where they are known here; undefined where they must be fetched. */
  forms(thread: string, ns: string, parent: string | undefined, split: ChannelSplit): Forms | undefined {
    if (parent === undefined) return NO_FORMS;
    const line = this.#threads.get(thread)?.get(ns);
    if (line?.checkpoint === parent) return line.forms;
    // Nothing to carry over and no list to continue: the parent need not be known.
    return split.carried.length === 0 && !split.changed.some(([, value]) => Array.isArray(value) && value.length > 0)
      ? NO_FORMS
      : undefined;
  }

  /** The same from the store. A parent that is not there has nothing to carry over. */
  async fetchForms(thread: string, ns: string, parent: string | undefined): Promise<Forms> {
    if (parent === undefined) return NO_FORMS;
    const { checkpoint } = await this.#backend.load(thread, ns, parent);
    if (checkpoint === undefined) return NO_FORMS;
    const body = parseBody(this.#serde, checkpoint);
    const reader = new ValueReader(this.#backend, this.#serde, thread);
    const lists = Object.values(body.ch).filter((tree) => referenceOf(tree)?.kind === "list");
    await reader.fetch([], lists);
    return this.#formsOf(body, reader);
  }

  /** A run has loaded this checkpoint. */
  loaded(thread: string, ns: string, id: string, read: ReadCheckpoint): void {
    if (this.#threads.get(thread)?.get(ns)?.checkpoint === id) return;
    this.put(thread, ns, id, this.#formsOf(read.body, read.values));
  }

  put(thread: string, ns: string, id: string, forms: Forms): void {
    let size = 256;
    for (const form of forms.values()) size += form.size;
    let lines = this.#threads.get(thread);
    if (lines === undefined) lines = new Map();
    else this.#threads.delete(thread);
    this.#threads.set(thread, lines);
    this.#size += size - (lines.get(ns)?.size ?? 0);
    lines.set(ns, { checkpoint: id, forms, size, written: undefined });
    while (this.#size > KEPT_CHARS && this.#threads.size > 1) this.drop(this.#threads.keys().next().value as string);
  }

  /** Forgets a thread: something queued for it may not have been stored. */
  drop(thread: string): void {
    for (const line of this.#threads.get(thread)?.values() ?? []) {
      this.#size -= line.size;
      for (const form of line.forms.values()) if (form.known !== undefined) this.lists.forget(form.known.list);
      for (const known of line.written?.values() ?? []) this.lists.forget(known.list);
    }
    this.#threads.delete(thread);
  }

  /** The list a channel holds in the checkpoint a task runs from. */
  list(place: Place, channel: string): KnownList | undefined {
    return this.#line(place)?.forms.get(channel)?.known;
  }

  /** A task of the checkpoint wrote the channel's list back, grown. */
  wrote(place: Place, channel: string, known: KnownList): void {
    const line = this.#line(place);
    if (line === undefined) return;
    line.written ??= new Map();
    line.written.set(channel, known);
  }

  written(place: Place, channel: string): KnownList | undefined {
    return this.#line(place)?.written?.get(channel);
  }

  planCaptured(thread: string, era: number, tree: Tree, before: KnownList | undefined, sink: BlobSink) {
    if (Array.isArray(tree) && before !== undefined && tree.length > 0) {
      return this.lists.plan(thread, era, before, capturedItems(this.#serde, tree as readonly Tree[]));
    }
    return planValue(this.#serde, this.lists, thread, era, tree, sink);
  }

  #line(place: Place): Line | undefined {
    const line = this.#threads.get(place.thread)?.get(place.ns);
    return line !== undefined && line.checkpoint === place.checkpoint ? line : undefined;
  }

  #formsOf(body: ParsedBody, reader: ValueReader): Forms {
    const forms = new Map<string, Form>();
    for (const [channel, tree] of Object.entries(body.ch)) {
      const version = body.cv[channel] ?? 0;
      const json = JSON.stringify(tree);
      const reference = referenceOf(tree);
      const known = reference?.kind === "list" ? this.#knownList(reference.list, reference.length, reader) : undefined;
      forms.set(channel, { version, json, known, size: known?.size ?? json.length });
    }
    return forms;
  }

  #knownList(list: string, length: number, reader: ValueReader): KnownList | undefined {
    const stored = reader.list(list);
    if (stored === undefined) return undefined;
    if (!stored.extended && stored.trees.length === length) this.lists.endsAt(list, length);
    let resolved: Tree[] | undefined;
    const trees = (): Tree[] => {
      resolved ??= reader.resolved(list).slice(0, length);
      return resolved;
    };
    return { list, length, depth: stored.depth, trees, size: stored.size };
  }
}
