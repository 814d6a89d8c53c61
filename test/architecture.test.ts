/** The rules of the source that no compiler checks, read from the source itself. Each message names file and line. */

import { basename } from "node:path";
import ts from "typescript";
import { describe, expect, test } from "vitest";
import {
  type Import,
  type Layer,
  layers,
  lineCount,
  manifest,
  nodesOf,
  ownNames,
  position,
  type SourceFile,
  sourceFiles,
} from "./repository/source-tree.ts";

const shipped = sourceFiles("src", "checkpointers", "graphs");
const examples = sourceFiles("examples");
const all = [...shipped, ...examples, ...sourceFiles("test", "bench")];
const layerOf = (path: string) => path.slice(0, path.indexOf("/")) as Layer;
const inLayer = (layer: Layer) => all.filter((file) => layerOf(file.path) === layer);

/** The command line opens databases by URL: what it needs of the checkpointers it imports when it needs it, by their public name. */
const LOADS_CHECKPOINTERS = "src/cli/backends.ts";
const isAllowed = (path: string, { specifier, kind }: Import) =>
  path === LOADS_CHECKPOINTERS && kind === "lazy" && specifier === "holdfast/checkpointers";

/** Files that may be longer than the rest, each with its reason. */
const LONG_FILES: Readonly<Record<string, string>> = {};
const LIBRARY_LINES_MAX = 400;
const TEST_LINES_MAX = 500;
const FUNCTION_LINES_MAX = 70;

describe("layers", () => {
  test("each layer imports only itself and what stands to its left: src, checkpointers, graphs, examples", () => {
    const wrong = layers.flatMap((layer, rank) =>
      inLayer(layer).flatMap(({ path, imports }) =>
        imports
          .filter((entry) => !isAllowed(path, entry))
          .filter(
            ({ target }) => target !== undefined && !(layers.slice(0, rank + 1) as string[]).includes(layerOf(target)),
          )
          .map(({ specifier }) => `${path} imports ${specifier}`),
      ),
    );
    expect(wrong).toEqual([]);
  });

  test("checkpointers, graphs and examples use the library by its package name, as a stranger's package would", () => {
    const wrong = layers
      .slice(1)
      .flatMap((layer) =>
        inLayer(layer).flatMap(({ path, imports }) =>
          imports
            .filter(({ specifier, target }) => specifier.startsWith(".") && layerOf(target as string) !== layer)
            .map(({ specifier }) => `${path} imports ${specifier}`),
        ),
      );
    expect(wrong).toEqual([]);
  });

  test("only exported subpaths of the package are imported, nothing deep inside it", () => {
    const wrong = all.flatMap(({ path, imports }) =>
      imports
        .filter(({ specifier }) => specifier === manifest.name || specifier.startsWith(`${manifest.name}/`))
        .filter(({ specifier }) => !ownNames.has(specifier) && specifier !== `${manifest.name}/package.json`)
        .map(({ specifier }) => `${path} imports ${specifier}`),
    );
    expect(wrong).toEqual([]);
  });

  test("src imports itself by relative paths only, and never its own index", () => {
    const wrong = inLayer("src").flatMap(({ path, imports }) =>
      imports
        .filter((entry) => !isAllowed(path, entry))
        .filter(
          ({ specifier, target }) => target !== undefined && (!specifier.startsWith(".") || target === "src/index.ts"),
        )
        .map(({ specifier }) => `${path} imports ${specifier}`),
    );
    expect(wrong).toEqual([]);
  });

  test("no shipped file outside src/testing imports the testing kit", () => {
    const wrong = shipped
      .filter(({ path }) => !path.startsWith("src/testing/"))
      .flatMap(({ path, imports }) =>
        imports
          .filter(({ target }) => target?.startsWith("src/testing/"))
          .map(({ specifier }) => `${path} imports ${specifier}`),
      );
    expect(wrong).toEqual([]);
  });
});

describe("packages", () => {
  /** Optional peers, and the one file that loads each. */
  const LAZY: Readonly<Record<string, string>> = {
    "@langchain/langgraph-checkpoint-postgres": "checkpointers/langgraph/official-savers.ts",
    "@langchain/langgraph-checkpoint-sqlite": "checkpointers/langgraph/official-savers.ts",
    "better-sqlite3": "checkpointers/sqlite-driver.ts",
    ioredis: "checkpointers/redis/driver.ts",
    pg: "checkpointers/postgres/driver.ts",
    "pg-boss": "src/runs/pg-boss.ts",
    tsx: "src/cli/graphs-module.ts",
    vitest: "src/testing/describe-backend.ts",
  };
  const packageOf = (specifier: string) => specifier.split("/", specifier.startsWith("@") ? 2 : 1).join("/");
  const foreign = (file: SourceFile) =>
    file.imports.filter(({ specifier, target }) => target === undefined && !specifier.startsWith("node:"));

  test("shipped files import only Node and packages that are declared as dependencies or peers", () => {
    const declared = { ...manifest.dependencies, ...manifest.peerDependencies };
    const wrong = shipped.flatMap((file) =>
      foreign(file)
        .filter(({ specifier }) => !(packageOf(specifier) in declared))
        .map(({ specifier }) => `${file.path} imports ${specifier}`),
    );
    expect(wrong).toEqual([]);
  });

  test("the optional peers are exactly those that are loaded lazily", () => {
    const optional = Object.entries(manifest.peerDependenciesMeta).filter(([, meta]) => meta.optional === true);
    expect(optional.map(([name]) => name).sort()).toEqual(Object.keys(LAZY).sort());
  });

  test("optional peers are loaded lazily, by one file each; elsewhere only their types are named", () => {
    const wrong = shipped.flatMap((file) =>
      foreign(file)
        .filter(({ specifier }) => packageOf(specifier) in LAZY)
        .filter(
          ({ specifier, kind }) => kind !== "type" && !(kind === "lazy" && LAZY[packageOf(specifier)] === file.path),
        )
        .map(({ specifier, kind }) => `${file.path}: ${kind} import of ${specifier}`),
    );
    expect(wrong).toEqual([]);
  });

  test("peers that are always there are imported at the top, so that a missing one shows at start", () => {
    const wrong = shipped.flatMap((file) =>
      foreign(file)
        .filter(({ specifier, kind }) => kind === "lazy" && !(packageOf(specifier) in LAZY))
        .map(({ specifier }) => `${file.path}: lazy import of ${specifier}`),
    );
    expect(wrong).toEqual([]);
  });

  test("every peer of ours is a development dependency with an exact version", () => {
    const missing = Object.keys(manifest.peerDependencies).filter((name) => !(name in manifest.devDependencies));
    const loose = Object.entries(manifest.devDependencies).filter(
      ([, version]) => !/^\d+\.\d+\.\d+(?:-[a-z]+\.\d+)?$/.test(version),
    );
    expect({ missing, loose }).toEqual({ missing: [], loose: [] });
  });
});

describe("LangGraph's inside", () => {
  test("only src/langgraph.ts names LangGraph's internal keys", () => {
    const wrong = shipped
      .filter(({ path }) => path !== "src/langgraph.ts")
      .flatMap((file) =>
        [...nodesOf(file.tree)]
          .filter((node) => isText(node) && node.text.includes("__pregel"))
          .map((node) => position(file, node)),
      );
    expect(wrong).toEqual([]);
  });

  /** What src runs of the engine: to pause a task, to know a command, to drain a run, and to give restored values their classes. */
  const USES_ENGINE = [
    "src/effect-call.ts",
    "src/effect-refusals.ts",
    "src/langgraph.ts",
    "src/run.ts",
    "src/runs/execution.ts",
    "src/serde/langchain-codec.ts",
    "src/wait-call.ts",
  ];

  test("only the listed files of src run code of @langchain/langgraph, and only of its main entry", () => {
    const wrong = inLayer("src").flatMap(({ path, imports }) =>
      imports
        .filter(({ specifier }) => /^@langchain\/langgraph($|\/)/.test(specifier))
        .filter(
          ({ specifier, kind }) =>
            specifier !== "@langchain/langgraph" || (kind !== "type" && !USES_ENGINE.includes(path)),
        )
        .map(({ specifier }) => `${path} imports ${specifier}`),
    );
    expect(wrong).toEqual([]);
  });
});

describe("modules", () => {
  test("there is no cycle of run-time imports", () => {
    expect(cycles([...shipped, ...examples])).toEqual([]);
  });

  test("the search finds a cycle where there is one", () => {
    const file = (path: string, target: string) => ({
      path,
      imports: [{ specifier: "", kind: "static" as const, target }],
    });
    expect(cycles([file("a", "b"), file("b", "c"), file("c", "b")])).toEqual(["b → c → b"]);
  });

  test.each([...ownNames])("%s exports explicit names only", (_name, path) => {
    const file = all.find((candidate) => candidate.path === path) as SourceFile;
    const stars = file.tree.statements.filter(
      (node) => ts.isExportDeclaration(node) && node.exportClause === undefined,
    );
    expect(stars.map((node) => position(file, node))).toEqual([]);
  });

  test("src/index.ts does nothing but name what is public", () => {
    const file = all.find(({ path }) => path === "src/index.ts") as SourceFile;
    const other = file.tree.statements.filter((node) => !ts.isExportDeclaration(node));
    expect(other.map((node) => position(file, node))).toEqual([]);
  });

  test("what is public changes only together with test/repository/public-api.txt", async () => {
    const text = [...ownNames]
      .map(([name, path]) => [`${name}:`, ...exportedNames(path).map((exported) => `  ${exported}`)].join("\n"))
      .join("\n\n");
    await expect(`${text}\n`).toMatchFileSnapshot("repository/public-api.txt");
  });
});

describe("size and form", () => {
  test(`library files have at most ${LIBRARY_LINES_MAX} lines, tests ${TEST_LINES_MAX}, or a reason to be longer`, () => {
    const max = ({ path }: SourceFile) => (path.startsWith("test/") ? TEST_LINES_MAX : LIBRARY_LINES_MAX);
    const long = all.filter((file) => lineCount(file) > max(file)).map(({ path }) => path);
    expect(long.sort()).toEqual(Object.keys(LONG_FILES).sort());
  });

  test(`functions of the library have at most ${FUNCTION_LINES_MAX} lines`, () => {
    const long = shipped.flatMap((file) =>
      [...nodesOf(file.tree)]
        .filter((node) => ts.isFunctionLike(node) && linesOf(file, node) > FUNCTION_LINES_MAX)
        .map((node) => `${position(file, node)} has ${linesOf(file, node)} lines`),
    );
    expect(long).toEqual([]);
  });

  test("nothing has the type any", () => {
    const found = all.flatMap((file) =>
      [...nodesOf(file.tree)]
        .filter((node) => node.kind === ts.SyntaxKind.AnyKeyword)
        .map((node) => position(file, node)),
    );
    expect(found).toEqual([]);
  });

  test("no file leaves work for later, or silences the compiler", () => {
    const marks = /\b(?:TODO|FIXME|XXX|HACK)\b|@ts-(?:ignore|nocheck)/;
    const inLibrary = /@ts-expect-error/;
    const found = all
      .filter(({ path }) => path !== "test/architecture.test.ts")
      .flatMap(({ path, text }) =>
        text
          .split("\n")
          .flatMap((line, i) =>
            marks.test(line) || (!path.startsWith("test/") && inLibrary.test(line))
              ? [`${path}:${i + 1}: ${line.trim()}`]
              : [],
          ),
      );
    expect(found).toEqual([]);
  });

  test("file names are kebab-case, and say what is inside", () => {
    const wrong = all.filter(
      ({ path }) =>
        !/^[a-z0-9]+(-[a-z0-9]+)*(\.[a-z]+)*\.ts$/.test(basename(path)) ||
        /^(utils?|helpers?|common|types|lib|misc)\.ts$/.test(basename(path)),
    );
    expect(wrong.map(({ path }) => path)).toEqual([]);
  });
});

describe("tests", () => {
  const tests = all.filter(({ path }) => path.startsWith("test/"));

  test("no test is left out, singled out or tried again", () => {
    const found = tests.flatMap((file) =>
      [...nodesOf(file.tree)]
        .filter(
          (node) =>
            (ts.isPropertyAccessExpression(node) &&
              /^(?:test|describe|it)\b/.test(node.expression.getText(file.tree)) &&
              /^(?:only|todo|skip|fails)$/.test(node.name.text)) ||
            (ts.isPropertyAssignment(node) && /^(?:retry|repeats)$/.test(node.name.getText(file.tree))),
        )
        .map((node) => position(file, node)),
    );
    expect(found).toEqual([]);
  });

  test("tests are called test, and their names are sentences", () => {
    const wrong = tests.flatMap((file) =>
      [...nodesOf(file.tree)]
        .filter(ts.isCallExpression)
        .filter((call) => ts.isIdentifier(call.expression) && /^(?:it|test)$/.test(call.expression.text))
        .filter((call) => (call.expression as ts.Identifier).text === "it" || !isSentence(call.arguments[0]))
        .map((call) => position(file, call)),
    );
    expect(wrong).toEqual([]);
  });
});

function isText(node: ts.Node): node is ts.LiteralLikeNode {
  return (
    ts.isStringLiteralLike(node) ||
    ts.isTemplateHead(node) ||
    ts.isTemplateMiddle(node) ||
    ts.isTemplateTail(node) ||
    ts.isRegularExpressionLiteral(node)
  );
}

/** Two words or more, or a name made at run time. */
function isSentence(name: ts.Expression | undefined): boolean {
  return name !== undefined && (!ts.isStringLiteral(name) || name.text.trim().includes(" "));
}

function linesOf(file: SourceFile, node: ts.Node): number {
  const line = (at: number) => file.tree.getLineAndCharacterOfPosition(at).line;
  return line(node.getEnd()) - line(node.getStart(file.tree)) + 1;
}

function exportedNames(path: string): string[] {
  const file = all.find((candidate) => candidate.path === path) as SourceFile;
  const names = file.tree.statements.flatMap((node) => {
    if (ts.isExportDeclaration(node) && node.exportClause !== undefined && ts.isNamedExports(node.exportClause)) {
      return node.exportClause.elements.map(({ name, isTypeOnly }) =>
        node.isTypeOnly || isTypeOnly ? `type ${name.text}` : name.text,
      );
    }
    const exported =
      ts.canHaveModifiers(node) && ts.getModifiers(node)?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword);
    if (exported !== true) return [];
    if (ts.isVariableStatement(node))
      return node.declarationList.declarations.map(({ name }) => name.getText(file.tree));
    const type = ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node);
    const { name } = node as
      | ts.FunctionDeclaration
      | ts.ClassDeclaration
      | ts.InterfaceDeclaration
      | ts.TypeAliasDeclaration;
    return [type ? `type ${name?.text}` : String(name?.text)];
  });
  return [...new Set(names)].sort();
}

/** Every cycle of static imports, as a path; each once. */
function cycles(files: readonly Pick<SourceFile, "path" | "imports">[]): string[] {
  const next = new Map(
    files.map(({ path, imports }) => [
      path,
      imports.filter(({ kind }) => kind === "static").flatMap(({ target }) => target ?? []),
    ]),
  );
  const found: string[] = [];
  const done = new Set<string>();
  const visit = (path: string, trail: readonly string[]): void => {
    const at = trail.indexOf(path);
    if (at >= 0) found.push([...trail.slice(at), path].join(" → "));
    if (at >= 0 || done.has(path)) return;
    for (const target of next.get(path) ?? []) visit(target, [...trail, path]);
    done.add(path);
  };
  for (const path of next.keys()) visit(path, []);
  return found;
}
