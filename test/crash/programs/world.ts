/** Effects of the crash programs: the outside world is the matrix's counter, which also answers "did it happen?". */

import { effect, NotExecuted } from "holdfast";
import { count, counted } from "holdfast/testing";
import { z } from "zod";

const input = z.object({ what: z.string() });

/** The value of every effect here: determined by its input, so that results can be compared. */
export const receipt = (what: string): string => `receipt for ${what}`;

/** Executes `what` once; after a kill it asks the counter under its key. */
export const send = effect("send", {
  input,
  run: async ({ what }, { idempotencyKey }) => {
    await count(what, { idempotencyKey });
    return receipt(what);
  },
  verify: async ({ what }, { idempotencyKey }) =>
    (await counted(what, idempotencyKey)) > 0 ? receipt(what) : undefined,
});

/** Nobody can ask whether it happened: after a kill a person settles it. */
export const sendBlind = effect("send-blind", {
  input,
  run: async ({ what }, { idempotencyKey }) => {
    await count(what, { idempotencyKey });
    return receipt(what);
  },
});

/** Safe to repeat: the receiver knows the key. */
export const sendAgain = effect("send-again", {
  input,
  onUnknown: "rerun",
  run: async ({ what }, { idempotencyKey }) => {
    await count(what, { idempotencyKey, idempotent: true });
    return receipt(what);
  },
});

/** States twice that nothing happened, then does it. */
export const sendThirdTime = effect("send-third-time", {
  input,
  run: async ({ what }, { idempotencyKey, attempt }) => {
    if (attempt < 3) throw new NotExecuted(`the line is busy, attempt ${attempt}`);
    await count(what, { idempotencyKey });
    return receipt(what);
  },
  verify: async ({ what }, { idempotencyKey }) =>
    (await counted(what, idempotencyKey)) > 0 ? receipt(what) : undefined,
});

/** What a program without `effect` does: it acts, and nobody records that. */
export const sendUnrecorded = async ({ what }: { readonly what: string }): Promise<string> => {
  await count(what);
  return receipt(what);
};
