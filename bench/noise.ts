/** A fixed piece of work: how long it takes says how much of the machine this process had at that moment. */

const ROUNDS = 20_000_000;

export function cpuLoopMs(): number {
  const start = performance.now();
  let x = 1;
  for (let i = 0; i < ROUNDS; i += 1) x = (Math.imul(x, 1_664_525) + 1_013_904_223) | 0;
  const ms = performance.now() - start;
  // Keeps the loop from being optimised away.
  return x === 0 ? -ms : ms;
}
