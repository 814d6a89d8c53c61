import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describeBackend } from "holdfast/testing";
import { jsonlBackend } from "../../checkpointers/jsonl/backend.ts";

for (const fsync of [true, false]) {
  await describeBackend(`jsonlBackend(directory, { fsync: ${fsync} })`, async () => {
    const directory = await mkdtemp(join(tmpdir(), "holdfast-jsonl-"));
    const opened = [await jsonlBackend(directory, { fsync })];
    return {
      backend: opened[0]!,
      reopen: async () => {
        opened.push(await jsonlBackend(directory, { fsync }));
        return opened.at(-1)!;
      },
      destroy: async () => {
        for (const backend of opened) await backend.close();
        await rm(directory, { recursive: true });
      },
    };
  });
}
