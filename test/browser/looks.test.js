// Pages beside the pictures of them that were kept, in both themes: make keep-pictures writes these anew.
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import pixelmatch from "pixelmatch";
import { PNG } from "pngjs";
import { start } from "../product.js";
import { visitor } from "./app.js";
import { launch } from "./person.js";

const kept = fileURLToPath(new URL("./looks/", import.meta.url));
const writes = process.env.SVC_KEEP_PICTURES === "1";
const differing = 0.01; // of the pixels: machines draw the fonts of code, which are theirs, in other ways

// What is another one each day, or of another person: times, how long something is stuck, colours of people, ports.
const still = `
  time { display: inline-block !important; width: 60px !important; height: 1em; overflow: hidden; color: transparent !important; }
  .flag.warn, .page-head code, .about-system small { color: transparent !important; }
  .avatar { background: gray !important; }
  .spinner { animation: none !important; }`;

let product, browser;

before(async () => {
  product = await start();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await product?.stop();
});

for (const [name, path, shown] of [
  ["dashboard", "/w/acme/dashboard", ".slot-row"],
  ["runs", "/w/acme/runs", ".run"],
  ["list", "/w/acme/runs?view=list", ".lines-of-runs li"],
  ["needs", "/w/acme/needs", ".decision"],
  ["farm", "/w/acme/farm", ".queue"],
]) {
  for (const colorScheme of ["light", "dark"]) {
    test(`${name} looks as it did, ${colorScheme}`, async () => {
      const { page, open } = await visitor(browser, product.appUrl, "ada", { colorScheme, bypassCSP: true }); // for the style above
      await open(path);
      await page.locator("#badge b").waitFor();
      await page.locator(shown).first().waitFor();
      if (name === "farm" || name === "dashboard") await page.getByText(/Online|1 runner online/).first().waitFor();
      await page.evaluate(() => document.fonts.ready);
      const now = await page.screenshot({ style: still, animations: "disabled", caret: "hide" });
      const file = `${kept}${name}-${colorScheme}.png`;
      if (writes) {
        mkdirSync(kept, { recursive: true });
        const small = { colorType: 2, deflateLevel: 9, deflateStrategy: 0, filterType: 0 };
        writeFileSync(file, PNG.sync.write(PNG.sync.read(now), small));
        return;
      }
      assert.ok(existsSync(file), "make keep-pictures has not kept it");
      const [is, was] = [PNG.sync.read(now), PNG.sync.read(readFileSync(file))];
      assert.deepEqual([is.width, is.height], [was.width, was.height]);
      const apart = new PNG({ width: is.width, height: is.height });
      const pixels = pixelmatch(is.data, was.data, apart.data, is.width, is.height, { threshold: 0.2 });
      const told = `${tmpdir()}/${name}-${colorScheme}-differs.png`;
      if (pixels > differing * is.width * is.height) writeFileSync(told, PNG.sync.write(apart));
      assert.ok(pixels <= differing * is.width * is.height, `${pixels} pixels differ: see ${told}`);
    });
  }
}
