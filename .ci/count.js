/** Counts what `.ci/run` has left in a directory: `steps` (name, exit code) and vitest's JSON reports. */

import { existsSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";

const directory = process.argv[2];
const steps = readFileSync(join(directory, "steps"), "utf8")
  .trimEnd()
  .split("\n")
  .map((line) => line.split("\t"));

/**
 * Cases of the conformance suite that may be skipped: a memory has nothing to close and open again, and a JSONL directory
 * has one opener at a time.
 */
const suite = "keeps the contract of a backend";
const MAY_SKIP = new Set([
  ...[
    "a commit handed over before the end is answered and kept",
    "everything acknowledged is there after closing and opening again, and is judged by",
  ].map((name) => `test/backends/memory.test.ts: memoryBackend() ${suite} ${name}`),
  ...["{ fsync: true }", "{ fsync: false }"].flatMap((options) =>
    [
      "each of two openers sees what the other one has committed",
      "a read sees what another opener has committed since the same read before",
      "of two openers that change one head at the same time exactly one wins",
      "of two openers that change one effect at the same time exactly one wins",
      "of two openers that change one list at the same time exactly one wins",
      "of two openers that change one wait at the same time exactly one wins",
      "of two openers that change one decision at the same time exactly one wins",
      "an owner is alive for the others until it closes, and its end closes nobody else",
    ].map((name) => `test/backends/jsonl.test.ts: jsonlBackend(directory, ${options}) ${suite} ${name}`),
  ),
]);

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
  for (const { id, status } of tests) {
    if (status === "passed") passed += 1;
    else if (status === "failed") fail(`${name}: ${id}`);
    else if (!MAY_SKIP.has(id)) fail(`${name}: ${id} is ${status}, but must run`);
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
  return testResults.flatMap(({ name, assertionResults }) =>
    assertionResults.map(({ fullName, status }) => ({ id: `${relative(process.cwd(), name)}: ${fullName}`, status })),
  );
}
