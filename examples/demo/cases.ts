/** The two graphs of the demo, each twice: with effects, and the same node bodies without. */

import type { BaseCheckpointSaver } from "@langchain/langgraph";
import { inboxActions, inboxGraph, inboxReport, type Order, order, orderActions, orderGraph } from "holdfast/graphs";
import type { WorldClient } from "../world/client.ts";
import { plain } from "./plain.ts";

export type CaseName = "inbox-report" | "order";

/** How a node's call reaches the outside: as an effect, or directly. */
export type Calls = "effects" | "plain";

/** The order that is handled, again and again, each time in a shop of its own. */
const sampleOrder: Order = {
  orderId: "order-1",
  customer: "ada@example.com",
  item: "lighthouse lamp",
  quantity: 2,
  amountCents: 12_900,
  currency: "EUR",
};

export interface Case {
  readonly name: CaseName;
  /** Files that a run leaves in its working directory. */
  readonly files: readonly string[];
  /** `inbox`: the directory to report on. */
  readonly input: (inbox: string) => Record<string, unknown>;
  readonly compile: (world: WorldClient, calls: Calls, checkpointer: BaseCheckpointSaver) => DemoApp;
}

/** A compiled graph, as much of it as the demo uses. */
export type DemoApp =
  | ReturnType<ReturnType<typeof order>["compile"]>
  | ReturnType<ReturnType<typeof inboxReport>["compile"]>;

export const cases: Readonly<Record<CaseName, Case>> = {
  "inbox-report": {
    name: "inbox-report",
    files: ["report.md"],
    input: (inbox) => ({ inbox, report: "report.md" }),
    compile: (world, calls, checkpointer) => {
      const { summarise } = world;
      const actions = inboxActions({ summarise });
      const graph =
        calls === "effects"
          ? inboxReport({ summarise })
          : inboxGraph({
              summariseFile: plain("summarise-file", actions.summariseFile),
              writeReport: plain("write-report", actions.writeReport),
            });
      return graph.compile({ checkpointer });
    },
  },
  order: {
    name: "order",
    files: [`receipts/${sampleOrder.orderId}.json`],
    input: () => ({ order: sampleOrder }),
    compile: (world, calls, checkpointer) => {
      const actions = orderActions({ world });
      const graph =
        calls === "effects"
          ? order({ world })
          : orderGraph({
              chargeCard: plain("charge-card", actions.chargeCard),
              reserveStock: plain("reserve-stock", actions.reserveStock),
              sendMail: plain("send-mail", actions.sendMail),
              writeReceipt: plain("write-receipt", actions.writeReceipt),
            });
      return graph.compile({ checkpointer });
    },
  },
};
