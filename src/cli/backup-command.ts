/** `holdfast backup`: a copy of a database that is in use. */

import { backends } from "./backends.ts";
import { bytesText, type ExitCode, type Printer } from "./output.ts";

export interface BackupFlags {
  readonly url: string;
  readonly to: string;
}

export async function backupCommand({ url, to }: BackupFlags, printer: Printer): Promise<ExitCode> {
  const { backup } = await backends();
  const done = await backup(url, to, {
    onProgress: ({ copied, total }) => printer.progress(`${bytesText(copied)} of ${bytesText(total)}`),
  });
  printer.result(() => `${done.path}: ${bytesText(done.bytes)}, checked. Open it as ${done.url}`, done);
  return 0;
}
