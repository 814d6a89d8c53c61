/** `holdfast doctor`: what of a store should not be, and what mends it. Changes nothing. */

import { diagnose, type Finding } from "../runs/doctor.ts";
import { openStore, type StoreFlags } from "./backends.ts";
import { loadGraphs } from "./graphs-module.ts";
import type { ExitCode, Printer } from "./output.ts";

export interface DoctorFlags extends StoreFlags {
  readonly graphs?: string;
}

export async function doctorCommand(flags: DoctorFlags, printer: Printer): Promise<ExitCode> {
  const checkpointer = await openStore(flags, { look: true });
  try {
    const graphs = flags.graphs === undefined ? undefined : Object.keys(await loadGraphs(flags.graphs, checkpointer));
    let findings = 0;
    for await (const finding of diagnose(checkpointer, { graphs })) {
      findings += 1;
      printer.line(() => findingText(finding, printer), finding);
    }
    if (!printer.json) printer.result(() => verdict(findings, printer), findings);
    return findings === 0 ? 0 : 1;
  } finally {
    await checkpointer.close();
  }
}

function findingText({ code, text, mend }: Finding, printer: Printer): string {
  return `${printer.color("red", code)}: ${text}\n  ${mend}\n`;
}

function verdict(findings: number, printer: Printer): string {
  return findings === 0
    ? printer.color("green", "Nothing found.")
    : printer.color("red", `${findings} ${findings === 1 ? "finding" : "findings"}.`);
}
