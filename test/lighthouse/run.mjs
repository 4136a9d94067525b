// Holds the pages of the web app against Lighthouse: make lighthouse. With paths only those.
// Its performance is measured time: a machine that does other things fails it.
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import lighthouse, { desktopConfig } from "lighthouse";
import { chromium } from "playwright-core";
import { executablePath } from "../chromium.js";
import { start } from "../product.js";

const least = 0.95;
const places = ["dashboard", "needs", "runs", "runs?view=list", "insights", "members", "service-accounts", "audit", "audit/replay", "farm", "farm/jobs?status=finished"];

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
try {
  // A cookie of the browser: the worker of live updates has no headers of a page.
  await browser.request.post(product.appUrl + "/api/auth/sign-in/email", { data: { email: "ada@acme.example", password: "demonstration" } });
  const paths = process.argv.length > 2 ? process.argv.slice(2) : ["/w", "/account", ...places.map((place) => "/w/acme/" + place)];
  for (const path of paths) {
    const { lhr } = await lighthouse(product.appUrl + path, {
      port: devtools, logLevel: "silent", disableStorageReset: true, disableFullPageScreenshot: true, maxWaitForLoad: 15_000, // the stream never ends
      onlyCategories: ["performance", "accessibility", "best-practices"],
    }, desktopConfig);
    const all = Object.values(lhr.categories);
    console.log(`${path}: ${all.map(({ title, score }) => `${title} ${score}`).join(", ")}`);
    if (all.every(({ score }) => score >= least)) continue;
    process.exitCode = 1;
    for (const { title, score } of Object.values(lhr.audits)) if (score !== null && score < 0.9) console.log(`  ${score} ${title}`);
  }
} finally {
  await browser.close();
  rmSync(profile, { recursive: true, force: true });
  await product.stop();
}
