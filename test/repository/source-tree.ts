/** The repository's TypeScript files as syntax trees, with what they import. Nothing is executed. */

import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, posix, relative } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";

export const root = fileURLToPath(new URL("../..", import.meta.url));

/** From left to right: each may import only what stands to its left, or itself. */
export const layers = ["src", "checkpointers", "graphs", "examples"] as const;

export type Layer = (typeof layers)[number];

export interface Import {
  readonly specifier: string;
  /** "type" leaves no trace in the JavaScript; "lazy" is `import()`. */
  readonly kind: "static" | "lazy" | "type";
  /** Repository path, where the specifier is relative or one of this package's own names. */
  readonly target: string | undefined;
}

export interface SourceFile {
  /** Repository path with forward slashes. */
  readonly path: string;
  readonly text: string;
  readonly tree: ts.SourceFile;
  readonly imports: readonly Import[];
}

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly scripts: Readonly<Record<string, string>>;
  readonly files: readonly string[];
  readonly bin: Readonly<Record<string, string>>;
  readonly exports: Readonly<Record<string, string | Readonly<Record<string, string>>>>;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly peerDependencies: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta: Readonly<Record<string, { readonly optional?: boolean }>>;
  readonly devDependencies: Readonly<Record<string, string>>;
  readonly engines: Readonly<Record<string, string>>;
}

export const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as Manifest;

/** `holdfast/testing` → `src/testing/index.ts`, for every exported TypeScript file. */
export const ownNames: ReadonlyMap<string, string> = new Map(
  Object.entries(manifest.exports).flatMap(([subpath, target]) =>
    typeof target === "string"
      ? []
      : [[posix.join(manifest.name, subpath), posix.normalize(target["holdfast-source"] ?? "")] as const],
  ),
);

/** All TypeScript files under these folders of the repository, in the order of their paths. */
export function sourceFiles(...folders: readonly string[]): SourceFile[] {
  return folders.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && entry.name.endsWith(".ts"))
      .map((entry) => relative(root, join(entry.parentPath, entry.name)).replaceAll("\\", "/"))
      .sort()
      .map(parse),
  );
}

export function lineCount(file: SourceFile): number {
  return file.text.trimEnd().split("\n").length;
}

/** `path:line`, for messages. */
export function position(file: SourceFile, node: ts.Node): string {
  return `${file.path}:${file.tree.getLineAndCharacterOfPosition(node.getStart(file.tree)).line + 1}`;
}

/** All nodes of a file, outer ones first. */
export function* nodesOf(node: ts.Node): Generator<ts.Node> {
  yield node;
  const children: ts.Node[] = [];
  ts.forEachChild(node, (child) => {
    children.push(child);
  });
  for (const child of children) yield* nodesOf(child);
}

function parse(path: string): SourceFile {
  const text = readFileSync(join(root, path), "utf8");
  const tree = ts.createSourceFile(path, text, ts.ScriptTarget.ES2023, true);
  const imports = [...nodesOf(tree)].flatMap((node) => importOf(path, node));
  return { path, text, tree, imports };
}

function importOf(path: string, node: ts.Node): Import[] {
  if (ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) {
    if (node.moduleSpecifier === undefined || !ts.isStringLiteral(node.moduleSpecifier)) return [];
    // `import { type A }` is kept as a side-effect import under verbatimModuleSyntax; only `import type` vanishes.
    const erased = ts.isImportDeclaration(node)
      ? node.importClause?.phaseModifier === ts.SyntaxKind.TypeKeyword
      : node.isTypeOnly;
    return [entry(path, node.moduleSpecifier.text, erased ? "type" : "static")];
  }
  if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument) && ts.isStringLiteral(node.argument.literal)) {
    return [entry(path, node.argument.literal.text, "type")];
  }
  if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
    const [specifier] = node.arguments;
    return specifier !== undefined && ts.isStringLiteral(specifier) ? [entry(path, specifier.text, "lazy")] : [];
  }
  return [];
}

function entry(path: string, specifier: string, kind: Import["kind"]): Import {
  const target = specifier.startsWith(".") ? posix.join(dirname(path), specifier) : ownNames.get(specifier);
  return { specifier, kind, target };
}
