/** The functional API: tasks with effects, in a row and in parallel, and an effect in the entrypoint itself. */

import { entrypoint, task } from "@langchain/langgraph";
import { main } from "./play.ts";
import { send } from "./world.ts";

const fetchPart = task("fetch-part", async (part: string) => `${part}: ${await send({ what: `part ${part}` })}`);
const sum = task("sum", (parts: string[]) => parts.join("; "));

await main((checkpointer) => ({
  app: entrypoint({ name: "collect", checkpointer }, async (parts: string[]) => {
    const first = await fetchPart(parts[0] ?? "");
    const rest = await Promise.all(parts.slice(1).map((part) => fetchPart(part)));
    const total = await sum([first, ...rest]);
    return { total, mail: await send({ what: "mail" }) };
  }),
  thread: "functional",
  input: ["one", "two", "three"],
}));
