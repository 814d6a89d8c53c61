/**
 * The documents are tested like the code: their programs run and print what is said, what they name exists.
 *
 * - ```` ```ts ```` is a whole program: type-checked and run, in a directory of its document. A ```` ```text ```` block that
 *   follows is what it prints.
 * - ```` ```ts program NAME ```` is type-checked and laid down under that name, for the next program.
 * - ```` ```ts type-check ```` is only type-checked.
 */

import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { errorCodes } from "holdfast";
import ts from "typescript";
import { describe, expect, test } from "vitest";
import { help } from "../examples/demo/options.ts";
import { holdfast } from "./cli/terminal.ts";
import { commandLine } from "./crash/campaign/options.ts";
import { manifest, root } from "./repository/source-tree.ts";

const read = (path: string) => readFileSync(join(root, path), "utf8");

const documents = [
  ...readdirSync(root).filter((name) => name.endsWith(".md")),
  ...readdirSync(join(root, "docs")).map((name) => `docs/${name}`),
].sort();

interface Block {
  /** The info string, for example `ts type-check`. */
  readonly info: string;
  readonly text: string;
  readonly line: number;
}

function blocksOf(path: string): Block[] {
  const blocks: Block[] = [];
  let open: { info: string; line: number; text: string[] } | undefined;
  for (const [i, line] of read(path).split("\n").entries()) {
    if (!line.startsWith("```")) open?.text.push(line);
    else if (open === undefined) open = { info: line.slice(3).trim(), line: i + 1, text: [] };
    else {
      blocks.push({ info: open.info, line: open.line, text: `${open.text.join("\n")}\n` });
      open = undefined;
    }
  }
  return blocks;
}

const blocks = new Map(documents.map((path) => [path, blocksOf(path)] as const));
const isProgram = ({ info }: Block) => info.split(" ")[0] === "ts";
/** What stands outside of all blocks. */
const proseOf = (path: string) => read(path).replaceAll(/^```[\s\S]*?^```$/gm, "");

test("every block says what it is", () => {
  const known = /^(?:ts(?: type-check| program [a-z-]+\.js)?|text|sh|json|ini|yaml)$/;
  const unknown = [...blocks].flatMap(([path, all]) =>
    all.filter(({ info }) => !known.test(info)).map(({ info, line }) => `${path}:${line}: ${info}`),
  );
  expect(unknown).toEqual([]);
});

describe("programs", () => {
  test("all type-check", { timeout: 300_000 }, () => {
    const files = new Map<string, { readonly name: string; readonly text: string }>();
    for (const [path, all] of blocks) {
      for (const block of all.filter(isProgram)) {
        files.set(join(root, `${path.replaceAll(/[/.]/g, "-")}-${block.line}.ts`), {
          name: `${path}:${block.line}`,
          text: block.text,
        });
      }
    }
    expect(diagnose(files)).toEqual([]);
  });

  for (const [path, all] of blocks) {
    if (!all.some(({ info }) => info === "ts")) continue;
    test(`those of ${path} run and print what it says`, { timeout: 300_000 }, async () => {
      // Inside the package, so that its own name leads to its built files.
      const directory = mkdtempSync(join(root, "dist", "document-"));
      try {
        for (const [i, block] of all.entries()) {
          const named = /^ts program (.+)$/.exec(block.info)?.[1];
          if (block.info !== "ts" && named === undefined) continue;
          const file = named ?? `line-${block.line}.js`;
          writeFileSync(join(directory, file), transpile(block.text));
          if (named !== undefined) continue;
          const { stdout } = await promisify(execFile)(process.execPath, [file], { cwd: directory });
          const next = all[i + 1];
          expect({ line: block.line, stdout }).toEqual({
            line: block.line,
            stdout: next?.info === "text" ? next.text : "",
          });
        }
      } finally {
        rmSync(directory, { recursive: true });
      }
    });
  }
});

test("commands are scripts of package.json, and options of the demo and the campaign are options they have", () => {
  const wrong = [...blocks].flatMap(([path, all]) => {
    const shell = all.filter(({ info }) => info === "sh").map(({ text }) => text);
    const commands = [
      ...shell.join("\n").split(/&&|\n/),
      ...[...proseOf(path).matchAll(/`(npm [^`]+)`/g)].map(([, text = ""]) => text),
    ];
    return commands
      .map((command) => command.trim())
      .filter((command) => !isKnownCommand(command))
      .map((command) => `${path}: ${command}`);
  });
  expect(wrong).toEqual([]);
});

test("commands of holdfast that a document names are commands it has, with options it has", async () => {
  const named = [...blocks.values()].flatMap((all) =>
    all.filter(({ info }) => info === "sh").flatMap(({ text }) => [...text.matchAll(/^npx holdfast (\S+)(.*)$/gm)]),
  );
  expect(named.length).toBeGreaterThan(0);
  for (const [line, command = "", rest = ""] of named) {
    const { code, stdout } = await holdfast([command, "--help"]);
    expect({ line, code }).toEqual({ line, code: 0 });
    for (const [option] of rest.matchAll(/--[a-z-]+/g)) expect(stdout).toContain(` ${option}`);
  }
});

function isKnownCommand(command: string): boolean {
  if (command === "" || command.startsWith("npx holdfast ")) return true;
  const [program, verb = "", name = "", ...rest] = command.split(/\s+/);
  if (program !== "npm") return /^(?:[A-Z_]+=\S+ )*node --import holdfast\/testing\/kill \S+$/.test(command);
  if (verb === "run") {
    const options = [...rest.join(" ").matchAll(/--[a-z]+/g)].map(([option]) => option);
    const known = name === "crash" ? Object.keys(commandLine).map((option) => `--${option}`) : help;
    return name in manifest.scripts && options.every((option) => known.includes(option));
  }
  return ["ci", "test", "install", "rebuild", "pack"].includes(verb);
}

test("every path that a document names exists", () => {
  const folders = "src|test|docs|checkpointers|graphs|examples|bench|\\.ci";
  const missing = documents.flatMap((path) =>
    [...proseOf(path).matchAll(new RegExp(`\`((?:${folders})/[^\`*<>]*)\``, "g"))]
      .map(([, named = ""]) => named)
      .filter((named) => !existsSync(join(root, named)))
      .map((named) => `${path}: ${named}`),
  );
  expect(missing).toEqual([]);
});

test("every link inside the repository leads to a file, and to a heading of it", () => {
  const broken = documents.flatMap((path) =>
    [...proseOf(path).matchAll(/\]\(([^)\s]+)\)/g)]
      .map(([, target = ""]) => target)
      .filter((target) => !/^https?:/.test(target) && !isReachable(path, target))
      .map((target) => `${path}: ${target}`),
  );
  expect(broken).toEqual([]);
});

function isReachable(from: string, target: string): boolean {
  const [file = "", heading] = target.split("#");
  const path = file === "" ? from : join(dirname(from), file);
  if (!existsSync(join(root, path))) return false;
  return heading === undefined || headingsOf(path).includes(heading);
}

/** As GitHub makes anchors of headings. */
function headingsOf(path: string): string[] {
  return [...proseOf(path).matchAll(/^#+ (.+)$/gm)].map(([, text = ""]) =>
    text
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
      .trim()
      .replaceAll(" ", "-"),
  );
}

test("every error code has a heading in docs/errors.md, and every such heading is a code", () => {
  const headings = [...read("docs/errors.md").matchAll(/^### ([A-Z_]+)$/gm)].map(([, code]) => code);
  expect([...headings].sort()).toEqual([...errorCodes].sort());
});

test("no document promises that anything happens exactly once", () => {
  expect(documents.filter((path) => /exactly[ -]once/i.test(read(path)))).toEqual([]);
});

test("every document of docs/ can be found from the README", () => {
  const readme = read("README.md");
  expect(documents.filter((path) => path.startsWith("docs/") && !readme.includes(`](${path})`))).toEqual([]);
});

test("the rules for contributors fit on a few pages", () => {
  expect(read("AGENTS.md").trimEnd().split("\n").length).toBeLessThanOrEqual(120);
});

test("the changelog has a place for what is not released, and names every release by its version", () => {
  const headings = [...read("CHANGELOG.md").matchAll(/^## (.+)$/gm)].map(([, heading = ""]) => heading);
  expect(headings[0]).toBe("Unreleased");
  for (const heading of headings.slice(1)) expect(heading).toMatch(/^\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d$/);
});

function transpile(text: string): string {
  const compilerOptions = { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext, verbatimModuleSyntax: true };
  return ts.transpileModule(text, { compilerOptions }).outputText;
}

/** The compiler's complaints about files that exist only here, as `document:line: message`. */
function diagnose(files: ReadonlyMap<string, { readonly name: string; readonly text: string }>): string[] {
  const { config } = ts.readConfigFile(join(root, "tsconfig.json"), (path) => ts.sys.readFile(path));
  const { options } = ts.convertCompilerOptionsFromJson(config.compilerOptions, root);
  const host = ts.createCompilerHost(options);
  const { fileExists, readFile } = host;
  host.fileExists = (path) => files.has(path) || fileExists(path);
  host.readFile = (path) => files.get(path)?.text ?? readFile(path);
  const program = ts.createProgram([...files.keys()], { ...options, noEmit: true }, host);
  return ts.getPreEmitDiagnostics(program).map(({ file, start = 0, messageText }) => {
    const message = ts.flattenDiagnosticMessageText(messageText, "\n");
    const known = file === undefined ? undefined : files.get(file.fileName);
    if (file === undefined || known === undefined) return `${file?.fileName ?? ""}: ${message}`;
    return `${known.name}, its line ${file.getLineAndCharacterOfPosition(start).line + 1}: ${message}`;
  });
}
