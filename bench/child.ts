/** One measurement in a process of its own: `child.js '<job as JSON>' <directory>`; the result is the last line printed. */

import { runJob } from "./jobs.ts";
import { cpuLoopMs } from "./noise.ts";

const [text, dir] = process.argv.slice(2);
if (text === undefined || dir === undefined) throw new Error("usage: child.js '<job as JSON>' <directory>");
const before = cpuLoopMs();
const values = await runJob(JSON.parse(text), dir);
const after = cpuLoopMs();
process.stdout.write(`\n${JSON.stringify({ values, loopMs: [before, after] })}\n`);
