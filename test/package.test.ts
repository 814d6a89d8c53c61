/** The package as a stranger gets it: packed, unpacked into an empty project, type-checked, imported and required. */

import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { isBuiltin } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { manifest, root } from "./repository/source-tree.ts";

const execute = promisify(execFile);
const project = mkdtempSync(join(tmpdir(), "holdfast-package-"));
const installed = join(project, "node_modules", manifest.name);
let packed: readonly string[] = [];

/** Subpaths a program imports, and one name that each must have. The kill preload is loaded by `--import` instead. */
const SUBPATHS: Readonly<Record<string, string>> = {
  holdfast: "effect",
  "holdfast/checkpointers": "openCheckpointer",
  "holdfast/checkpointers/memory": "memory",
  "holdfast/checkpointers/jsonl": "jsonl",
  "holdfast/checkpointers/sqlite": "sqlite",
  "holdfast/checkpointers/postgres": "postgres",
  "holdfast/checkpointers/redis": "redis",
  "holdfast/approvals": "createApprovals",
  "holdfast/runs": "createRuntime",
  "holdfast/runs/pg-boss": "pgBoss",
  "holdfast/testing": "crashMatrix",
  "holdfast/graphs": "orderGraph",
};
const PRELOAD = "holdfast/testing/kill";

/** A program that uses the package: a graph with an effect, killed by nothing, on SQLite. */
const PROGRAM = `
  const charge = effect("charge", { input: z.object({ cents: z.number() }), run: ({ cents }) => ({ paid: cents }) });
  const State = Annotation.Root({ cents: Annotation, paid: Annotation });
  const main = async () => {
    const checkpointer = await sqlite("holdfast.db");
    const app = new StateGraph(State)
      .addNode("pay", async (state) => ({ paid: (await charge({ cents: state.cents })).paid }))
      .addEdge("__start__", "pay")
      .compile({ checkpointer });
    const config = { configurable: { thread_id: \`order-\${process.argv[2]}\` } };
    const first = await run(app, { cents: 4200 }, config);
    const second = await run(app, null, config);
    await checkpointer.close();
    console.log(JSON.stringify([first.status, second.status, second.values.paid]));
  };
  main();
`;

/** The same with types; every type that a user writes down stands here. */
const TYPED = `
import { Annotation, StateGraph } from "@langchain/langgraph";
import { type Backend, type Checkpointer, type EffectRecord, effect, isHoldfastError, run, type RunResult } from "holdfast";
import { type Approvals, type Authenticate, createApprovals, type SweepResult } from "holdfast/approvals";
import { openCheckpointer } from "holdfast/checkpointers";
import { jsonl, jsonlBackend } from "holdfast/checkpointers/jsonl";
import { memory, memoryBackend } from "holdfast/checkpointers/memory";
import { postgres, postgresBackend } from "holdfast/checkpointers/postgres";
import { redis, redisBackend } from "holdfast/checkpointers/redis";
import { sqlite, sqliteBackend } from "holdfast/checkpointers/sqlite";
import * as graphs from "holdfast/graphs";
import { crashMatrix, describeBackend, type FaultPlan, FaultyBackend, faultSweep } from "holdfast/testing";
import { z } from "zod";

const charge = effect("charge", {
  input: z.object({ cents: z.number() }),
  output: z.object({ id: z.string() }),
  run: async ({ cents }, { idempotencyKey, signal, attempt }) => {
    const text: string = \`\${idempotencyKey} \${signal.aborted} \${attempt} \${cents.toFixed()}\`;
    return { id: text };
  },
  verify: (_input, { idempotencyKey }) => ({ id: idempotencyKey }),
  undo: async ({ id }) => console.log(id),
  key: ({ cents }) => String(cents),
});
const State = Annotation.Root({ cents: Annotation<number>, id: Annotation<string> });
const savers: readonly Checkpointer[] = [
  memory(),
  await jsonl("directory"),
  await sqlite("holdfast.db", { synchronous: "FULL", journal: "actions.jsonl" }),
  await postgres("postgres://app@127.0.0.1/orders", { schema: "holdfast" }),
  await redis("redis://127.0.0.1:6379", { ttl: "30 days", effectsOnVolatile: true }),
  await openCheckpointer("memory:"),
];
const app = new StateGraph(State)
  .addNode("pay", async ({ cents }) => ({ id: (await charge({ cents })).id }))
  .addEdge("__start__", "pay")
  .compile({ checkpointer: savers[0] as Checkpointer });
const result: RunResult<typeof State.State> = await run(app, { cents: 1 }, { configurable: { thread_id: "1" } });
const records: readonly EffectRecord[] = await (savers[0] as Checkpointer).effects({ thread: "1" });
const backend: Backend = new FaultyBackend(memoryBackend(), { commit: 1, mode: "before" } satisfies FaultPlan);
const authenticate: Authenticate = async ({ headers }) => ({ user: headers.get("x-user") ?? "nobody" });
const approvals: Approvals = createApprovals({ checkpointer: savers[0] as Checkpointer, graphs: { app }, authenticate });
const swept: SweepResult = await approvals.resumeDue();
// @ts-expect-error the input has a type
await charge({ cents: "1" });
const outcome: { value: { id: string }; cached: boolean; idempotencyKey: string } = await charge.outcome({ cents: 1 });
export { approvals, backend, crashMatrix, describeBackend, faultSweep, graphs, isHoldfastError, jsonlBackend, outcome, postgresBackend, records, redisBackend, result, sqliteBackend, swept };
`;

const REQUIRED = Object.keys(SUBPATHS)
  .map(
    (name, i) => `import part${i} = require("${name}");\nexport const used${i}: unknown = part${i}.${SUBPATHS[name]};`,
  )
  .join("\n");

beforeAll(async () => {
  const into = mkdtempSync(join(tmpdir(), "holdfast-pack-"));
  try {
    const npm = await execute("npm", ["pack", "--ignore-scripts", "--json", "--pack-destination", into], { cwd: root });
    const [{ filename, files }] = JSON.parse(npm.stdout) as [{ filename: string; files: { path: string }[] }];
    packed = files.map(({ path }) => path);
    mkdirSync(installed, { recursive: true });
    await execute("tar", ["-xzf", join(into, filename), "--strip-components=1", "-C", installed]);
  } finally {
    rmSync(into, { recursive: true });
  }
  const peers = Object.keys(manifest.peerDependencies).filter((name) => name !== "vitest");
  const dependencies = Object.keys(manifest.dependencies);
  for (const name of [...peers, ...dependencies, "@types/node", "@types/better-sqlite3"]) link(name);
  writeFileSync(join(project, "package.json"), JSON.stringify({ private: true, type: "module" }));
});

afterAll(() => rmSync(project, { recursive: true }));

/** A package as if it had been installed here: nothing else of this repository can be found from the project. */
function link(name: string): void {
  const at = join(project, "node_modules", name);
  mkdirSync(dirname(at), { recursive: true });
  symlinkSync(join(root, "node_modules", name), at);
}

function write(name: string, text: string): string {
  writeFileSync(join(project, name), text);
  return name;
}

async function typeCheck(files: readonly string[], options: Readonly<Record<string, unknown>>): Promise<string> {
  const compilerOptions = {
    strict: true,
    noEmit: true,
    target: "ES2022",
    lib: ["ES2023"],
    types: ["node"],
    ...options,
  };
  write("tsconfig.json", JSON.stringify({ compilerOptions, files }));
  const compiler = join(root, "node_modules", "typescript", "bin", "tsc");
  return execute(process.execPath, [compiler, "-p", project], { cwd: project }).then(
    ({ stdout }) => stdout,
    (error: { stdout: string }) => error.stdout,
  );
}

describe("the tarball", () => {
  test("holds the built library, its documents and its licence, and nothing else", () => {
    const others = packed.filter(
      (path) =>
        !/^dist\/(src|checkpointers|graphs)\/.+\.(js|d\.ts)$/.test(path) &&
        !/^docs\/[a-z-]+\.md$/.test(path) &&
        path !== "dist/src/approvals/inbox.html",
    );
    const named = ["CHANGELOG.md", "DESIGN.md", "LICENSE", "README.md", "bin/holdfast.js", "package.json"];
    expect(others.sort()).toEqual(named);
  });

  test("holds the program holdfast, which runs where it is installed", async () => {
    const program = join(installed, manifest.bin["holdfast"] as string);
    const { stdout } = await execute(process.execPath, [program, "--version"], { cwd: project });
    expect(stdout).toBe(`${manifest.version}\n`);
  });

  test("holds what the sources give, and no leftover of an older build", () => {
    const built = packed
      .filter((path) => path.startsWith("dist/") && path.endsWith(".js"))
      .map((path) => path.replace(/^dist\/(.+)\.js$/, "$1.ts"));
    const sources = ["src", "checkpointers", "graphs"].flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
        .filter((name) => name.endsWith(".ts"))
        .map((name) => `${folder}/${name}`),
    );
    expect(built.sort()).toEqual(sources.sort());
  });

  test("holds the inbox page as it stands in the sources", () => {
    const page = (path: string) => readFileSync(path, "utf8");
    expect(page(join(installed, "dist/src/approvals/inbox.html"))).toBe(page(join(root, "src/approvals/inbox.html")));
  });

  test("every exported path is there", () => {
    const targets = Object.values(manifest.exports).flatMap((target) =>
      typeof target === "string" ? [target] : [target["types"] as string, target["default"] as string],
    );
    expect(targets.map((target) => target.slice("./".length)).filter((target) => !packed.includes(target))).toEqual([]);
  });

  test("the subpaths tried here are all that are exported", () => {
    const names = Object.keys(manifest.exports).map((subpath) => subpath.replace(/^\./, manifest.name));
    expect([...Object.keys(SUBPATHS), PRELOAD, "holdfast/package.json"].sort()).toEqual(names.sort());
  });

  test("no declaration file refers to a package that a user might not have", () => {
    const given = { ...manifest.peerDependencies, ...manifest.dependencies };
    const known = [manifest.name, ...Object.keys(given)].filter((name) => name !== "vitest");
    const foreign = packed
      .filter((path) => path.endsWith(".d.ts"))
      .flatMap((path) =>
        [...readFileSync(join(installed, path), "utf8").matchAll(/(?:from|import\()\s*"([^".][^"]*)"/g)]
          .map(([, specifier = ""]) => specifier)
          .filter((specifier) => !isBuiltin(specifier))
          .filter((specifier) => !known.some((name) => specifier === name || specifier.startsWith(`${name}/`)))
          .map((specifier) => `${path}: ${specifier}`),
      );
    expect(foreign).toEqual([]);
  });
});

describe("types", { timeout: 300_000 }, () => {
  test("a program type-checks under NodeNext resolution, declarations included, and one that requires too", async () => {
    const files = [write("typed.ts", TYPED), write("required.cts", REQUIRED)];
    expect(await typeCheck(files, { module: "NodeNext", moduleResolution: "NodeNext" })).toBe("");
  });

  test("a program type-checks under Bundler resolution", async () => {
    const files = [write("typed.ts", TYPED)];
    expect(await typeCheck(files, { module: "ESNext", moduleResolution: "Bundler", skipLibCheck: true })).toBe("");
  });
});

describe("running", () => {
  const importing = (names: string, from: string) => `import { ${names} } from "${from}";\n`;
  const requiring = (names: string, from: string) => `const { ${names} } = require("${from}");\n`;

  test.each([
    ["imported", "program.mjs", importing],
    ["required", "program.cjs", requiring],
  ])("a program runs where the package is %s", async (how, file, load) => {
    const head =
      load("Annotation, StateGraph", "@langchain/langgraph") +
      load("effect, run", "holdfast") +
      load("sqlite", "holdfast/checkpointers/sqlite") +
      load("z", "zod");
    const { stdout } = await execute(process.execPath, [write(file, head + PROGRAM), how], { cwd: project });
    expect(JSON.parse(stdout)).toEqual(["finished", "already_done", 4200]);
  });

  test("every subpath can be imported and required, and is one module either way", async () => {
    const names = Object.entries(SUBPATHS);
    const script = `
      import { createRequire } from "node:module";
      const require = createRequire(import.meta.url);
      for (const [name, exported] of ${JSON.stringify(names)}) {
        const [imported, required] = [await import(name), require(name)];
        console.log(name, typeof imported[exported], required[exported] === imported[exported]);
      }`;
    const { stdout } = await execute(process.execPath, [write("each.mjs", script)], { cwd: project });
    expect(stdout.trimEnd().split("\n")).toEqual(names.map(([name]) => `${name} function true`));
  });

  test("the kill preload changes nothing where nothing asks for a kill", async () => {
    const { stdout } = await execute(process.execPath, ["--import", PRELOAD, "-e", "console.log('alive')"], {
      cwd: project,
    });
    expect(stdout).toBe("alive\n");
  });

  test("nothing deep inside the package can be imported", async () => {
    const script = write("deep.mjs", 'import "holdfast/dist/src/checkpointer.js";');
    await expect(execute(process.execPath, [script], { cwd: project })).rejects.toThrow(
      "ERR_PACKAGE_PATH_NOT_EXPORTED",
    );
  });

  test.each([
    ["better-sqlite3", "sqlite", "holdfast.db"],
    ["ioredis", "redis", "redis://127.0.0.1:1"],
  ])("without %s the library loads, and opening a database says what is missing", async (driver, name, place) => {
    rmSync(join(project, "node_modules", driver));
    try {
      const script =
        `import "holdfast"; import "holdfast/checkpointers"; import { ${name} } from "holdfast/checkpointers/${name}";\n` +
        `await ${name}("${place}").catch((error) => console.log(error.code));`;
      const { stdout } = await execute(process.execPath, [write("bare.mjs", script)], { cwd: project });
      expect(stdout).toBe("DRIVER_MISSING\n");
    } finally {
      link(driver);
    }
  });
});
