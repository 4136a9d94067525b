// Pages beside the pictures of them that were kept, in both themes and on a phone: make keep-pictures writes these anew.
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import pixelmatch from "pixelmatch";
import { PNG } from "pngjs";
import { start } from "../product.js";
import { phone, submit, visitor } from "./app.js";
import { launch } from "./person.js";

const kept = fileURLToPath(new URL("./looks/", import.meta.url));
const writes = process.env.SVC_KEEP_PICTURES === "1";
const differing = 0.01; // of the pixels: machines draw the fonts of code, which are theirs, in other ways

// What is another one each day, each time, or of another person: times, how long something is stuck, tokens,
// days and what fell on them, colours of people, ports, what is made once.
const still = `
  time { display: inline-block !important; width: 60px !important; height: 1em; overflow: hidden; color: transparent !important; }
  .flag.warn, .page-head code, .about-system small, .kpi-value, .kpi .change, .kpi small, .banner b, .re-step small,
  [type=datetime-local] { color: transparent !important; }
  .settings-facts code, .request code, #past-title .count, .past-jobs { color: transparent !important; }
  .command pre, .command pre *, .raw-event pre, .raw-event pre * { color: transparent !important; }
  .chart path, .chart text, .spark path, .re-line-chart *, [type=range] { visibility: hidden !important; }
  .avatar { background: gray !important; }
  .spinner { animation: none !important; }`;

let product, browser;

before(async () => {
  product = await start({ seeded: null }); // the audit log and the farm have one runner
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await product?.stop();
});

let ran = null; // the job that both themes show

/** job returns the page of a job that has ended and left a file. */
async function job(page) {
  const id = await (ran ??= submit(product, {
    name: "build and test", artifacts: [{ name: "report", paths: ["report.txt"] }],
    steps: [{ name: "Build", run: "echo '$ make build'; printf '\\033[32mok\\033[0m 214 files\\n'" }, { name: "Test", run: "echo '$ make test'; echo '$ 96 passed' | tee report.txt" }],
  }));
  await page.goto(product.appUrl + "/w/acme/farm/jobs/" + id);
  await page.locator("h1 .pill", { hasText: "Succeeded" }).waitFor({ timeout: 20000 });
  await page.getByText("Complete, 12 B").waitFor({ timeout: 20000 });
  await page.getByText("Verified", { exact: true }).waitFor({ timeout: 20000 }); // the log
  return page.url();
}

/** event returns the page of the event in which old-bot was revoked. */
async function event(page) {
  await page.goto(product.appUrl + "/w/acme/audit?q=action:service_account.revoked");
  return page.getByRole("link", { name: /Link to event/ }).first().getAttribute("href");
}

/** used waits until the use of a token, with which start has read jobs, is shown. */
async function used(page) {
  for (let i = 0; i < 100 && !(await page.getByText("Last used").count()); i++) await page.reload();
  await page.getByText("Last used").first().waitFor();
}

async function command(page) {
  await page.getByRole("button", { name: "Add a runner" }).click();
  await page.fill("#add-name", "builder-9");
  await page.getByRole("button", { name: "Create command" }).click();
  await page.locator(".command pre:visible").waitFor();
}

async function palette(page) {
  await page.keyboard.press("Control+k");
  await page.locator("#palette input").fill("mia");
  await page.locator("#palette [role=option]:visible", { hasText: "mia@acme" }).waitFor();
}

const pages = [
  ["sign-in", "/sign-in", "text=Continue with GitHub", { who: null }],
  ["workspaces", "/w", "main a"],
  ["account", "/account", "main .card"],
  ["dashboard", "/w/acme/dashboard", ".slot-row"],
  ["palette", "/w/acme/dashboard", ".slot-row", { act: palette }],
  ["runs", "/w/acme/runs", ".run"],
  ["list", "/w/acme/runs?view=list", ".lines-of-runs li"],
  ["run", "/w/acme/runs?status=finished", "text=Upgrade the TLS library", { next: (page) => page.locator("a", { hasText: "Upgrade the TLS library" }).first().getAttribute("href") }],
  ["needs", "/w/acme/needs", ".decision"],
  ["insights", "/w/acme/insights", ".kpi"],
  ["members", "/w/acme/members", "text=nora@acme.example"],
  ["service-accounts", "/w/acme/service-accounts", "text=old-bot", { act: used }],
  ["farm", "/w/acme/farm", ".queue"],
  ["enroll", "/w/acme/farm/enroll", "#add-body"],
  ["runner", "/w/acme/farm", ".runner-row .name a", { next: (page) => page.locator(".runner-row .name a").first().getAttribute("href") }],
  ["secrets", "/w/acme/farm/secrets", "#secret-name"],
  ["settings", "/w/acme/settings", ".settings-facts"],
  ["new-workspace", "/new-workspace", "#new-slug"],
  ["audit", "/w/acme/audit?q=actor:ada@acme.example", "text=Role"],
  ["event", "/w/acme/audit", "text=Came online", { next: event }],
  ["replay", "/w/acme/audit/replay", ".re-steps li"],
  ["job", "/w/acme/farm", ".queue", { next: job }],
  ["jobs", "/w/acme/farm/jobs?status=finished", "text=build and test"],
  ["command", "/w/acme/farm", ".queue", { act: command }], // last: its enrolment is in the audit log
  ["absent", "/w/beyond/runs", "text=You are not in this workspace"],
];

for (const [name, path, shown, { who = "ada", next, act } = {}] of pages) {
  for (const colorScheme of ["light", "dark"]) {
    test(`${name} looks as it did, ${colorScheme}`, async () => {
      const { page, open } = await visitor(browser, product.appUrl, who, { colorScheme, bypassCSP: true }); // for the style above
      await open(path);
      if (path.startsWith("/w/") && name !== "absent") await page.locator("#badge b").waitFor();
      await page.locator(shown).first().waitFor();
      if (name === "farm" || name === "dashboard") await page.getByText(/Online|1 runner online/).first().waitFor();
      if (next) await open(new URL(await next(page), product.appUrl).pathname);
      await act?.(page);
      await page.evaluate(() => document.fonts.ready);
      await compare(page, `${name}-${colorScheme}`);
      if (colorScheme === "dark") return; // what is another thing on a phone is no other colour
      await page.setViewportSize(phone);
      await compare(page, `${name}-phone`);
    });
  }
}

/** compare holds a page against the kept picture of it, or keeps it. */
async function compare(page, name) {
  const now = await page.screenshot({ style: still, animations: "disabled", caret: "hide" });
  const file = `${kept}${name}.png`;
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
  const told = `${tmpdir()}/${name}-differs.png`;
  if (pixels > differing * is.width * is.height) writeFileSync(told, PNG.sync.write(apart));
  assert.ok(pixels <= differing * is.width * is.height, `${pixels} pixels differ: see ${told}`);
}
