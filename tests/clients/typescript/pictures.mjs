// Draw the .dot files of a directory beside them, as .svg: `make pictures`.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { instance } from "@viz-js/viz";

const [, , directory] = process.argv;
const viz = await instance();
for (const name of readdirSync(directory).filter((name) => name.endsWith(".dot"))) {
  const text = readFileSync(join(directory, name));
  const hash = createHash("sha256").update(text).digest("hex");
  const drawn = viz.renderString(text.toString(), { format: "svg" });
  const svg = drawn.slice(drawn.indexOf("<svg"));
  writeFileSync(join(directory, name.replace(/dot$/, "svg")), `<!-- Drawn from ${name} (${hash}) by make pictures. -->\n${svg}`);
}
