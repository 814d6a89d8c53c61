/**
 * `holdfast worker`: a process that executes runs until it is told to end.
 *
 * The first SIGTERM or SIGINT drains (R5), a second one aborts; either way what was claimed is handed back before the end.
 */

import type { RunRecord } from "../runs/run-record.ts";
import { createRuntime } from "../runs/runtime.ts";
import type { Worker } from "../runs/worker.ts";
import { openStore, type StoreFlags } from "./backends.ts";
import { loadGraphs } from "./graphs-module.ts";
import type { EndSignal, ExitCode, Printer, Terminal } from "./output.ts";
import { type Probes, serveProbes } from "./probes.ts";

export interface WorkerFlags extends StoreFlags {
  readonly graphs: string;
  readonly concurrency?: number;
  readonly probePort?: number;
}

const SIGNALS: readonly EndSignal[] = ["SIGTERM", "SIGINT"];

export async function workerCommand(flags: WorkerFlags, printer: Printer, terminal: Terminal): Promise<ExitCode> {
  const checkpointer = await openStore(flags, { look: false });
  let probes: Probes | undefined;
  try {
    const graphs = await loadGraphs(flags.graphs, checkpointer);
    const runtime = createRuntime({
      checkpointer,
      graphs,
      onRun: (run) => printer.line(() => runText(run, printer), runJson(run)),
      // What a run failed with stands in its own line.
      onError: (error) => {
        if (error instanceof Error) printer.error(error);
      },
    });
    // A store that has no runs says so here, before anything is promised.
    await runtime.list({ limit: 1 });
    const { concurrency, probePort } = flags;
    const worker = runtime.worker(concurrency === undefined ? {} : { concurrency });
    probes = probePort === undefined ? undefined : await serveProbes(probePort, () => worker.ready);
    const ended = untilTold(terminal, worker, printer);
    worker.start();
    const ready = {
      event: "ready",
      worker: checkpointer.backend.owner,
      store: checkpointer.backend.name,
      graphs: Object.keys(graphs),
      probePort: probes?.port,
    };
    const at = probes === undefined ? "" : `; probes on http://127.0.0.1:${probes.port}`;
    printer.line(() => `ready: worker ${ready.worker} serves ${ready.graphs.join(", ")} on ${ready.store}${at}`, ready);
    await ended;
    const { counts } = worker;
    printer.line(
      () => `ended: ${counts.claimed} claimed, ${counts.takenOver} of them taken over, ${counts.lost} lost to others`,
      { event: "ended", ...counts },
    );
    return 0;
  } finally {
    await probes?.close();
    await checkpointer.close();
  }
}

/** Resolves when a signal has come and everything is handed back. */
async function untilTold(terminal: Terminal, worker: Worker, printer: Printer): Promise<void> {
  let onSignal = (): void => {};
  try {
    await new Promise<void>((resolve, reject) => {
      let signals = 0;
      onSignal = () => {
        signals += 1;
        if (signals > 2) return;
        const running = worker.running.length;
        const event = signals === 1 ? "draining" : "aborting";
        const text =
          signals === 1
            ? `draining: ${running} runs end their superstep; signal again to abort them`
            : `aborting: ${running} runs`;
        printer.line(() => text, { event, running });
        (signals === 1 ? worker.drain() : worker.abort()).then(resolve, reject);
      };
      for (const signal of SIGNALS) terminal.on?.(signal, onSignal);
    });
  } finally {
    for (const signal of SIGNALS) terminal.off?.(signal, onSignal);
  }
}

function runText(run: RunRecord, printer: Printer): string {
  const { id, thread, graph, status, error } = run;
  const color = status === "succeeded" ? "green" : status === "failed" || status === "parked" ? "red" : "yellow";
  const why = error === undefined ? "" : `: ${error.name}: ${error.message}`;
  const shown = status === "queued" ? "handed back" : status;
  return `${printer.color(color, shown)}: run ${id} of thread ${JSON.stringify(thread)}, graph ${graph}${why}`;
}

function runJson({ id, thread, graph, status, epoch, error }: RunRecord) {
  return { event: "run", status, id, thread, graph, epoch, error };
}
