/** What the server says of itself when a store is opened: whether it can be used, and what its acknowledgement survives. */

import { type BackendDurability, HoldfastError } from "holdfast";
import type { Connection } from "./connection.ts";
import type { CheckedOptions } from "./options.ts";
import { lua, type Script, script } from "./script.ts";

/** The format this code writes, and the last one that older code must know. */
const FORMAT = 1;
const NEEDS = 1;

const openScript: Script = script(lua`
local kind = call('TYPE', P .. 'meta')['ok']
if kind ~= 'none' and kind ~= 'hash' then return { 'foreign', kind } end
if kind == 'none' then call('HSET', P .. 'meta', 'format', ARGV[1], 'needs', ARGV[2]) end
local meta = call('HMGET', P .. 'meta', 'format', 'needs')
return { meta[1] or '', meta[2] or '' }
`);

/**
 * Checks the server and the store.
 * @throws {HoldfastError} NOT_SUPPORTED, CANNOT_OPEN, FOREIGN_DATABASE, UNSUPPORTED_FORMAT, STORAGE_FAILED
 */
export async function inspect(connection: Connection, options: CheckedOptions): Promise<BackendDurability> {
  const info = fieldsOf(String(await permitted(connection, "info")));
  const version = info.get("redis_version");
  if (version !== undefined && Number.parseInt(version, 10) < 6) {
    throw new HoldfastError(
      "NOT_SUPPORTED",
      `${connection.name} is Redis ${version}; holdfast needs Redis 6 or later, or Valkey.`,
      { details: { name: connection.name, version } },
    );
  }
  if (!options.allowEviction) refuseEviction(connection.name, info);
  await openStore(connection, options.prefix);
  return options.durability ?? (await durabilityOf(connection, info));
}

async function openStore(connection: Connection, prefix: string): Promise<void> {
  const { name } = connection;
  const answer = (await connection.run(openScript, `${FORMAT}`, `${NEEDS}`)) as [Buffer, Buffer];
  const [format, needs] = answer.map(String) as [string, string];
  if (format === "foreign") {
    throw new HoldfastError(
      "FOREIGN_DATABASE",
      `${name}: the key {${prefix}}:meta is a ${needs} of another program. Choose another prefix.`,
      { details: { name, prefix } },
    );
  }
  if (Number(needs) <= FORMAT && Number(needs) > 0) return;
  throw new HoldfastError(
    needs === "" ? "CORRUPT_DATA" : "UNSUPPORTED_FORMAT",
    needs === ""
      ? `${name} has no format in {${prefix}}:meta: restore a backup.`
      : `${name} was written by a newer version of holdfast (format ${format}, needs ${needs}); this one knows format ` +
          `${FORMAT}. Update holdfast, or use another prefix. Nothing was changed.`,
    { details: { name, format, needs, known: FORMAT } },
  );
}

/** What is evicted is lost without a word, so a server that does that keeps nothing. */
function refuseEviction(name: string, info: ReadonlyMap<string, string>): void {
  const policy = info.get("maxmemory_policy");
  if (policy === undefined || policy === "noeviction" || Number(info.get("maxmemory") ?? 0) === 0) return;
  throw new HoldfastError(
    "CANNOT_OPEN",
    `${name} has a maxmemory and the maxmemory-policy ${policy}: it would remove threads, effects or the sign of life of an ` +
      "owner to make room, without a word. Set `maxmemory-policy noeviction`, use another server, or pass allowEviction: true.",
    { details: { name, policy } },
  );
}

/** `fsync` and `os` only where the server says so. */
async function durabilityOf(connection: Connection, info: ReadonlyMap<string, string>): Promise<BackendDurability> {
  // Without an append-only file only snapshots are left, minutes apart: whatever kills the server takes what came after.
  if (info.get("aof_enabled") !== "1") return "none";
  const sync = await setting(connection, "appendfsync");
  const lazyOnRewrite = await setting(connection, "no-appendfsync-on-rewrite");
  // The file is written before the answer is sent; only `always` also waits for the disk.
  return sync === "always" && lazyOnRewrite === "no" ? "fsync" : "os";
}

async function setting(connection: Connection, name: string): Promise<string | undefined> {
  const answer = await permitted(connection, "config", "get", name);
  return Array.isArray(answer) ? (answer[1] as string | undefined) : undefined;
}

/** Undefined where the server does not permit the question. */
async function permitted(connection: Connection, command: string, ...args: string[]): Promise<unknown> {
  try {
    return await connection.command(command, ...args);
  } catch (error) {
    const { cause } = error as { readonly cause?: unknown };
    const message = cause instanceof Error ? cause.message : "";
    // NOPERM of an access list; "unknown command" of services that have renamed it away.
    if (/^(?:NOPERM|ERR unknown command|ERR unsupported|ERR .*not (?:allowed|permitted))/i.test(message))
      return undefined;
    throw error;
  }
}

function fieldsOf(info: string): Map<string, string> {
  const fields = new Map<string, string>();
  for (const line of info.split(/\r?\n/)) {
    const colon = line.indexOf(":");
    if (colon > 0) fields.set(line.slice(0, colon), line.slice(colon + 1));
  }
  return fields;
}
