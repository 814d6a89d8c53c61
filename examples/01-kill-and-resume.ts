/** A process dies with SIGKILL in the middle of a graph; another one goes on where it stopped. */

import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { run } from "holdfast";
import { sqlite } from "holdfast/checkpointers/sqlite";

const State = Annotation.Root({
  log: Annotation<string[], string>({ reducer: (log, line) => [...log, line], default: () => [] }),
});

async function program(file: string, dies: boolean): Promise<void> {
  const checkpointer = await sqlite(file);
  const app = new StateGraph(State)
    .addNode("fetch", () => say("fetched"))
    .addNode("think", () => {
      if (dies) process.kill(process.pid, "SIGKILL");
      return say("thought");
    })
    .addNode("answer", () => say("answered"))
    .addEdge(START, "fetch")
    .addEdge("fetch", "think")
    .addEdge("think", "answer")
    .addEdge("answer", END)
    .compile({ checkpointer });

  const config = { configurable: { thread_id: "t1" }, durability: "sync" as const };
  // The same call starts the thread and goes on with it.
  const result = await run<typeof State.State>(app, { log: "started" }, config);
  console.log(`  ${result.status}: ${result.values.log.join(", ")}`);
  await checkpointer.close();
}

function say(line: string): { log: string } {
  console.log(`  ${line}`);
  return { log: line };
}

const [file, dies] = process.argv.slice(2);
if (file !== undefined) {
  await program(file, dies === "dies");
} else {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-"));
  for (const fate of ["dies", "lives"]) {
    console.log("a process starts");
    const args = [fileURLToPath(import.meta.url), join(directory, "holdfast.db"), fate];
    const { signal } = spawnSync(process.execPath, args, { stdio: "inherit" });
    console.log(signal === null ? "it has ended" : `it was killed with ${signal}`);
  }
  rmSync(directory, { recursive: true });
}
