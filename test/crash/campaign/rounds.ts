/** Rounds on several backends, several at a time. */

import { addCounts, type BackendCounts, type CampaignCounts, noBackendCounts } from "./counts.ts";
import type { CampaignBackend } from "./plan.ts";
import { playRound, type RoundResult } from "./round.ts";

/** The backends to play on, each with its server's URL; SQLite needs none. */
export type ServerUrls = Readonly<Partial<Record<CampaignBackend, string>>>;

export interface RoundsOptions {
  readonly urls: ServerUrls;
  readonly counterUrl: string;
  /** Of the first round on each backend; the next ones count on. */
  readonly seed: number;
  /** On each backend; undefined: until the signal. */
  readonly rounds: number | undefined;
  /** Deaths and freezes of each round. */
  readonly disturbances: number;
  /** No further round begins, and those that are under way become quiet. */
  readonly signal?: AbortSignal;
  /** `counts` are filled while the round goes on. */
  readonly onBegin?: (seed: number, backend: CampaignBackend, counts: BackendCounts) => void;
  readonly onEnd: (result: RoundResult) => void;
}

/** Rounds at a time on each backend: most of a round is waiting, for leases and for workers that stand still. */
const LANES = 2;

export async function playRounds(options: RoundsOptions): Promise<void> {
  const { urls, counterUrl, seed: first, rounds, disturbances, signal, onBegin, onEnd } = options;
  const begun = new Map<string, number>();
  const lane = async (backend: CampaignBackend, url: string) => {
    for (;;) {
      const round = begun.get(backend) ?? 0;
      if (signal?.aborted === true || (rounds !== undefined && round >= rounds)) return;
      begun.set(backend, round + 1);
      const seed = first + round;
      const counts = noBackendCounts();
      onBegin?.(seed, backend, counts);
      onEnd(await playRound({ seed, backend, url, counterUrl, disturbances, signal, counts }));
    }
  };
  const backends = Object.entries(urls) as [CampaignBackend, string][];
  const lanes = Array.from({ length: LANES }, () => backends.map(([backend, url]) => lane(backend, url)));
  await Promise.all(lanes.flat());
}

export function addRound(all: CampaignCounts, { backend, counts }: RoundResult): void {
  all[backend] ??= noBackendCounts();
  addCounts(all[backend], counts);
}
