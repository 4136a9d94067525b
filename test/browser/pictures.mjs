// Takes the screenshots in docs/ for the README: make pictures.
import { mkdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { start } from "../product.js";
import { visitor } from "./app.js";
import { launch } from "./person.js";

const folder = fileURLToPath(new URL("../../docs/", import.meta.url));
mkdirSync(folder, { recursive: true });

const product = await start();
const browser = await launch();
try {
  for (const [name, path, options] of [
    ["dashboard", "/w/acme/dashboard", {}],
    ["runs", "/w/acme/runs", { colorScheme: "dark" }],
    ["needs", "/w/acme/needs", {}],
    ["members", "/w/acme/members", {}],
  ]) {
    const { page, open, context } = await visitor(browser, product.appUrl, "ada", options);
    await open(path);
    await page.waitForLoadState("networkidle", { timeout: 3_000 }).catch(() => {}); // the stream stays open, so it times out
    await page.screenshot({ path: `${folder}${name}.png` });
    await context.close();
  }
} finally {
  await browser.close();
  await product.stop();
}
