/** DBOS in a database of its own: it has one schema name. */

import { randomUUID } from "node:crypto";
import { DBOS } from "@dbos-inc/dbos-sdk";
import pg from "pg";
import { serverUrl } from "../savers.ts";

/** Register workflows before. */
export async function launchDbos(): Promise<{ close(): Promise<void> }> {
  const url = new URL(serverUrl("POSTGRES"));
  const database = `dbos_${randomUUID().replaceAll("-", "")}`;
  const admin = new pg.Client(url.href);
  await admin.connect();
  await admin.query(`create database ${database}`);
  await admin.end();
  url.pathname = `/${database}`;
  DBOS.setConfig({ name: "bench", systemDatabaseUrl: url.href, logLevel: "error", runAdminServer: false });
  await DBOS.launch();
  return { close: () => DBOS.shutdown() };
}
