// Takes the screenshots in docs/ for the README: make pictures.
import { mkdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { start } from "../product.js";
import { visitor } from "./app.js";
import { launch } from "./person.js";

const folder = fileURLToPath(new URL("../../docs/", import.meta.url));
mkdirSync(folder, { recursive: true });
const viewport = { width: 1280, height: 800 };
const { PNG } = createRequire(import.meta.url)("pngjs");
/** smaller compresses a screenshot: text without filters takes a sixth less. */
const smaller = (image) => PNG.sync.write(PNG.sync.read(image), { colorType: 2, filterType: 0, deflateLevel: 9, deflateStrategy: 0 });

const product = await start();
const browser = await launch();
try {
  for (const [name, path, options] of [
    ["dashboard", "/w/acme/dashboard", {}],
    ["runs", "/w/acme/runs", { colorScheme: "dark" }],
    ["needs", "/w/acme/needs", {}],
    ["members", "/w/acme/members", {}],
  ]) {
    const { page, open, context } = await visitor(browser, product.appUrl, "ada", { viewport, ...options });
    await open(path);
    await page.waitForLoadState("networkidle", { timeout: 3_000 }).catch(() => {}); // the stream stays open, so it times out
    writeFileSync(`${folder}${name}.png`, smaller(await page.screenshot()));
    await context.close();
  }
} finally {
  await browser.close();
  await product.stop();
}
