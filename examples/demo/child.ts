import { type Job, runJob } from "./program.ts";

console.log(JSON.stringify(await runJob(JSON.parse(process.argv[2] ?? "") as Job)));
