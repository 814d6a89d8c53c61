/** A worker as its starter sees it: a process, what it has said, and what can be done to it. */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { setTimeout as wait } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { kitFile, watch } from "../../../src/testing/child.ts";
import { type LifeCounts, type Line, noCounts, SERVE, type WorkerOrder } from "./lines.ts";

/** The bundled program; this file runs compiled, and from its source in vitest. */
const PROGRAM = new URL(
  import.meta.url.endsWith(".ts")
    ? "../../../dist/bundled/test/crash/campaign/worker.js"
    : "../../../bundled/test/crash/campaign/worker.js",
  import.meta.url,
);

const AGAIN_MS = 50;

export interface WorkerEnd {
  readonly code: number | null;
  readonly signal: string | null;
}

export class WorkerProcess {
  readonly order: WorkerOrder;
  readonly ended: Promise<WorkerEnd>;
  /** When it serves; rejects where it ends before. */
  readonly serving: Promise<void>;
  readonly #child: ChildProcess;
  readonly #inside = new Map<string, number>();
  readonly answered: { readonly wait: string; readonly value: string }[] = [];
  readonly errors: string[] = [];
  /** What bodies of effects were doing outside while the worker stood still: what others may have sent, too, meanwhile. */
  readonly stoppedInside: string[] = [];
  owner: string | undefined;
  counts: LifeCounts = noCounts;
  hasEnded = false;
  /** From outside, not by itself at a point. */
  killed = false;
  /** It stands still now, by its own signal or another's. */
  frozen = false;
  stderr = "";
  /** Told of all that it says about bodies of effects, and of its standing still or end while it is in one. */
  onBody: (what: string, event: string) => void = () => {};
  #stopsItself = false;
  /** Called when it has stopped itself. */
  onFrozen: () => void = () => {};

  constructor(order: WorkerOrder, counterUrl: string) {
    this.order = order;
    const { point } = order.life.end;
    const preload = point === undefined ? [] : ["--import", kitFile("kill").href];
    this.#child = spawn(process.execPath, [...preload, fileURLToPath(PROGRAM), JSON.stringify(order)], {
      env: { ...process.env, HOLDFAST_COUNTER_URL: counterUrl, HOLDFAST_KILL_AT: point },
      stdio: ["pipe", "pipe", "pipe"],
    });
    watch(this.#child);
    // It dies with unread input as often as not.
    this.#child.stdin?.on("error", () => {});
    this.#child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.stderr = (this.stderr + text).slice(-10_000);
    });
    let begun: () => void;
    const begins = new Promise<void>((resolve) => {
      begun = resolve;
    });
    createInterface({ input: this.#child.stdout as NodeJS.ReadableStream }).on("line", (text) => {
      const line = parsed(text);
      if (line === undefined) return;
      if (line.say === "serving") begun();
      this.#hear(line);
    });
    this.ended = once(this.#child, "close").then((end) => {
      const [code, signal] = end as [number | null, string | null];
      this.hasEnded = true;
      this.frozen = false;
      this.#look("dead");
      return { code, signal };
    });
    this.serving = Promise.race([
      begins,
      this.ended.then(() => {
        if (this.owner === undefined) throw new Error(`a worker ended before it served: ${this.stderr}`);
      }),
    ]);
    this.serving.catch(() => {});
  }

  serve(): void {
    this.#child.stdin?.write(`${SERVE}\n`);
  }

  freeze(): void {
    if (this.#child.kill("SIGSTOP")) this.frozen = !this.hasEnded;
  }

  async thaw(): Promise<void> {
    // What it said before it stopped is in the pipe: a turn of the loop, and it has been read.
    for (let turns = 0; turns < 3; turns++) await new Promise(setImmediate);
    this.#look("stopped");
    this.#child.kill("SIGCONT");
    // One that stops itself says so just before: the signal may have come in between, and is given again.
    while (this.#stopsItself && !this.hasEnded) {
      await Promise.race([wait(AGAIN_MS), this.ended]);
      this.#child.kill("SIGCONT");
    }
    this.frozen = false;
  }

  kill(): void {
    this.killed = !this.hasEnded;
    this.#child.kill("SIGKILL");
  }

  /** Makes it say what it is doing. */
  tell(): void {
    this.#child.kill("SIGUSR2");
  }

  drain(): void {
    this.#child.kill("SIGTERM");
  }

  /** Which bodies it is in. */
  #look(now: "stopped" | "dead"): void {
    for (const [what, times] of this.#inside) {
      if (times <= 0) continue;
      if (now === "stopped") this.stoppedInside.push(what);
      this.onBody(what, now);
    }
  }

  #hear(line: Line): void {
    switch (line.say) {
      case "loaded":
      case "drained":
        return;
      case "serving":
        this.owner = line.owner;
        return;
      case "in":
        this.onBody(line.what, "in");
        this.#inside.set(line.what, (this.#inside.get(line.what) ?? 0) + 1);
        return;
      case "out":
        this.onBody(line.what, "out");
        this.#inside.set(line.what, (this.#inside.get(line.what) ?? 0) - 1);
        return;
      case "frozen":
        this.frozen = true;
        this.#stopsItself = true;
        this.onFrozen();
        return;
      case "stalled":
        this.#look("stopped");
        return;
      case "thawed":
        this.#stopsItself = false;
        return;
      case "answered":
        this.answered.push({ wait: line.wait, value: line.value });
        return;
      case "counts":
        this.counts = line.counts;
        return;
      case "error":
        this.errors.push(line.text);
        return;
      default: {
        const never: never = line;
        return never;
      }
    }
  }
}

/** Undefined for a line that a kill has cut off. */
function parsed(text: string): Line | undefined {
  try {
    return JSON.parse(text) as Line;
  } catch {
    return undefined;
  }
}
