/**
 * The conformance suite of a backend: every clause of the contract in `backend.ts`, as vitest tests or as plain data
 * for another runner.
 *
 * ```ts
 * await describeBackend("my backend", async () => {
 *   const directory = await mkdtemp(join(tmpdir(), "my-backend-"));
 *   return { backend: await myBackend(directory), destroy: () => rm(directory, { recursive: true }) };
 * });
 * ```
 */

import type { BackendCase, OpenedBackend } from "./backend-case.ts";
import { blobCases } from "./backend-cases/blobs.ts";
import { checkpointCases } from "./backend-cases/checkpoints.ts";
import { commitCases } from "./backend-cases/commits.ts";
import { decisionCases } from "./backend-cases/decisions.ts";
import { deletionCases } from "./backend-cases/deletion.ts";
import { effectCases } from "./backend-cases/effects.ts";
import { dueRunCases } from "./backend-cases/due-runs.ts";
import { idCases } from "./backend-cases/ids.ts";
import { listCases } from "./backend-cases/lists.ts";
import { openerCases } from "./backend-cases/openers.ts";
import { runQueryCases } from "./backend-cases/run-queries.ts";
import { runStoreCases } from "./backend-cases/run-stores.ts";
import { runCases } from "./backend-cases/runs.ts";
import { waitQueryCases } from "./backend-cases/wait-queries.ts";
import { waitCases } from "./backend-cases/waits.ts";
import { writeCases } from "./backend-cases/writes.ts";

export type { BackendCase, OpenedBackend } from "./backend-case.ts";

/** All cases, in no order that matters; each wants a store of its own. */
export const backendCases: readonly BackendCase[] = [
  ...commitCases,
  ...checkpointCases,
  ...writeCases,
  ...listCases,
  ...blobCases,
  ...effectCases,
  ...waitCases,
  ...waitQueryCases,
  ...decisionCases,
  ...runCases,
  ...runQueryCases,
  ...dueRunCases,
  ...runStoreCases,
  ...deletionCases,
  ...idCases,
  ...openerCases,
];

/** Whether the case makes sense for this backend. One that promises several processes is held to it. */
export function isApplicable(entry: BackendCase, opened: OpenedBackend): boolean {
  if (entry.needs === "second") return opened.second !== undefined || opened.backend.capabilities.processes === "many";
  return entry.needs !== "reopen" || opened.reopen !== undefined;
}

/** Runs one case on a store of its own; resolves with whether it was applicable. */
export async function runBackendCase(entry: BackendCase, open: () => Promise<OpenedBackend>): Promise<boolean> {
  const opened = await open();
  try {
    if (!isApplicable(entry, opened)) return false;
    await entry.run(opened);
    return true;
  } finally {
    await opened.destroy();
  }
}

/**
 * Defines one vitest test per case; await it at the top of a test file. `open` is called once per test and gives an
 * empty store. Cases that need a second opener or a reopened store are skipped where `open` offers none, see
 * {@link OpenedBackend}. With another test runner, run {@link backendCases} by {@link runBackendCase}.
 */
export async function describeBackend(name: string, open: () => Promise<OpenedBackend>): Promise<void> {
  // Loaded here and not above: vitest is optional, and programs under the crash matrix import this file without one.
  const { describe, test } = await import("vitest");
  describe(`${name} keeps the contract of a backend`, () => {
    for (const entry of backendCases) {
      test(entry.name, async (context) => {
        if (await runBackendCase(entry, open)) return;
        // For whoever counts skipped tests by a report: `meta` is in those of vitest.
        Object.assign(context.task.meta, { needs: entry.needs });
        context.skip(`this backend offers no "${entry.needs}"`);
      });
    }
  });
}
