/** Ready-made graphs, to use and to read: `holdfast/graphs`. */
export { type WrittenFile, writeFileAtomic } from "./atomic-file.ts";
export {
  firstSentence,
  type InboxCalls,
  type InboxReportOptions,
  InboxState,
  type InboxStep,
  inboxActions,
  inboxGraph,
  inboxReport,
  type Summarise,
} from "./inbox-report.ts";
export {
  type Call,
  type Charge,
  type ChargeInput,
  type Mail,
  type Order,
  type OrderCalls,
  type OrderOptions,
  OrderState,
  type OrderWorld,
  order,
  orderActions,
  orderGraph,
  orderSchema,
  type Reservation,
  type ReserveInput,
  type SentMail,
} from "./order.ts";
