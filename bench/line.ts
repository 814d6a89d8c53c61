/** One result: what was compared, what came out, the bar it is held to. Printed as one line of JSON. */

import type { Measurement, Round } from "./rounds.ts";
import { median, round, roundedSpread, type Spread, spread } from "./statistics.ts";

export interface Line {
  readonly bench: string;
  readonly name: string;
  readonly compares: string;
  readonly unit: string;
  /** Median over the rounds, by variant. */
  readonly medians: Readonly<Record<string, number>>;
  /** What the bar is about: a ratio taken inside each round, or a figure; its median and spread over the rounds. */
  readonly result: Spread;
  readonly rounds: number;
  /** The most `result.median` may be; null where there is none. */
  readonly bar: number | null;
  readonly aim?: number;
  /** Null where there is no bar, or where the run is shorter than the bar asks. */
  readonly met: boolean | null;
  readonly note?: string;
  /** The fixed CPU loop around each measurement: its time varies with what else the machine does. */
  readonly noise: {
    readonly measurements: number;
    readonly loopMsMin: number;
    readonly loopMsMedian: number;
    readonly loopMsMax: number;
  };
}

export interface LineSpec<V extends string> {
  readonly bench: string;
  readonly name: string;
  readonly compares: string;
  readonly unit: string;
  /** The figures of a round that are shown as medians. */
  readonly figures: (round: Round<V>) => Readonly<Record<string, number>>;
  readonly result: (round: Round<V>) => number;
  readonly bar?: number;
  readonly aim?: number;
  /** False where the run is too short for the bar. */
  readonly judged?: boolean;
  readonly note?: string;
}

export function lineOf<V extends string>(rounds: readonly Round<V>[], spec: LineSpec<V>): Line {
  const figures = rounds.map(spec.figures);
  const medians: Record<string, number> = {};
  for (const key of Object.keys(figures[0] ?? {}))
    medians[key] = round(median(figures.map((figure) => figure[key] as number)));
  const result = spread(rounds.map(spec.result));
  const loops = rounds.flatMap((each) => (Object.values(each) as Measurement[]).flatMap(({ loopMs }) => loopMs));
  const judged = spec.bar !== undefined && spec.judged !== false;
  return {
    bench: spec.bench,
    name: spec.name,
    compares: spec.compares,
    unit: spec.unit,
    medians,
    result: roundedSpread(result),
    rounds: rounds.length,
    bar: spec.bar ?? null,
    ...(spec.aim === undefined ? {} : { aim: spec.aim }),
    met: judged ? result.median <= (spec.bar as number) : null,
    ...(spec.note === undefined ? {} : { note: spec.note }),
    noise: {
      measurements: loops.length / 2,
      loopMsMin: round(Math.min(...loops)),
      loopMsMedian: round(median(loops)),
      loopMsMax: round(Math.max(...loops)),
    },
  };
}

/** The same figure of two variants, and its ratio. */
export function ratioOf<V extends string>(value: string, of: V, over: V): Pick<LineSpec<V>, "figures" | "result"> {
  const read = (each: Round<V>, variant: V) => each[variant].values[value] as number;
  return {
    figures: (each) => ({ [of]: read(each, of), [over]: read(each, over) }),
    result: (each) => read(each, of) / read(each, over),
  };
}

/** A figure of one variant, beside the same of others. */
export function figureOf<V extends string>(
  value: string,
  of: V,
  beside: readonly V[] = [],
): Pick<LineSpec<V>, "figures" | "result"> {
  const read = (each: Round<V>, variant: V) => each[variant].values[value] as number;
  return {
    figures: (each) => Object.fromEntries([of, ...beside].map((variant) => [variant, read(each, variant)])),
    result: (each) => read(each, of),
  };
}

/** For people: name, result, bar. */
export function describeLine({ bench, name, result, bar, met, rounds }: Line): string {
  const verdict = met === null ? "" : met ? "  met" : "  NOT MET";
  const spreadText = rounds > 1 ? ` (${result.min} to ${result.max} in ${rounds} rounds)` : " (1 round)";
  return `${bench.padEnd(13)} ${name.padEnd(58)} ${String(result.median).padStart(8)}${spreadText}${bar === null ? "" : `  bar ${bar}`}${verdict}`;
}
