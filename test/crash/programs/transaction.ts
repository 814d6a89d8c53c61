/** An account in the checkpointer's own database: each booking and its record commit together, whatever is killed. */

import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import type { Database } from "better-sqlite3";
import { transaction } from "holdfast";
import { nodeStarted } from "holdfast/testing";
import { z } from "zod";
import { main } from "./play.ts";
import { send } from "./world.ts";

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
});

const book = transaction("book", {
  input: z.object({ cents: z.int() }),
  run: (db: Database, { cents }) => {
    db.exec("CREATE TABLE IF NOT EXISTS account (cents INTEGER NOT NULL)");
    db.prepare("INSERT INTO account VALUES (?)").run(cents);
    return db.prepare("SELECT count(*) AS bookings, sum(cents) AS balance FROM account").get() as {
      bookings: number;
      balance: number;
    };
  },
});

await main((checkpointer) => ({
  app: new StateGraph(State)
    .addNode("deposit", async () => {
      await nodeStarted("deposit", 1);
      const { bookings, balance } = await book({ cents: 500 });
      return { log: [`${bookings}: ${balance}`] };
    })
    .addNode("mail", async () => {
      await nodeStarted("mail", 2);
      return { log: [await send({ what: "statement" })] };
    })
    .addNode("withdraw", async () => {
      await nodeStarted("withdraw", 3);
      // Two equal bookings in one task are two bookings.
      const [first, second] = [await book({ cents: -100 }), await book({ cents: -100 })];
      return { log: [`${first.bookings}: ${first.balance}`, `${second.bookings}: ${second.balance}`] };
    })
    .addEdge(START, "deposit")
    .addEdge("deposit", "mail")
    .addEdge("mail", "withdraw")
    .addEdge("withdraw", END)
    .compile({ checkpointer }),
  thread: "transaction",
  input: { log: ["input"] },
}));
