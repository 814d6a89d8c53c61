/**
 * The unit file and the manifest of `examples/deploy`: their command lines, environment and probes are taken out of them and
 * executed as they stand, with paths and port of this machine put in their place.
 */

import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { postgres } from "holdfast/checkpointers/postgres";
import { createRuntime } from "holdfast/runs";
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from "vitest";
import { parse } from "yaml";
import { kitFile, type ServingChild, serve } from "../../src/testing/child.ts";
import type { CounterReport } from "../../src/testing/counter-server.ts";
import { compiled, scratchDirectory } from "../backends/scratch.ts";
import { root } from "../repository/source-tree.ts";
import { freePort } from "../servers/ports.ts";
import { query } from "../servers/schemas.ts";
import { type Program, startProgram } from "./process.ts";

const read = (path: string) => readFileSync(join(root, path), "utf8");
const UNIT = "examples/deploy/holdfast-worker.service";
const MANIFEST = "examples/deploy/holdfast-worker.yaml";

let counter: ServingChild;
beforeAll(async () => {
  counter = await serve(kitFile("counter-server"));
});
afterAll(() => counter.stop());

/** A supervisor's view of the worker: what it starts, and how long it lets it end. */
interface Deployment {
  start(): Program;
  /** Exit code of the probe's own command. */
  probe?(which: "liveness" | "readiness"): Promise<number | null>;
  readonly graceMs: number;
}

/** An installation: the package beside the graphs, and a database. */
async function installed() {
  const directory = await scratchDirectory();
  const modules = join(directory, "node_modules");
  mkdirSync(modules);
  symlinkSync(root, join(modules, "holdfast"));
  // Its effect says that it is inside, and returns at SIGUSR2.
  const graphs = `
    import { charging } from ${JSON.stringify(pathToFileURL(compiled("test/runs/programs/charging.ts")).href)};
    const after = () => new Promise((resolve) => {
      process.once("SIGUSR2", resolve);
      console.log(JSON.stringify({ event: "inside" }));
    });
    export const graphs = (checkpointer) => ({ charge: charging(checkpointer, { after }) });`;
  writeFileSync(join(directory, "graphs.js"), graphs);
  writeFileSync(join(directory, "package.json"), '{ "type": "module" }');
  const database = `deploy_${randomUUID().replaceAll("-", "")}`;
  await query(`create database ${database}`);
  onTestFinished(async () => void (await query(`drop database ${database} with (force)`)));
  const url = new URL(inject("postgresUrl"));
  url.pathname = `/${database}`;
  url.searchParams.set("application_name", "deploy");
  const counterUrl = `${counter.line}/${database}`;
  const counted = async () => {
    const { counts } = (await (await fetch(`${counterUrl}/report`, { method: "POST" })).json()) as CounterReport;
    return Object.fromEntries(Object.entries(counts).map(([identity, { times }]) => [identity, times]));
  };
  // What the supervisor's own environment is beside what it is told to hand over.
  const env = { PATH: process.env["PATH"], HOLDFAST_COUNTER_URL: counterUrl };
  return { directory, url: url.href, env, counted };
}

type Installed = Awaited<ReturnType<typeof installed>>;

function systemd({ directory, url, env }: Installed): Deployment {
  const environmentFile = join(directory, "worker.env");
  writeFileSync(environmentFile, `STORE_URL=${url}\n`);
  const text = read(UNIT).replace("/etc/holdfast/worker.env", environmentFile).replace("/srv/app", directory);
  const unit = new Map(
    text
      .split("\n")
      .filter((line) => line.includes("="))
      .map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]),
  );
  const variables = Object.fromEntries(
    readFileSync(String(unit.get("EnvironmentFile")), "utf8")
      .trim()
      .split("\n")
      .map((line) => line.split(/=(.*)/s)),
  ) as Record<string, string>;
  const [program, ...args] = String(unit.get("ExecStart"))
    .split(/\s+/)
    .map((word) => word.replaceAll(/\$\{(\w+)\}/g, (_all, name: string) => variables[name] ?? ""));
  expect(program).toBe("/usr/bin/node");
  expect(Object.fromEntries(unit)).toMatchObject({ Restart: "always", KillMode: "mixed", WorkingDirectory: directory });
  return {
    start: () => startProgram(process.execPath, args, { cwd: directory, env: { ...env, ...variables } }),
    graceMs: Number(unit.get("TimeoutStopSec")) * 1000,
  };
}

interface Probe {
  readonly exec: { readonly command: readonly string[] };
}

interface Container {
  readonly command: readonly string[];
  readonly args: readonly string[];
  readonly env: readonly { name: string; valueFrom: { secretKeyRef: { name: string; key: string } } }[];
  readonly livenessProbe: Probe;
  readonly readinessProbe: Probe;
}

interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly spec: {
    readonly selector: { readonly matchLabels: object };
    readonly template: {
      readonly metadata: { readonly labels: object };
      readonly spec: { readonly terminationGracePeriodSeconds: number; readonly containers: readonly [Container] };
    };
  };
}

async function kubernetes({ directory, url, env }: Installed): Promise<Deployment> {
  const text = read(MANIFEST).replaceAll("8080", String(await freePort()));
  const { apiVersion, kind, spec } = parse(text) as Manifest;
  expect({ apiVersion, kind }).toEqual({ apiVersion: "apps/v1", kind: "Deployment" });
  expect(spec.template.metadata.labels).toEqual(spec.selector.matchLabels);
  // Without a restartPolicy it is Always.
  expect(spec.template.spec).not.toHaveProperty("restartPolicy");
  const [container] = spec.template.spec.containers;
  const secrets: Record<string, Record<string, string>> = { holdfast: { url } };
  const variables = Object.fromEntries(
    container.env.map(({ name, valueFrom }) => {
      const { name: secret, key } = valueFrom.secretKeyRef;
      return [name, String(secrets[secret]?.[key])];
    }),
  );
  const inContainer = { cwd: directory, env: { ...env, ...variables } };
  const [program = "", ...args] = [...container.command, ...container.args].map((word) =>
    word.replaceAll(/\$\((\w+)\)/g, (_all, name: string) => variables[name] ?? ""),
  );
  return {
    start: () => startProgram(program, args, inContainer),
    probe: async (which) => {
      const [file = "", ...rest] = container[`${which}Probe`].exec.command;
      const [code] = (await once(spawn(file, rest, { ...inContainer, stdio: "ignore" }), "exit")) as [number | null];
      return code;
    },
    graceMs: spec.template.spec.terminationGracePeriodSeconds * 1000,
  };
}

/** A process of the platform that only starts runs. */
async function starter(url: string) {
  const checkpointer = await postgres(url);
  onTestFinished(() => checkpointer.close());
  const runtime = createRuntime({ checkpointer, graphs: {} });
  const begin = async (threadId: string) => (await runtime.start("charge", { receipt: "" }, { threadId })).run.id;
  return { runtime, begin };
}

describe.each([
  ["the systemd unit", systemd],
  ["the Kubernetes manifest", kubernetes],
])("%s", (_name, deploy) => {
  test("starts a worker; one that is killed is started again and finishes the run, its effect once; SIGTERM ends it with 0", async () => {
    const place = await installed();
    const { start, probe, graceMs } = await deploy(place);
    const first = start();
    await first.line({ event: "ready" });
    // As a supervisor does: until it is ready.
    while (probe !== undefined && (await probe("readiness")) !== 0);
    expect(await probe?.("liveness")).toBe(probe === undefined ? undefined : 0);

    const { runtime, begin } = await starter(place.url);
    const id = await begin("t");
    await first.line({ event: "inside" });
    first.signal("SIGKILL");
    expect((await first.ended).code).toBe("SIGKILL");
    if (probe !== undefined) expect([await probe("liveness"), await probe("readiness")]).toEqual([1, 1]);

    const second = start();
    expect(await second.line({ event: "run" })).toMatchObject({ id, status: "succeeded", epoch: 2 });
    expect(await place.counted()).toEqual({ "card 1": 1 });

    const next = await begin("u");
    await second.line({ event: "inside" });
    second.signal("SIGTERM");
    const killed = setTimeout(() => second.signal("SIGKILL"), graceMs);
    onTestFinished(() => clearTimeout(killed));
    await second.line({ event: "draining", running: 1 });
    if (probe !== undefined) expect([await probe("liveness"), await probe("readiness")]).toEqual([0, 1]);
    second.signal("SIGUSR2");
    expect(await second.ended).toEqual({ code: 0, stderr: "" });
    expect((await runtime.get(next)).status).toMatch(/^(?:queued|succeeded)$/);
  });
});

test.each([
  ["ini", UNIT],
  ["yaml", MANIFEST],
])("the %s that docs/runs.md shows is the file", (language, path) => {
  const [, shown] = new RegExp(`^\`\`\`${language}\n([\\s\\S]*?)^\`\`\`$`, "m").exec(read("docs/runs.md")) ?? [];
  expect(shown).toBe(read(path));
});
