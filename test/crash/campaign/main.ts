/**
 * `npm run crash -- [--minutes N] [--seed N] [--backend NAME] [--rounds N] [--disturbances N] [--out FILE]`: rounds on all backends
 * at once until the time is over. Without a time, one round on each. Exit code 1 where anything was not as it must be.
 */

import { parseArgs } from "node:util";
import { runCampaign } from "./campaign.ts";
import { type CampaignBackend, campaignBackends } from "./plan.ts";

/** Where the counts of a run by time are kept: those that documents cite. */
const OUT = "docs/crash.json";

const { values } = parseArgs({
  options: {
    minutes: { type: "string" },
    seed: { type: "string" },
    backend: { type: "string", multiple: true },
    rounds: { type: "string" },
    disturbances: { type: "string" },
    out: { type: "string" },
  },
});

function refuse(text: string): never {
  console.error(text);
  process.exit(2);
}

function wholeOf(name: "minutes" | "seed" | "rounds" | "disturbances"): number | undefined {
  const text = values[name];
  if (text === undefined) return undefined;
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  return refuse(`--${name} is ${JSON.stringify(text)}; use a positive whole number`);
}

function backendsOf(names: readonly string[] = campaignBackends): readonly CampaignBackend[] {
  return names.map((name) => {
    const known = campaignBackends.find((backend) => backend === name);
    return known ?? refuse(`--backend is ${JSON.stringify(name)}; use ${campaignBackends.join(", ")}`);
  });
}

const [minutes, seed, rounds, disturbances] = [
  wholeOf("minutes"),
  wholeOf("seed"),
  wholeOf("rounds"),
  wholeOf("disturbances"),
];
const ok = await runCampaign({
  minutes,
  seed,
  rounds: rounds ?? (minutes === undefined ? 1 : undefined),
  backends: backendsOf(values.backend),
  disturbances,
  out: values.out ?? (minutes === undefined ? undefined : OUT),
});
process.exit(ok ? 0 : 1);
