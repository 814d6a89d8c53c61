/**
 * Databases by URL, for the commands. The one file of src that knows the checkpointers, and only by the name under which the
 * package publishes them, when a command needs one.
 */

export async function backends() {
  return import("holdfast/checkpointers");
}
