/** Recording decisions as those of who asks. */

import { HoldfastError } from "../errors.ts";
import { isInterruptId } from "../langgraph.ts";
import { checkAnswer, decisionOfResume } from "../wait-answer.ts";
import type { AnswerResult, WaitLedger } from "../wait-ledger.ts";
import type { Decision, WaitRecord } from "../wait-record.ts";
import type { Identity } from "./access.ts";
import type { HttpParts } from "./http-app.ts";
import { Problem } from "./problem.ts";

/**
 * Records a decision, durably. Nothing is recorded where the thread could not go on: somebody would believe that it does.
 * @throws Problem UNKNOWN_GRAPH · what `checkpointer.answer` throws
 */
export async function record(
  { checkpointer, runner }: HttpParts,
  id: string,
  decision: Decision,
  digest: string | undefined,
  { user, owner }: Identity,
): Promise<AnswerResult> {
  const { row } = await checkpointer.waitLedger.find(id, owner);
  runner.assertServed(row.thread, row.graph);
  return checkpointer.answer(id, decision, {
    by: user,
    via: "http",
    ...(digest === undefined ? {} : { digest }),
    ...(owner === undefined ? {} : { owner }),
  });
}

export interface GivenAnswer {
  readonly id: string;
  readonly decision: Decision;
}

/**
 * What a resume of LangGraph (`command.resume`) says to a thread's questions: one answer to the only one that is open, or
 * answers by id. All are checked before any is recorded.
 *
 * @throws UNKNOWN_WAIT, AMBIGUOUS_ANSWER, INVALID_ANSWER · Problem NOTHING_ASKED
 */
export async function answersOf(
  ledger: WaitLedger,
  thread: string,
  resume: unknown,
  owner: string | undefined,
): Promise<readonly GivenAnswer[]> {
  if (!isById(resume)) {
    const wait = await onlyOpen(ledger, thread, owner);
    return [{ id: wait.id, decision: checkAnswer(wait, decisionOfResume(wait, resume)) }];
  }
  const given: GivenAnswer[] = [];
  for (const [id, value] of Object.entries(resume)) {
    const { record: wait } = await ledger.find(id, owner);
    if (wait.thread !== thread) throw new HoldfastError("UNKNOWN_WAIT", "It is another thread's.", { details: { id } });
    given.push({ id, decision: checkAnswer(wait, decisionOfResume(wait, value)) });
  }
  return given;
}

async function onlyOpen(ledger: WaitLedger, thread: string, owner: string | undefined): Promise<WaitRecord> {
  const open = await ledger.records({ thread, owner, status: ["open"], kind: ["question", "interrupt"] });
  const [only] = open;
  if (only === undefined)
    throw new Problem("NOTHING_ASKED", `Thread ${JSON.stringify(thread)} has no open question.`, { thread });
  if (open.length === 1) return only;
  throw new HoldfastError("AMBIGUOUS_ANSWER", "Several questions are open.", {
    details: { ids: open.map(({ id }) => id) },
  });
}

/** LangGraph's rule: an object all of whose keys are ids of interrupts. */
function isById(resume: unknown): resume is Readonly<Record<string, unknown>> {
  if (typeof resume !== "object" || resume === null || Array.isArray(resume)) return false;
  const keys = Object.keys(resume);
  return keys.length > 0 && keys.every(isInterruptId);
}
