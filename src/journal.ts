/**
 * The audit journal: JSON lines, appended, one fsync an event. For people and auditors, never read for control: what
 * is true stands in the store. Events are written after the store has them, so a kill in between leaves one out; the
 * next `run` of the thread adds it, marked `reconciled: true`. A torn last line is sealed with a newline, so only that
 * record is lost, and readers skip and count broken lines.
 */

import { type FileHandle, open, readFile } from "node:fs/promises";
import type { EffectRecord } from "./effect-record.ts";
import { HoldfastError } from "./errors.ts";

export type JournalEventName = "created" | "resumed" | "effect_intent" | "effect_outcome" | "question" | "finished";

export interface JournalEvent {
  /** The same for the same event, however often it was tried. */
  readonly id: string;
  readonly event: JournalEventName;
  readonly thread: string;
  /** ISO time, by the writer's clock. */
  readonly at: string;
  readonly reconciled?: true;
  readonly [detail: string]: unknown;
}

/** Reads a journal, skipping what is not a whole event. A file that is not there has no events. */
export async function readJournal(
  path: string,
): Promise<{ readonly events: readonly JournalEvent[]; readonly broken: number }> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ENOENT") return { events: [], broken: 0 };
    throw journalError(path, cause);
  }
  const events: JournalEvent[] = [];
  let broken = 0;
  for (const line of text.split("\n")) {
    if (line === "") continue;
    try {
      const event: unknown = JSON.parse(line);
      if (typeof event === "object" && event !== null && typeof (event as JournalEvent).id === "string")
        events.push(event as JournalEvent);
      else broken += 1;
    } catch {
      broken += 1;
    }
  }
  return { events, broken };
}

export class Journal {
  readonly path: string;
  #file: Promise<FileHandle> | undefined;
  #last: Promise<void> = Promise.resolve();

  constructor(path: string) {
    this.path = path;
  }

  async created(thread: string, era: number): Promise<void> {
    await this.#append({ ...createdEvent(thread, era) });
  }

  async resumed(thread: string, checkpoint: string): Promise<void> {
    await this.#append({ id: `resumed:${thread}:${checkpoint}:${Date.now()}`, event: "resumed", thread, checkpoint });
  }

  async question(thread: string, wait: { readonly id: string; readonly kind: string }): Promise<void> {
    await this.#append({ id: `question:${wait.id}`, event: "question", thread, wait: wait.id, kind: wait.kind });
  }

  async finished(thread: string, checkpoint: string): Promise<void> {
    await this.#append({ id: `finished:${thread}:${checkpoint}`, event: "finished", thread, checkpoint });
  }

  async effect(record: EffectRecord): Promise<void> {
    await this.#append(effectEvent(record));
  }

  /**
   * Adds what the store has and the journal has not, marked `reconciled: true`: the thread's creation, effects' last
   * intents and outcomes, and its end (`finishedAt`, the checkpoint, where it is finished).
   */
  async reconcile(
    thread: string,
    era: number,
    effects: readonly EffectRecord[],
    finishedAt: string | undefined,
  ): Promise<number> {
    await this.#last;
    const known = new Set((await readJournal(this.path)).events.map((event) => event.id));
    const missing: NewEvent[] = [createdEvent(thread, era)];
    for (const record of effects) {
      if (record.status !== "intent") missing.push(effectEvent({ ...record, status: "intent" }));
      missing.push(effectEvent(record));
    }
    if (finishedAt !== undefined)
      missing.push({ id: `finished:${thread}:${finishedAt}`, event: "finished", thread, checkpoint: finishedAt });
    let added = 0;
    for (const event of missing) {
      if (known.has(event.id)) continue;
      await this.#append({ ...event, reconciled: true });
      added += 1;
    }
    return added;
  }

  async close(): Promise<void> {
    await this.#last.catch(() => undefined);
    const file = this.#file;
    this.#file = undefined;
    if (file !== undefined) await file.then((handle) => handle.close()).catch(() => undefined);
  }

  /** One after the other, each durable before the next. */
  #append(event: NewEvent): Promise<void> {
    const line = `${JSON.stringify({ ...event, at: new Date().toISOString() })}\n`;
    const done = this.#last
      .catch(() => undefined)
      .then(async () => {
        try {
          this.#file ??= openSealed(this.path);
          const file = await this.#file;
          await file.appendFile(line);
          await file.datasync();
        } catch (cause) {
          this.#file = undefined;
          throw journalError(this.path, cause);
        }
      });
    this.#last = done;
    return done;
  }
}

type NewEvent = Omit<JournalEvent, "at"> & {
  readonly id: string;
  readonly event: JournalEventName;
  readonly thread: string;
};

const createdEvent = (thread: string, era: number): NewEvent => ({
  id: `created:${thread}:${era}`,
  event: "created",
  thread,
});

function effectEvent(record: EffectRecord): NewEvent {
  const { key, name, thread, status, attempt, checkpoint, task } = record;
  const event = status === "intent" ? "effect_intent" : "effect_outcome";
  const outcome = status === "intent" ? {} : { status, by: record.decision?.by };
  return {
    id: `${event}:${key}:${attempt}${status === "intent" ? "" : `:${status}`}`,
    event,
    thread,
    effect: name,
    key,
    attempt,
    checkpoint,
    task,
    ...outcome,
  };
}

/** Opens for appending; a last line without its newline is ended, so that the next event begins a line of its own. */
async function openSealed(path: string): Promise<FileHandle> {
  const file = await open(path, "a+");
  try {
    const { size } = await file.stat();
    if (size > 0) {
      const last = Buffer.alloc(1);
      await file.read(last, 0, 1, size - 1);
      if (last[0] !== 0x0a) {
        await file.appendFile("\n");
        await file.datasync();
      }
    }
    return file;
  } catch (error) {
    await file.close();
    throw error;
  }
}

function journalError(path: string, cause: unknown): HoldfastError {
  const message = cause instanceof Error ? cause.message : String(cause);
  return new HoldfastError(
    "JOURNAL_FAILED",
    `The journal ${path} could not be read or written: ${message}. What the store has acknowledged stays; the missing events are added at the next run of the thread.`,
    { cause, details: { path } },
  );
}
