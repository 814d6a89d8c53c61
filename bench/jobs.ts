/** Every kind of measurement a child process can make. */

import { type CountsJob, measureCounts } from "./measure/counts.ts";
import { type EffectJob, measureEffect, measureResume, type ResumeJob } from "./measure/effects.ts";
import { type GrowthJob, measureGrowth } from "./measure/growth.ts";
import { measureRead, type ReadJob, type SeedJob, seed } from "./measure/read.ts";
import { measureRest, type RestJob } from "./measure/rest.ts";
import { measureRuns, type RunsJob } from "./measure/runs.ts";
import { measureSerialization, type SerializationJob } from "./measure/serialization.ts";
import { type FanOutJob, measureFanOut } from "./measure/fan-out.ts";
import { measureSteps, type StepsJob } from "./measure/steps.ts";
import { measureSuperstep, type SuperstepJob } from "./measure/superstep.ts";
import { measureThreads, type ThreadsJob } from "./measure/threads.ts";
import { measureWaits, type WaitsJob } from "./measure/waits.ts";

export type Job =
  | SuperstepJob
  | CountsJob
  | GrowthJob
  | SeedJob
  | ReadJob
  | EffectJob
  | ResumeJob
  | SerializationJob
  | WaitsJob
  | ThreadsJob
  | StepsJob
  | RunsJob
  | FanOutJob
  | RestJob;

/** Named numbers; their meaning stands at the measuring function. */
export function runJob(job: Job, dir: string): Promise<Record<string, number>> {
  switch (job.kind) {
    case "superstep":
      return measureSuperstep(job, dir);
    case "counts":
      return measureCounts(job, dir);
    case "growth":
      return measureGrowth(job, dir);
    case "seed":
      return seed(job, dir);
    case "read":
      return measureRead(job, dir);
    case "effect":
      return measureEffect(job, dir);
    case "resume":
      return measureResume(job, dir);
    case "serialization":
      return measureSerialization(job);
    case "waits":
      return measureWaits(job, dir);
    case "threads":
      return measureThreads(job, dir);
    case "steps":
      return measureSteps(job, dir);
    case "runs":
      return measureRuns(job, dir);
    case "fan-out":
      return measureFanOut(job, dir);
    case "rest":
      return measureRest(job, dir);
    default: {
      const never: never = job;
      return never;
    }
  }
}
