/** Says on standard error how far things are: one line that is rewritten on a terminal, plain lines elsewhere. */
export interface Progress {
  /** The state of the current piece of work. */
  show(line: string): void;
  /** A line that stays. */
  say(line: string): void;
  /** Clears what would be rewritten. */
  end(): void;
}

export function progressOn(stream: NodeJS.WriteStream): Progress {
  const clear = stream.isTTY ? () => void stream.write("\r\x1b[K") : () => undefined;
  return {
    show: (line) => {
      clear();
      stream.write(stream.isTTY ? line.slice(0, stream.columns - 1) : `${line}\n`);
    },
    say: (line) => {
      clear();
      stream.write(`${line}\n`);
    },
    end: clear,
  };
}
