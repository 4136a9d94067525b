// Holds the pages of the web app against Lighthouse: make lighthouse. Without paths as arguments it takes the sign-in
// page and one page of each kind that links lead to. Its performance is measured time: a machine that does other things fails it.
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import lighthouse, { desktopConfig } from "lighthouse";
import { chromium } from "playwright-core";
import { crawl, pages } from "../browser/crawl.js";
import { executablePath } from "../chromium.js";
import { start } from "../product.js";

const least = 0.95;

/** port is one that nobody listens on. */
async function port() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  await new Promise((closed) => server.close(closed));
  return port;
}

const product = await start();
const profile = mkdtempSync(tmpdir() + "/svc-lighthouse-");
const devtools = await port();
const browser = await chromium.launchPersistentContext(profile, {
  executablePath, args: ["--no-sandbox", "--disable-gpu", "--remote-debugging-port=" + devtools],
});

/** rate prints the scores of a page, and of a page with a low one which audits lower it. */
async function rate(path) {
  const { lhr } = await lighthouse(product.appUrl + path, {
    port: devtools, logLevel: "silent", disableStorageReset: true, disableFullPageScreenshot: true, maxWaitForLoad: 15_000, // the stream never ends
    onlyCategories: ["performance", "accessibility", "best-practices"],
  }, desktopConfig);
  const all = Object.values(lhr.categories);
  console.log(`${path}: ${all.map(({ title, score }) => `${title} ${score}`).join(", ")}`);
  if (all.every(({ score }) => score >= least)) return;
  process.exitCode = 1;
  for (const { title, score } of Object.values(lhr.audits)) if (score !== null && score < 0.9) console.log(`  ${score} ${title}`);
}

try {
  const named = process.argv.slice(2);
  if (!named.length) await rate("/sign-in");
  // A cookie of the browser: the worker of live updates has no headers of a page.
  await browser.request.post(product.appUrl + "/api/auth/sign-in/email", { data: { email: "ada@acme.example", password: "demonstration" } });
  for (const path of named) await rate(path);
  if (!named.length) {
    const page = await browser.newPage();
    await crawl({ page, open: (path) => page.goto(product.appUrl + path) }, product.appUrl, pages, rate);
  }
} finally {
  await browser.close();
  rmSync(profile, { recursive: true, force: true });
  await product.stop();
}
