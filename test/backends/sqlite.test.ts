import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describeBackend } from "holdfast/testing";
import { sqliteBackend } from "../../checkpointers/sqlite/backend.ts";

await describeBackend("sqliteBackend(file)", async () => {
  const directory = await mkdtemp(join(tmpdir(), "holdfast-sqlite-"));
  const file = join(directory, "test.db");
  const opened = [await sqliteBackend(file)];
  const open = async () => {
    const backend = await sqliteBackend(file);
    opened.push(backend);
    return backend;
  };
  return {
    backend: opened[0]!,
    second: open,
    reopen: open,
    destroy: async () => {
      for (const backend of opened) await backend.close();
      await rm(directory, { recursive: true });
    },
  };
});
