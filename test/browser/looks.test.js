// Compares pages with stored screenshots, in both themes and on a phone: make keep-pictures takes new ones.
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import pixelmatch from "pixelmatch";
import { PNG } from "pngjs";
import { start } from "../product.js";
import { phone, submitJob, visitor } from "./app.js";
import { launch } from "./person.js";

const folder = fileURLToPath(new URL("./looks/", import.meta.url));
const takesNew = process.env.SVC_KEEP_PICTURES === "1";
const tolerance = 0.01; // of the pixels, since the monospaced font is the machine's own

// style hides what differs between runs: times, durations, tokens, charts by day, avatar colours, ports, generated ids.
const style = `
  time { display: inline-block !important; width: 60px !important; height: 1em; overflow: hidden; color: transparent !important; }
  .flag.warn, .page-head code, .kpi-value, .kpi .change, .kpi small, .banner b, .re-step small,
  [type=datetime-local] { color: transparent !important; }
  .about-system small { display: none !important; } /* its length decides how many lines it takes on a phone */
  .settings-facts code, .verified code, .request code, #past-title .count, .past-jobs { color: transparent !important; }
  .command pre, .command pre *, .gateway-ca code, .raw-event pre, .raw-event pre * { color: transparent !important; }
  .chart path, .chart text, .spark path, .re-line-chart *, [type=range] { visibility: hidden !important; }
  .avatar { background: gray !important; }
  .spinner { animation: none !important; }`;

let product, browser;

before(async () => {
  product = await start({ seeded: null }); // so that the audit log and the farm have only one runner
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await product?.stop();
});

let jobID = null; // promise of the job that all its screenshots show

/** job returns the URL of a finished job with an artifact. */
async function job(page) {
  const id = await (jobID ??= submitJob(product, {
    name: "build and test", artifacts: [{ name: "report", paths: ["report.txt"] }],
    steps: [{ name: "Build", run: "echo '$ make build'; printf '\\033[32mok\\033[0m 214 files\\n'" }, { name: "Test", run: "echo '$ make test'; echo '$ 96 passed' | tee report.txt" }],
  }));
  await page.goto(product.appUrl + "/w/acme/farm/jobs/" + id);
  await page.locator("h1 .pill", { hasText: "Succeeded" }).waitFor({ timeout: 20000 });
  await page.getByText("Complete, 12 B").waitFor({ timeout: 20000 });
  await page.getByText("Verified", { exact: true }).waitFor({ timeout: 20000 }); // the log's integrity
  return page.url();
}

/** event returns the path of the event that revoked old-bot. */
async function event(page) {
  await page.goto(product.appUrl + "/w/acme/audit?q=action:service_account.revoked");
  return page.getByRole("link", { name: /Link to event/ }).first().getAttribute("href");
}

/** verify verifies the log, since the page tells whether the service itself has done so yet. */
async function verify(page) {
  const answered = page.waitForResponse((answer) => answer.url().includes("verify"));
  await page.locator("#verified a").click();
  await answered;
  await page.mouse.move(0, 0); // no button is hovered over
  await page.waitForFunction(() => !document.querySelector(".htmx-request"));
  await page.getByText("Verified up to event").waitFor();
}

/** lastUse waits until the page shows that start has used a token. */
async function lastUse(page) {
  for (let i = 0; i < 100 && !(await page.getByText("Last used").count()); i++) await page.reload();
  await page.getByText("Last used").first().waitFor();
}

/** command creates an enrollment command. */
async function command(page) {
  await page.getByRole("button", { name: "Add a runner" }).click();
  await page.fill("#add-name", "builder-9");
  await page.getByRole("button", { name: "Create command" }).click();
  await page.locator(".command pre:visible").waitFor();
  await page.getByText("Command created, shown once").waitFor(); // fetched after the dialog
}

/** palette opens the palette with a search. */
async function palette(page) {
  await page.keyboard.press("Control+k");
  await page.locator("#palette input").fill("mia");
  await page.locator("#palette [role=option]:visible", { hasText: "mia@acme" }).waitFor();
}

// Name of the screenshot, path, and a selector to wait for. next returns the path of the page to take, act prepares it,
// and who is the person.
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
  ["service-accounts", "/w/acme/service-accounts", "text=old-bot", { act: lastUse }],
  ["farm", "/w/acme/farm", ".queue"],
  ["enroll", "/w/acme/farm/enroll", "#add-body"],
  ["runner", "/w/acme/farm", ".runner-row .name a", { next: (page) => page.locator(".runner-row .name a").first().getAttribute("href") }],
  ["secrets", "/w/acme/farm/secrets", "#secret-name"],
  ["settings", "/w/acme/settings", ".settings-facts"],
  ["repositories", "/w/acme/settings/repositories", ".repo-row"],
  ["connect", "/w/acme/settings/repositories/new", "#repo-url"],
  ["new-workspace", "/new-workspace", "#new-slug"],
  ["audit", "/w/acme/audit?q=actor:ada@acme.example", "text=Role", { act: verify }],
  ["event", "/w/acme/audit?show=all", "text=Came online", { next: event }],
  ["replay", "/w/acme/audit/replay", ".re-steps li"],
  ["job", "/w/acme/farm", ".queue", { next: job }],
  ["jobs", "/w/acme/farm/jobs?status=finished", "text=build and test"],
  ["command", "/w/acme/farm", ".queue", { act: command }], // last, since its enrollment appears in the audit log
  ["absent", "/w/beyond/runs", "text=You are not in this workspace"],
];

for (const [name, path, selector, { who = "ada", next, act } = {}] of pages) {
  test(`${name} looks the same`, async () => {
    const { page, open } = await visitor(browser, product.appUrl, who, { bypassCSP: true }); // for the style that hides differences
    await open(path);
    if (path.startsWith("/w/") && name !== "absent") await page.locator("#badge b").waitFor();
    await page.locator(selector).first().waitFor();
    if (name === "farm" || name === "dashboard") await page.getByText(/Online|1 runner online/).first().waitFor();
    if (next) await open(new URL(await next(page), product.appUrl).pathname);
    await act?.(page);
    await page.evaluate(() => document.fonts.ready);
    await compare(page, `${name}-light`);
    await page.emulateMedia({ colorScheme: "dark" });
    await compare(page, `${name}-dark`);
    await page.emulateMedia({ colorScheme: "light" }); // one theme on a phone is enough
    await page.setViewportSize(phone);
    await compare(page, `${name}-phone`);
  });
}

/** compare compares a page with its stored screenshot, or stores a new one. */
async function compare(page, name) {
  const screenshot = await page.screenshot({ style, animations: "disabled", caret: "hide" });
  const file = `${folder}${name}.png`;
  if (takesNew) {
    mkdirSync(folder, { recursive: true });
    const smallest = { colorType: 2, deflateLevel: 9, deflateStrategy: 0, filterType: 0 };
    writeFileSync(file, PNG.sync.write(PNG.sync.read(screenshot), smallest));
    return;
  }
  assert.ok(existsSync(file), "no stored screenshot: make keep-pictures");
  const [actual, expected] = [PNG.sync.read(screenshot), PNG.sync.read(readFileSync(file))];
  assert.deepEqual([actual.width, actual.height], [expected.width, expected.height]);
  const diff = new PNG({ width: actual.width, height: actual.height });
  const pixels = pixelmatch(actual.data, expected.data, diff.data, actual.width, actual.height, { threshold: 0.2 });
  const diffFile = `${tmpdir()}/${name}-differs.png`;
  if (pixels > tolerance * actual.width * actual.height) writeFileSync(diffFile, PNG.sync.write(diff));
  assert.ok(pixels <= tolerance * actual.width * actual.height, `${pixels} pixels differ: see ${diffFile}`);
}
