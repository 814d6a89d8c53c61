/**
 * The person who decides what no program can know: whether a mail went out before the process died.
 *
 *     node dist/examples/operator.js --checkpointer sqlite:holdfast.db --world http://127.0.0.1:4000/main --thread T [--json]
 *
 * A process of its own, with nothing but the checkpointer's address. It looks into the mail server's sent folder, as a
 * person would, and records what it found: the first decision on an effect holds.
 */

import { parseArgs } from "node:util";
import { openCheckpointer } from "holdfast/checkpointers";
import type { Mail } from "holdfast/graphs";
import { worldClient } from "./world/client.ts";

const { values: options } = parseArgs({
  options: {
    checkpointer: { type: "string" },
    world: { type: "string" },
    thread: { type: "string" },
    json: { type: "boolean", default: false },
  },
});
const { checkpointer: url, world: shop, thread } = options;
if (url === undefined || shop === undefined || thread === undefined) {
  console.error("usage: operator --checkpointer URL --world URL --thread T [--json]");
  process.exit(2);
}

const world = worldClient(shop);
const checkpointer = await openCheckpointer(url);
let settled = 0;
try {
  for (const parked of await checkpointer.effects({ thread })) {
    // An open charge is not a matter for a person: its `verify` asks the bank.
    if (parked.name !== "send-mail" || (parked.status !== "intent" && parked.status !== "failed")) continue;
    const mail = parked.input as Mail;
    const sent = (await world.sentMails(mail.orderId)).find((one) => one.to === mail.to && one.text === mail.text);
    const decision = sent === undefined ? { notDone: true as const } : { done: { messageId: sent.messageId } };
    const { replayed } = await checkpointer.settle(parked.key, decision, { by: "operator" });
    if (!replayed) settled += 1;
    if (!options.json) {
      const found = sent === undefined ? "was not sent: it may be sent now" : `was sent as ${sent.messageId}`;
      console.log(`The mail for ${mail.orderId} to ${mail.to} ${found}.`);
    }
  }
} finally {
  await checkpointer.close();
}
if (options.json) console.log(JSON.stringify({ settled }));
else if (settled === 0) console.log("Nothing waits for a decision.");
