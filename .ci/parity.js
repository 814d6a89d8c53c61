/**
 * `docs/parity.md` from a report of the tests (vitest's JSON): which test files ran on which backend, with the number of tests that
 * passed. Written with `npm run parity`.
 *
 *     node .ci/parity.js REPORT
 */

import { readFileSync, writeFileSync } from "node:fs";
import { dirname, relative } from "node:path";

const BACKENDS = ["memory", "jsonl", "sqlite", "postgres", "redis"];
/** Of a title that is about one backend. */
const ABOUT = BACKENDS.map((name) => [
  name,
  new RegExp(`^(on )?${name}\\b|^${name}Backend\\(|suite on ${name}\\b|: ${name}$`),
]);
const PAGE = "docs/parity.md";

const [report] = process.argv.slice(2);
const rows = new Map();
for (const { name, assertionResults } of JSON.parse(readFileSync(report, "utf8")).testResults) {
  const file = relative(process.cwd(), name);
  for (const { ancestorTitles, title, status } of assertionResults) {
    const backend = backendOf(file, [...ancestorTitles, title]);
    if (backend === undefined) continue;
    if (status === "failed") throw new Error(`${file}: ${title} failed: the matrix shows what has passed`);
    if (status !== "passed") continue;
    const counts = rows.get(groupOf(file)) ?? new Map();
    counts.set(backend, (counts.get(backend) ?? 0) + 1);
    rows.set(groupOf(file), counts);
  }
}

const page = `# Parity

Tests that passed on each backend, counted from one run of \`npm test\` (written by \`npm run parity\`). Tests that are about
a file, a lock or a server of one backend have no counterpart on the others; what stands in a cell beside a smaller number is what
that backend cannot have: a memory nothing to open again, a JSONL directory and a memory no second process.

| Tests | ${BACKENDS.join(" | ")} |
| --- | ${BACKENDS.map(() => "---:").join(" | ")} |
${[...rows]
  .sort(([a], [b]) => (a < b ? -1 : 1))
  .map(([group, counts]) => `| ${group} | ${BACKENDS.map((name) => counts.get(name) ?? "–").join(" | ")} |`)
  .join("\n")}
`;

writeFileSync(PAGE, page);

/** By the first title that names one; tests of the backends themselves also by their file. */
function backendOf(file, titles) {
  for (const title of titles) for (const [name, about] of ABOUT) if (about.test(title)) return name;
  const own = /^test\/(?:backends|validation)\/(\w+?)[-.]/.exec(file)?.[1];
  return BACKENDS.includes(own) ? own : undefined;
}

/** The file; the directory where a file is about one backend. */
function groupOf(file) {
  return /^test\/(backends|validation)\//.test(file) ? `${dirname(file)}/` : file;
}
