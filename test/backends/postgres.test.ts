import { describeBackend } from "holdfast/testing";
import { inject } from "vitest";
import { postgresBackend } from "../../checkpointers/postgres/backend.ts";
import { newSchema } from "../servers/schemas.ts";
import { sharedStore } from "./opened.ts";

const url = inject("postgresUrl");

await describeBackend("postgresBackend(url)", async () => {
  const schema = await newSchema();
  return sharedStore(() => postgresBackend(url, { schema }));
});
