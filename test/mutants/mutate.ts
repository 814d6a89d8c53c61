/**
 * Builds a copy of the library with one line changed, to see that a check notices. The text to be replaced must occur
 * exactly once, so a mutant that no longer exists fails loudly instead of testing the good code.
 */

import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import ts from "typescript";

const root = fileURLToPath(new URL("../../", import.meta.url));
/** Inside `node_modules`, where the copies find the library's dependencies. */
const copies = join(root, "node_modules", ".holdfast-mutants");

/** A copy of the library, loaded. */
export interface Library {
  readonly holdfast: typeof import("holdfast");
  readonly memory: typeof import("holdfast/checkpointers/memory");
  readonly jsonl: typeof import("holdfast/checkpointers/jsonl");
  readonly approvals: typeof import("holdfast/approvals");
}

export interface Mutation {
  /** Relative to the repository. */
  readonly file: string;
  readonly from: string;
  readonly to: string;
}

const compiled = new Map<string, string>();

/** The library with these changes; with none, a copy of the good one. Gone from disk once it is loaded. */
export async function mutate(...mutations: readonly Mutation[]): Promise<Library> {
  mkdirSync(copies, { recursive: true });
  const directory = mkdtempSync(join(copies, "copy-"));
  try {
    for (const file of sources()) {
      const changes = mutations.filter((mutation) => mutation.file === file);
      const target = join(directory, file.replace(/\.ts$/, ".js"));
      mkdirSync(dirname(target), { recursive: true });
      writeFileSync(
        target,
        changes.length === 0 ? unchanged(file) : compile(file, changes.reduce(changed, read(file))),
      );
    }
    writeFileSync(join(directory, "package.json"), '{ "type": "module" }\n');
    const load = (file: string) =>
      import(/* @vite-ignore */ pathToFileURL(join(directory, file)).href) as Promise<never>;
    const holdfast = await load("src/index.js");
    return {
      holdfast,
      memory: await load("checkpointers/memory/index.js"),
      jsonl: await load("checkpointers/jsonl/index.js"),
      approvals: await load("src/approvals/index.js"),
    };
  } finally {
    rmSync(directory, { recursive: true });
  }
}

function changed(text: string, { file, from, to }: Mutation): string {
  const places = [...text.matchAll(anyLayout(from))];
  if (places.length !== 1)
    throw new Error(`${file} has ${places.length} places with this text, a mutant needs exactly one:\n${from}`);
  const [{ index, 0: found }] = places as [RegExpExecArray];
  return text.slice(0, index) + to + text.slice(index + found.length);
}

/** Matches the text however a formatter breaks its lines. */
function anyLayout(text: string): RegExp {
  const tokens = text.match(/\w+|[^\w\s]/g) ?? [];
  const escaped = tokens.map((token) => token.replace(/[^\w]/, "\\$&"));
  return new RegExp(escaped.map((token) => (/^\\[)\]}]$/.test(token) ? `,?\\s*${token}` : token)).join("\\s*"), "g");
}

const read = (file: string) => readFileSync(join(root, file), "utf8");

function sources(): string[] {
  const files: string[] = [];
  for (const folder of ["src", "checkpointers"]) {
    for (const entry of readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })) {
      if (entry.endsWith(".ts") && !/^(testing|sqlite)\//.test(entry)) files.push(join(folder, entry));
    }
  }
  return files;
}

function unchanged(file: string): string {
  let code = compiled.get(file);
  if (code === undefined) {
    code = compile(file, read(file));
    compiled.set(file, code);
  }
  return code;
}

/** TypeScript → JavaScript; the package's own name becomes a path, so that the copy is one library. */
function compile(file: string, text: string): string {
  const { outputText } = ts.transpileModule(text, {
    fileName: file,
    compilerOptions: { target: ts.ScriptTarget.ES2023, module: ts.ModuleKind.ESNext, verbatimModuleSyntax: true },
  });
  const own = relative(dirname(file), "src/index.js");
  return outputText
    .replaceAll(/(from\s+|import\()"(\.[^"]*)\.ts"/g, '$1"$2.js"')
    .replaceAll(/from\s+"holdfast"/g, `from "${own}"`);
}
