import type { CrashReport } from "holdfast/testing";
import { afterAll, describe, expect, test } from "vitest";
import { redisAvailable } from "../servers/redis.ts";
import { type BackendName, killScenario, type Scenario, scenarios } from "./scenarios.ts";

/** What the whole run must have killed at least, to count as a proof. */
const KILLS_MIN = 500;

const done: { readonly name: string; readonly report: CrashReport }[] = [];

/** The engine goes one way on every backend: on servers those scenarios are killed that store something of each kind. */
const ON_SERVERS = ["plain", "settle", "interrupt", "fork", "queue"];

const offers = (scenario: Scenario, backend: BackendName): boolean => {
  if (backend === "postgres" || backend === "redis")
    return ON_SERVERS.includes(scenario.program) && scenario.backends === undefined;
  return scenario.backends?.includes(backend) !== false;
};

for (const backend of ["sqlite", "jsonl", "postgres", "redis"] satisfies BackendName[]) {
  describe.skipIf(backend === "redis" && !redisAvailable)(
    `killed at every point on ${backend}, every scenario ends as if it had not been killed`,
    () => {
      for (const scenario of scenarios.filter((one) => offers(one, backend))) {
        test(scenario.name, async () => {
          // On servers most of a restart is waiting for a dead owner's lease.
          const concurrency = backend === "postgres" || backend === "redis" ? 4 : 2;
          const report = await killScenario(scenario, backend, { depth: 2, depthSample: 4, concurrency });
          done.push({ name: `${backend}: ${scenario.name}`, report });
          expect(report).toMatchObject({ repeated: 0, lost: 0, violations: [], missed: [], failedStarts: 0 });
        });
      }
    },
  );
}

test("the whole run has killed enough and has reached every listed point", () => {
  const sum = (of: (report: CrashReport) => number) => done.reduce((total, { report }) => total + of(report), 0);
  expect(sum(({ points }) => points.length)).toBe(sum(({ reached }) => reached.length));
  expect(sum(({ kills }) => kills)).toBeGreaterThanOrEqual(KILLS_MIN);
});

afterAll(() => {
  const row = (name: string, cells: readonly (string | number)[]) =>
    `${name.padEnd(52)}${cells.map((cell) => String(cell).padStart(10)).join("")}`;
  const cells = ({ points, reached, kills, restarts, effects, repeated, lost }: CrashReport) => [
    points.length,
    reached.length,
    kills,
    restarts,
    effects,
    repeated,
    lost,
  ];
  const rows = done.map(({ name, report }) => row(name, cells(report)));
  const totals = done
    .map(({ report }) => cells(report))
    .reduce((a, b) => a.map((n, i) => n + (b[i] ?? 0)), new Array<number>(7).fill(0));
  const head = row("scenario", ["points", "reached", "kills", "restarts", "effects", "repeated", "lost"]);
  console.log([head, ...rows, row("all", totals)].join("\n"));
});
