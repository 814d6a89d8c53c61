/**
 * Reads a directory of text files, summarises one file a superstep, and writes a report.
 *
 * What makes it survive a kill at any moment:
 * - the plan (which files, in which order) is made once and stored; files that appear later do not shift the steps;
 * - a step's summary and its status are one entry of the state, so they are stored together in one checkpoint;
 * - a summary is an effect: once it is recorded, the model is not asked again, also where the superstep was not stored;
 * - the report appears whole or not at all (`writeFileAtomic`).
 *
 * Started with `run()` on a thread that has finished, it does nothing and says "already_done".
 *
 * LangGraph stops a run after 25 supersteps by default: pass `recursionLimit` (files + 3 are needed).
 */

import { readdir, readFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { effect } from "holdfast";
import { z } from "zod";
import { type WrittenFile, writeFileAtomic } from "./atomic-file.ts";

/** One file of the plan that has been dealt with. */
export interface InboxStep {
  readonly file: string;
  /** `unreadable`: gone, or not ours to read, since the plan was made; the summary then says why. */
  readonly status: "summarised" | "unreadable";
  readonly summary: string;
}

/** Input: `inbox` and `report`. The rest is the graph's. */
export const InboxState = Annotation.Root({
  /** Directory to read; subdirectories and other files than .txt and .md are left out. */
  inbox: Annotation<string>(),
  /** File to write. */
  report: Annotation<string>(),
  /** The plan: file names in code point order. Written once. */
  files: Annotation<readonly string[]>(),
  /** Grows by one a superstep, in the order of the plan. */
  steps: Annotation<readonly InboxStep[], InboxStep>({ reducer: (done, step) => [...done, step], default: () => [] }),
  written: Annotation<WrittenFile>(),
});

/** Turns a text into its summary. May be a model: `idempotencyKey` is the same for every attempt at one file. */
export type Summarise = (
  source: { readonly file: string; readonly text: string },
  call: { readonly idempotencyKey: string; readonly signal: AbortSignal },
) => string | Promise<string>;

/** The first sentence, of at most 120 characters: a summary that needs no model and is always the same. */
export const firstSentence: Summarise = ({ text }) => {
  const line = text.trim().split(/(?<=[.!?])\s|\n/, 1)[0] ?? "";
  return line.length > 120 ? `${line.slice(0, 119)}…` : line;
};

export interface InboxReportOptions {
  /** Default {@link firstSentence}. */
  readonly summarise?: Summarise;
}

/** The actions of the graph as plain data: what {@link inboxReport} makes effects of. */
export function inboxActions({ summarise = firstSentence }: InboxReportOptions = {}) {
  return {
    summariseFile: {
      // The path is the input, not the text: a file that is edited between two attempts does not make another call of it.
      input: z.object({ inbox: z.string(), file: z.string() }),
      output: z.object({ status: z.enum(["summarised", "unreadable"]), summary: z.string() }),
      // To ask again costs a little money and harms nobody; a provider that honours the key does not even charge twice.
      onUnknown: "rerun" as const,
      run: async (input: { inbox: string; file: string }, call: Parameters<Summarise>[1]) => {
        const text = await readText(join(input.inbox, input.file));
        if (text === undefined) return { status: "unreadable" as const, summary: "The file cannot be read any more." };
        return { status: "summarised" as const, summary: await summarise({ file: input.file, text }, call) };
      },
    },
    writeReport: {
      input: z.object({ path: z.string(), content: z.string() }),
      output: z.object({ path: z.string(), bytes: z.number(), sha256: z.string() }),
      // The same content in the same place, whole: to do it twice is to do it once.
      onUnknown: "rerun" as const,
      run: (input: { path: string; content: string }) => writeFileAtomic(input.path, input.content),
    },
  };
}

/** What the nodes call. */
export interface InboxCalls {
  summariseFile(input: { inbox: string; file: string }): Promise<Omit<InboxStep, "file">>;
  writeReport(input: { path: string; content: string }): Promise<WrittenFile>;
}

/** The graph around any implementation of its calls. Most want {@link inboxReport}. */
export function inboxGraph(calls: InboxCalls) {
  return new StateGraph(InboxState)
    .addNode("plan", async ({ inbox, report }) => ({ files: await textFiles(inbox, report) }))
    .addNode("summarise-next", async ({ inbox, files, steps }) => {
      const file = files[steps.length];
      if (file === undefined) throw new Error(`The plan has ${files.length} files and all of them are done.`);
      return { steps: { file, ...(await calls.summariseFile({ inbox, file })) } };
    })
    .addNode("write-report", async ({ report, steps }) => ({
      written: await calls.writeReport({ path: report, content: reportText(steps) }),
    }))
    .addEdge(START, "plan")
    .addConditionalEdges("plan", whatNext, ["summarise-next", "write-report"])
    .addConditionalEdges("summarise-next", whatNext, ["summarise-next", "write-report"])
    .addEdge("write-report", END);
}

/**
 * The graph, to be compiled with a checkpointer:
 * `inboxReport().compile({ checkpointer: await sqlite("holdfast.db") })`.
 */
export function inboxReport(options: InboxReportOptions = {}) {
  const actions = inboxActions(options);
  return inboxGraph({
    summariseFile: effect("summarise-file", actions.summariseFile),
    writeReport: effect("write-report", actions.writeReport),
  });
}

function whatNext({ files, steps }: typeof InboxState.State): "summarise-next" | "write-report" {
  return steps.length < files.length ? "summarise-next" : "write-report";
}

/** Names of the text files of a directory, in code point order, without the report itself. */
async function textFiles(inbox: string, report: string): Promise<string[]> {
  const entries = await readdir(inbox, { withFileTypes: true });
  const own = resolve(dirname(report)) === resolve(inbox) ? basename(report) : undefined;
  return entries
    .filter((entry) => entry.isFile() && /\.(txt|md)$/i.test(entry.name) && entry.name !== own)
    .map((entry) => entry.name)
    .sort();
}

/** The file's text, or undefined where there is none to be had; other errors are thrown. */
async function readText(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === "ENOENT" || code === "EACCES" || code === "EPERM" || code === "EISDIR") return undefined;
    throw error;
  }
}

function reportText(steps: readonly InboxStep[]): string {
  const sections = steps.map((step) => `## ${step.file}\n\n${step.summary}\n`);
  return [`# Inbox report\n\n${steps.length} ${steps.length === 1 ? "file" : "files"}\n`, ...sections].join("\n");
}
