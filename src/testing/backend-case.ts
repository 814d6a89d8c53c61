/** What a case of the backend conformance suite is given and is. */

import type { Backend } from "../backend.ts";

export interface OpenedBackend {
  /** Opened on an empty store that nobody else uses. */
  readonly backend: Backend;
  /**
   * Opens the same store once more, as another process would, while `backend` stays open. Undefined where that is not
   * possible; a backend whose `capabilities.processes` is "many" must have it.
   */
  readonly second?: (() => Promise<Backend>) | undefined;
  /** Opens the same store after `backend` was closed. Undefined where nothing outlives the backend. */
  readonly reopen?: (() => Promise<Backend>) | undefined;
  /** Closes whatever is open and removes the store. */
  destroy(): Promise<void>;
}

export interface BackendCase {
  /** The guarantee, as a sentence. Unique. */
  readonly name: string;
  /** What {@link OpenedBackend} must offer for the case to make sense. */
  readonly needs?: "second" | "reopen";
  /** Rejects, with node's AssertionError or the backend's own error, where the guarantee does not hold. */
  readonly run: (opened: OpenedBackend) => Promise<void>;
}
