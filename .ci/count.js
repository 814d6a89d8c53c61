/** Counts what `.ci/run` has left in a directory: `steps` (name, exit code) and vitest's JSON reports. */

import { existsSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";

const directory = process.argv[2];
const steps = readFileSync(join(directory, "steps"), "utf8")
  .trimEnd()
  .split("\n")
  .map((line) => line.split("\t"));

/**
 * What cases of the conformance suite may be skipped for want of: a memory has nothing to close and open again, and a JSONL
 * directory has one opener at a time.
 */
const MAY_WANT = { "test/backends/memory.test.ts": "reopen", "test/backends/jsonl.test.ts": "second" };

let passed = 0;
let failed = 0;
const complaints = [];

for (const [name, code] of steps) {
  const report = join(directory, `${name}.json`);
  const tests = existsSync(report) ? testsOf(report) : undefined;
  if (tests === undefined) {
    if (code === "0") passed += 1;
    else fail(`step ${name} ended with exit code ${code}`);
    continue;
  }
  const before = failed;
  for (const { file, id, status, needs } of tests) {
    if (status === "passed") passed += 1;
    else if (status === "failed") fail(`${name}: ${id}`);
    else if (needs === undefined || needs !== MAY_WANT[file]) fail(`${name}: ${id} is ${status}, but must run`);
  }
  if (tests.length === 0) fail(`step ${name} ran no test`);
  // A file that could not be loaded, or an error outside all tests, fails no test of its own.
  else if (code !== "0" && failed === before) fail(`step ${name} ended with exit code ${code}, though no test failed`);
}

for (const complaint of complaints) console.log(`FAILED ${complaint}`);
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;

function fail(complaint) {
  failed += 1;
  complaints.push(complaint);
}

function testsOf(report) {
  const { testResults } = JSON.parse(readFileSync(report, "utf8"));
  return testResults.flatMap(({ name, assertionResults }) => {
    const file = relative(process.cwd(), name);
    return assertionResults.map(({ fullName, status, meta }) => ({
      file,
      id: `${file}: ${fullName}`,
      status,
      needs: meta?.needs,
    }));
  });
}
