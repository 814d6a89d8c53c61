/** `serde`: values to text and back, without a database. */

import { type Line, lineOf } from "./line.ts";
import type { SerializationJob, Shape } from "./measure/serialization.ts";
import { type Bench, type Round, runRounds } from "./rounds.ts";

const shapes: readonly Shape[] = ["10KB", "100KB", "1MB", "messages"];

export async function serialization(bench: Bench): Promise<Line[]> {
  const job = (shape: Shape): SerializationJob => ({ kind: "serialization", shape, budgetMs: bench.quick ? 60 : 120 });
  const rounds = await runRounds(bench, "serde", {
    "10KB": job("10KB"),
    "100KB": job("100KB"),
    "1MB": job("1MB"),
    messages: job("messages"),
  });
  const subjects = ["dumps", "loads", "plusDumps", "plusLoads", "stringify", "parse", "clone"];
  return shapes.flatMap((shape) => {
    const of = (each: Round<Shape>, value: string) => each[shape].values[value] as number;
    const line = (name: string, ours: string, other: string) =>
      lineOf(rounds, {
        bench: "serde",
        name: `${shape === "messages" ? "2000 messages" : shape}, ${name}`,
        unit: "ms",
        compares:
          "holdfast's encoding (with the hashes of large strings) against LangGraph's JsonPlusSerializer, JSON and structuredClone",
        figures: (each) => Object.fromEntries(subjects.map((subject) => [subject, of(each, subject)])),
        result: (each) => of(each, ours) / of(each, other),
      });
    return [line("dumps ÷ JsonPlus", "dumps", "plusDumps"), line("loads ÷ JsonPlus", "loads", "plusLoads")];
  });
}
