// The web app in a browser, and the people who use it.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { afterEach, beforeEach } from "node:test";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export const password = "demonstration";
export const desktop = { width: 1280, height: 900 };
export const phone = { width: 390, height: 844 };
export const zoomed = { width: desktop.width / 2, height: desktop.height / 2 }; // what is left of it at 200 %

// A person may have twelve streams of live updates: what a test has opened ends with it.
let opened = null; // null between tests
beforeEach(() => { opened = []; });
afterEach(async () => {
  const list = opened;
  opened = null;
  await Promise.all(list.map((context) => context.close()));
});

const sessions = new Map(); // cookies by app and person: sign-ins are limited to ten a minute

/**
 * visitor is somebody of the demonstration with a browser profile of their own, signed
 * in: visitor(browser, appUrl, "mia"). Profiles of one person share a session, unless
 * own is set. Other options are those of Playwright's newContext. What the browser
 * complains of is in complaints, but for refusals.
 */
export async function visitor(browser, appUrl, name, { own = false, ...options } = {}) {
  const context = await browser.newContext({ viewport: desktop, reducedMotion: "reduce", ...options });
  opened?.push(context);
  const page = await context.newPage();
  const complaints = [];
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (said) => {
    if (["error", "warning"].includes(said.type()) && !/status of (4\d\d|502)/.test(said.text())) complaints.push(said.text());
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(appUrl) && !/^(data|blob):/.test(request.url())) complaints.push("asks another site: " + request.url());
  });
  const known = `${appUrl} ${name}`;
  if (name && !own && sessions.has(known)) {
    await context.addCookies(sessions.get(known));
  } else if (name) {
    const answer = await context.request.post(appUrl + "/api/auth/sign-in/email", { data: { email: `${name}@acme.example`, password } });
    assert.equal(answer.status(), 200, `sign in as ${name}`);
    if (!own) sessions.set(known, await context.cookies());
  }
  /** open goes to a path and waits until live updates have begun. */
  const open = async (path) => {
    const answer = await page.goto(appUrl + path);
    if (await page.locator("#live").count()) await page.locator('#live[data-state="live"]').waitFor();
    return answer;
  };
  /** toast waits for a notice with that text. */
  const toast = (text) => page.locator("#toasts .toast", { hasText: text }).first().waitFor();
  return { context, page, open, toast, complaints };
}

/** submit submits a job with a token of a running product and returns its id. Not every machine has bubblewrap. */
export async function submit(product, job) {
  const { token } = product.serviceAccounts.find((a) => a.scopes.includes("farm.submit"));
  const answer = await fetch(product.restUrl + "/api/v1/farm/jobs", {
    method: "POST", body: JSON.stringify({ sandbox: { kind: "none" }, ...job }),
    headers: { Authorization: "Bearer " + token, "Content-Type": "application/json" },
  });
  assert.equal(answer.status, 201, await answer.clone().text());
  return (await answer.json()).job.id;
}

/**
 * accessible holds a page against axe, at both widths and in both themes. Scripts of
 * ours may not be added to a page, so axe is run in a page that is let off its policy.
 */
export async function accessible(browser, appUrl, name, path, prepare = async () => {}) {
  const { page, context, open } = await visitor(browser, appUrl, name, { bypassCSP: true });
  await open(path);
  await prepare(page);
  await page.evaluate(axe);
  const themes = ["light", "dark"];
  for (const [viewport, schemes] of [[desktop, themes], [phone, themes], [zoomed, []]]) { // at 200 % the width alone
    await page.setViewportSize(viewport);
    for (const colorScheme of schemes) {
      await page.emulateMedia({ colorScheme });
      const rules = colorScheme === "light" ? {} : { runOnly: ["color-contrast"] }; // themes differ in nothing but colours
      const { violations } = await page.evaluate((rules) => window.axe.run(rules), rules);
      const found = violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.target).join(" ")}`);
      assert.deepEqual(found, [], `${path} at ${viewport.width}, ${colorScheme}`);
    }
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(wide <= 0, `${path} at ${viewport.width}: ${wide} pixels too wide`);
  }
  await context.close();
}
