/** A ready-made graph: a report on a directory of text files. Started again after its end, it does nothing. */

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run } from "holdfast";
import { sqlite } from "holdfast/checkpointers/sqlite";
import { inboxReport } from "holdfast/graphs";

const directory = mkdtempSync(join(tmpdir(), "holdfast-"));
writeFileSync(join(directory, "harbour.txt"), "The harbour is closed. Boats may use the outer mole.\n");
writeFileSync(join(directory, "lamp.txt"), "The lamp has been replaced. The old one is kept.\n");

const checkpointer = await sqlite(join(directory, "holdfast.db"));
const app = inboxReport().compile({ checkpointer });
const config = { configurable: { thread_id: "monday" }, recursionLimit: 1000 };
const input = { inbox: directory, report: join(directory, "report.md") };

console.log((await run(app, input, config)).status);
console.log(readFileSync(input.report, "utf8"));
console.log((await run(app, null, config)).status);

await checkpointer.close();
rmSync(directory, { recursive: true });
