/** The command line of `npm run crash`, see docs/testing.md. */

import { parseArgs } from "node:util";
import type { CampaignOptions } from "./campaign.ts";
import { type CampaignBackend, campaignBackends } from "./plan.ts";

export const commandLine = {
  minutes: { type: "string" },
  seed: { type: "string" },
  backend: { type: "string", multiple: true },
  rounds: { type: "string" },
  disturbances: { type: "string" },
  out: { type: "string" },
} as const;

/** Where the counts of a run by time are kept: those that documents cite. */
const OUT = "docs/crash.json";

/** @throws where an option is none, or has a value that it does not take */
export function readOptions(args: readonly string[]): CampaignOptions {
  const { values } = parseArgs({ args: [...args], options: commandLine });
  const minutes = wholeOf("--minutes", values.minutes);
  return {
    minutes,
    seed: wholeOf("--seed", values.seed),
    rounds: wholeOf("--rounds", values.rounds) ?? (minutes === undefined ? 1 : undefined),
    backends: values.backend?.map(backendOf) ?? campaignBackends,
    disturbances: wholeOf("--disturbances", values.disturbances),
    out: values.out ?? (minutes === undefined ? undefined : OUT),
  };
}

function wholeOf(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw new Error(`${name} is ${JSON.stringify(text)}; use a positive whole number`);
}

function backendOf(name: string): CampaignBackend {
  const known = campaignBackends.find((backend) => backend === name);
  if (known !== undefined) return known;
  throw new Error(`--backend is ${JSON.stringify(name)}; use ${campaignBackends.join(", ")}`);
}
