import { expect, test } from "vitest";
import { warnUntestedLangGraph } from "../src/langgraph-version.ts";
import { manifest } from "./repository/source-tree.ts";

test("the tests run with a tested version", () => {
  const warnings: string[] = [];
  warnUntestedLangGraph(manifest.devDependencies["@langchain/langgraph"], (message) => warnings.push(message));
  expect(warnings).toEqual([]);
});

test("a LangGraph version that was not tested is warned about once, by its number; a tested one is not", () => {
  const warnings: string[] = [];
  const warn = (message: string) => warnings.push(message);
  warnUntestedLangGraph("1.7.99", warn);
  warnUntestedLangGraph(undefined, warn);
  expect(warnings).toEqual([]);
  for (const version of ["1.70.0", "2.0.0"]) warnUntestedLangGraph(version, warn);
  expect(warnings).toHaveLength(1);
  expect(warnings[0]).toContain("1.70.0");
});
