import type { Backend } from "holdfast";
import { describeBackend } from "holdfast/testing";
import { inject } from "vitest";
import { postgresBackend } from "../../checkpointers/postgres/backend.ts";
import { newSchema } from "../servers/schemas.ts";

const url = inject("postgresUrl");

await describeBackend("postgresBackend(url)", async () => {
  const schema = await newSchema();
  const opened: Backend[] = [];
  const open = async () => {
    const backend = await postgresBackend(url, { schema });
    opened.push(backend);
    return backend;
  };
  return {
    backend: await open(),
    second: open,
    reopen: open,
    destroy: async () => {
      for (const backend of opened) await backend.close();
    },
  };
});
