import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Backend } from "holdfast";
import { describeBackend } from "holdfast/testing";
import { jsonlBackend } from "../../checkpointers/jsonl/backend.ts";

for (const fsync of [true, false]) {
  await describeBackend(`jsonlBackend(directory, { fsync: ${fsync} })`, async () => {
    const directory = await mkdtemp(join(tmpdir(), "holdfast-jsonl-"));
    const opened: Backend[] = [];
    const open = async () => {
      const backend = await jsonlBackend(directory, { fsync });
      opened.push(backend);
      return backend;
    };
    return {
      backend: await open(),
      reopen: open,
      destroy: async () => {
        for (const backend of opened) await backend.close();
        await rm(directory, { recursive: true });
      },
    };
  });
}
