/** A process dies right after a mail was sent and before that was recorded. No program can know; a person decides. */

import { spawnSync } from "node:child_process";
import { appendFileSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { effect, run } from "holdfast";
import { sqlite } from "holdfast/checkpointers/sqlite";
import { z } from "zod";

const config = { configurable: { thread_id: "t1" } };

async function open(directory: string) {
  const sendMail = effect("send-mail", {
    input: z.object({ to: z.string() }),
    output: z.object({ messageId: z.string() }),
    onUnknown: "settle",
    run: async ({ to }) => {
      appendFileSync(join(directory, "sent.txt"), `mail to ${to}\n`);
      process.kill(process.pid, "SIGKILL");
      return { messageId: "never returned" };
    },
  });
  const checkpointer = await sqlite(join(directory, "holdfast.db"));
  const app = new StateGraph(Annotation.Root({ to: Annotation<string>(), messageId: Annotation<string>() }))
    .addNode("send", ({ to }) => sendMail({ to }))
    .addEdge(START, "send")
    .addEdge("send", END)
    .compile({ checkpointer });
  return { checkpointer, app };
}

const [child] = process.argv.slice(2);
if (child !== undefined) {
  const { app } = await open(child);
  await run(app, { to: "ada@example.com" }, config);
} else {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-"));
  const { signal } = spawnSync(process.execPath, [fileURLToPath(import.meta.url), directory], { stdio: "inherit" });
  console.log(`the first process was killed with ${signal}`);

  const { app, checkpointer } = await open(directory);
  const parked = await run(app, null, config);
  console.log(`run: ${parked.status}`);

  for (const { key, name, status, input } of await checkpointer.effects({ thread: "t1" })) {
    console.log(`operator: ${name} of ${JSON.stringify(input)} is ${status}`);
    const sent = readFileSync(join(directory, "sent.txt"), "utf8").trim();
    console.log(`operator: the sent folder says "${sent}"`);
    await checkpointer.settle(key, { done: { messageId: "message-1" } }, { by: "ada" });
  }

  const finished = await run(app, null, config);
  console.log(`run: ${finished.status}, ${finished.values.messageId}`);
  console.log(`mails sent: ${readFileSync(join(directory, "sent.txt"), "utf8").trim().split("\n").length}`);
  await checkpointer.close();
  rmSync(directory, { recursive: true });
}
