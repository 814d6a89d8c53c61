import { postgres } from "holdfast/checkpointers/postgres";
import { inject } from "vitest";
import { newSchema } from "../servers/schemas.ts";
import { publicSuite } from "./public-suite.ts";

publicSuite("postgres", async () => postgres(inject("postgresUrl"), { schema: await newSchema() }));
