import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

const texts: Readonly<Record<string, string>> = {
  "01-harbour.txt": "The harbour is closed from Monday to Thursday. Boats over ten metres may use the outer mole.\n",
  "02-lamp.txt": "The lamp of the north light has been replaced. The old one is kept in the store room for a year.\n",
  "03-minutes.md": "# Minutes of the meeting\n\nPresent were the keeper, the pilot and the clerk.\n",
  "04-weather.txt": "Storm from the west is expected on Friday night! Ropes are to be doubled.\n",
  "05-bill.txt": "The bill for forty litres of oil is still open.\n",
  "06-umlauts.txt": "Grüße aus Büsum: 2 × Öl, 1 × Tau. 灯台は無事です。\n",
};

/** Makes a small inbox. */
export async function makeInbox(directory: string): Promise<string> {
  await mkdir(directory, { recursive: true });
  for (const [name, text] of Object.entries(texts)) await writeFile(join(directory, name), text);
  return directory;
}
