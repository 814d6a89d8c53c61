/** What a worker may have at once: places of all its runs, and of those of single graphs. A run has one from before it is claimed. */

export class Places {
  readonly #most: number;
  readonly #perGraph: Readonly<Record<string, number>>;
  readonly #taken = new Map<string, number>();
  #all = 0;

  constructor(most: number, perGraph: Readonly<Record<string, number>>) {
    this.#most = most;
    this.#perGraph = perGraph;
  }

  get free(): number {
    return this.#most - this.#all;
  }

  freeFor(graph: string): number {
    return Math.min(this.free, (this.#perGraph[graph] ?? this.#most) - (this.#taken.get(graph) ?? 0));
  }

  /** False where there is none. */
  take(graph: string): boolean {
    if (this.freeFor(graph) <= 0) return false;
    this.#add(graph, 1);
    return true;
  }

  give(graph: string): void {
    this.#add(graph, -1);
  }

  #add(graph: string, n: number): void {
    this.#all += n;
    this.#taken.set(graph, (this.#taken.get(graph) ?? 0) + n);
  }
}
