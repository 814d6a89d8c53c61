/** `growth`: a conversation of 2000 steps; every step appends two messages of 500 bytes that do not compress. */

import { type Channel, TEXT_BYTES } from "./graphs.ts";
import { type Line, type LineSpec, lineOf, ratioOf } from "./line.ts";
import { type GrowthJob, WINDOW } from "./measure/growth.ts";
import { type Bench, type Round, runRounds } from "./rounds.ts";
import type { SaverName } from "./savers.ts";

const STEPS = 2000;
const STEPS_QUICK = 600;
const MESSAGES_PER_STEP = 2;

const titles: Record<Channel, string> = { list: "plain list", messages: "MessagesAnnotation", delta: "DeltaChannel" };

export function listGrowth(bench: Bench): Promise<Line[]> {
  return onSqlite(bench, "list");
}

export function messagesGrowth(bench: Bench): Promise<Line[]> {
  return onSqlite(bench, "messages");
}

/** `delta`: the same with LangGraph's DeltaChannel, which keeps no list in its checkpoints: measured apart, no bars. */
export function deltaGrowth(bench: Bench): Promise<Line[]> {
  return onSqlite(bench, "delta");
}

export function jsonlGrowth(bench: Bench): Promise<Line[]> {
  return onOther(bench, "holdfast-jsonl", "JSONL");
}

export function memoryGrowth(bench: Bench): Promise<Line[]> {
  return onOther(bench, "holdfast-memory", "memory");
}

export async function postgresGrowth(bench: Bench): Promise<Line[]> {
  await bench.servers.postgres();
  return onOther(bench, "holdfast-postgres", "Postgres");
}

export async function redisGrowth(bench: Bench): Promise<Line[]> {
  return (await bench.servers.redis()) ? onOther(bench, "holdfast-redis", "Redis") : [];
}

function job(saver: SaverName, channel: Channel, steps: number): GrowthJob {
  return { kind: "growth", saver, channel, durability: "sync", steps, warmups: 1, repeats: 1 };
}

async function onSqlite(bench: Bench, channel: Channel): Promise<Line[]> {
  const steps = bench.quick ? STEPS_QUICK : STEPS;
  const rounds = await runRounds(bench, `growth, ${titles[channel]}`, {
    engine: job("engine", channel, steps),
    "holdfast-full": job("holdfast-full", channel, steps),
  });
  type Variant = "engine" | "holdfast-full";
  const barred = channel !== "delta";
  const spec = (name: string, unit: string, compares: string, bar: number) => ({
    bench: barred ? "growth" : "delta",
    name: `${titles[channel]}, ${name}`,
    unit,
    compares: `${steps} steps of two ${TEXT_BYTES}-byte messages, ${titles[channel]}, holdfast on SQLite (FULL), sync: ${compares}`,
    ...(barred ? { bar, judged: steps === STEPS } : {}),
  });
  const ours = (each: Round<Variant>, value: string) => each["holdfast-full"].values[value] as number;
  const text = steps * MESSAGES_PER_STEP * TEXT_BYTES;
  const specs: LineSpec<Variant>[] = [
    {
      ...spec("stored ÷ text", "bytes", "main file after wal_checkpoint(TRUNCATE), against the bytes of the texts", 3),
      figures: (each) => ({ stored: ours(each, "stored"), text }),
      result: (each) => ours(each, "stored") / text,
    },
    {
      ...spec(
        `bytes, last step ÷ step ${WINDOW}`,
        "encoded bytes a step",
        `mean of the last ${WINDOW} steps against ${WINDOW} around step ${WINDOW}`,
        1.2,
      ),
      figures: (each) => ({ first: ours(each, "bytesFirst"), last: ours(each, "bytesLast") }),
      result: (each) => ours(each, "bytesLast") / ours(each, "bytesFirst"),
    },
    {
      ...spec(ADDED.name, ADDED.unit, ADDED.compares, ADDED.bar),
      ...added<Variant>("holdfast-full", "engine"),
    },
    {
      ...spec("whole loop ÷ engine", "ms", "against the same graph without a checkpointer", 1.75),
      ...ratioOf<Variant>("ms", "holdfast-full", "engine"),
    },
  ];
  return specs.map((each) => lineOf(rounds, each));
}

const ADDED = {
  name: `time added a step, last ${WINDOW} ÷ first ${WINDOW}`,
  unit: "ms a step more than the engine",
  compares: "(holdfast − the same graph without a checkpointer), medians of the steps, after a run of the same length",
  bar: 1.5,
};

function added<V extends string>(ours: V, engine: V): Pick<LineSpec<V>, "figures" | "result"> {
  const more = (each: Round<V>, value: string) =>
    (each[ours].values[value] as number) - (each[engine].values[value] as number);
  return {
    figures: (each) => ({
      first: more(each, "firstMedian"),
      last: more(each, "lastMedian"),
      firstMean: more(each, "first"),
      lastMean: more(each, "last"),
    }),
    result: (each) => more(each, "lastMedian") / more(each, "firstMedian"),
  };
}

/** The two bars that every backend is held to. */
async function onOther(bench: Bench, saver: SaverName, title: string): Promise<Line[]> {
  const steps = bench.quick ? STEPS_QUICK : STEPS;
  const rounds = await runRounds(bench, `growth, ${title}`, {
    engine: job("engine", "messages", steps),
    holdfast: job(saver, "messages", steps),
  });
  type Variant = "engine" | "holdfast";
  const about = {
    bench: "growth",
    compares: `${steps} steps of two ${TEXT_BYTES}-byte messages, MessagesAnnotation, holdfast on ${title}, sync: `,
    judged: steps === STEPS,
  };
  const lines = [
    lineOf<Variant>(rounds, {
      ...about,
      name: `${title}, ${ADDED.name}`,
      unit: ADDED.unit,
      compares: about.compares + ADDED.compares,
      ...added<Variant>("holdfast", "engine"),
      bar: ADDED.bar,
    }),
  ];
  if (saver === "holdfast-memory") return lines;
  const text = steps * MESSAGES_PER_STEP * TEXT_BYTES;
  const stored = (each: Round<Variant>) => each.holdfast.values["stored"] as number;
  const line = lineOf<Variant>(rounds, {
    ...about,
    name: `${title}, stored ÷ text`,
    unit: "bytes",
    compares: `${about.compares}all that is kept of it, indexes included, against the bytes of the texts`,
    figures: (each) => ({ stored: stored(each), text }),
    result: (each) => stored(each) / text,
    bar: 3.5,
  });
  return [...lines, line];
}

/** The published saver stores the whole conversation at every step, so it is measured once and on fewer steps. */
export async function officialGrowth(bench: Bench): Promise<Line[]> {
  const steps = bench.quick ? Math.min(bench.officialSteps, 300) : bench.officialSteps;
  const rounds = await runRounds(
    bench,
    "growth, official",
    {
      engine: job("engine", "messages", steps),
      "holdfast-full": job("holdfast-full", "messages", steps),
      "official-normal": { ...job("official-normal", "messages", steps), warmups: 0 },
    },
    { rounds: 1 },
  );
  const about = {
    bench: "growth",
    compares: `${steps} steps of two ${TEXT_BYTES}-byte messages, MessagesAnnotation, sync; the published SqliteSaver as it ships (NORMAL), holdfast FULL`,
    note: `One round of ${steps} steps, the published saver without a warm-up run; nothing is extrapolated (--official-steps).`,
  };
  return [
    lineOf(rounds, {
      ...about,
      name: `official ÷ engine, ${steps} steps`,
      unit: "ms",
      ...ratioOf("ms", "official-normal", "engine"),
    }),
    lineOf(rounds, {
      ...about,
      name: `holdfast ÷ engine, ${steps} steps`,
      unit: "ms",
      ...ratioOf("ms", "holdfast-full", "engine"),
    }),
    lineOf(rounds, {
      ...about,
      name: `stored, holdfast ÷ official, ${steps} steps`,
      unit: "bytes",
      ...ratioOf("stored", "holdfast-full", "official-normal"),
    }),
  ];
}
