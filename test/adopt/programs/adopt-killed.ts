/** `adopt-killed.js`: adopts `official.db` of the state directory into a database beside it, and reports what stands there. */

import { join } from "node:path";
import { adopt } from "holdfast";
import { openSource } from "holdfast/checkpointers";
import { sqlite } from "holdfast/checkpointers/sqlite";
import { reportResult, stateDirectory } from "holdfast/testing";
import { listed } from "../listed.ts";

const checkpointer = await sqlite(join(stateDirectory(), "holdfast.db"));
const source = await openSource(`langgraph-sqlite:${join(stateDirectory(), "official.db")}`);
const report = await adopt(source, checkpointer);
await source.close();
const threads: unknown[] = [];
for (const { thread, differences, notes, checkpoints, writes, waits } of report.threads) {
  const head = await checkpointer.getTuple({ configurable: { thread_id: thread } });
  const tuples = (await listed(checkpointer, thread)).map((tuple) => JSON.stringify(tuple));
  const open = (await checkpointer.waits({ thread })).map(({ id, status, openedAt }) => ({ id, status, openedAt }));
  threads.push({ thread, differences, notes, checkpoints, writes, waits, head: head?.checkpoint.id, tuples, open });
}
reportResult({ complete: report.complete, threads });
await checkpointer.close();
