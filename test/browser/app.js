// Helpers of tests that use the web app as people of the demonstration data.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { afterEach, beforeEach } from "node:test";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export const password = "demonstration";
export const desktop = { width: 1280, height: 900 };
export const phone = { width: 390, height: 844 };
export const zoomed = { width: desktop.width / 2, height: desktop.height / 2 }; // CSS pixels of desktop at 200 % zoom

// Browser contexts that the running test has opened, null between tests. They are closed after the test, since a
// person may have only twelve streams of live updates.
let contexts = null;
beforeEach(() => { contexts = []; });
afterEach(async () => {
  const list = contexts;
  contexts = null;
  await Promise.all(list.map((context) => context.close()));
});

const sessions = new Map(); // cookies by app and person, since sign-ins are limited to ten a minute

/**
 * visitor opens a browser context with a page, signed in as a person of the demonstration data:
 * visitor(browser, appUrl, "mia"). Without a name nobody is signed in. Contexts of one person share a session,
 * unless ownSession is set. Other options are passed to Playwright's newContext. problems collects uncaught errors,
 * console errors and warnings, except for responses with status 4xx or 502, and requests to other sites.
 */
export async function visitor(browser, appUrl, name, { ownSession = false, ...options } = {}) {
  const context = await browser.newContext({ viewport: desktop, reducedMotion: "reduce", ...options });
  contexts?.push(context);
  const page = await context.newPage();
  const problems = [];
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type()) && !/status of (4\d\d|502)/.test(message.text())) problems.push(message.text());
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(appUrl) && !/^(data|blob):/.test(request.url())) problems.push("request to another site: " + request.url());
  });
  const key = `${appUrl} ${name}`;
  if (name && !ownSession && sessions.has(key)) {
    await context.addCookies(sessions.get(key));
  } else if (name) {
    const signIn = () => context.request.post(appUrl + "/api/auth/sign-in/email", { data: { email: `${name}@acme.example`, password } });
    let answer = await signIn();
    while (answer.status() === 429) { // others of the file have signed in as often as an address may in a minute
      await page.waitForTimeout(1000 * Number(answer.headers()["retry-after"]));
      answer = await signIn();
    }
    assert.equal(answer.status(), 200, `sign in as ${name}`);
    if (!ownSession) sessions.set(key, await context.cookies());
  }
  /** open goes to a path and waits until live updates are connected. */
  const open = async (path) => {
    const answer = await page.goto(appUrl + path);
    if (await page.locator("#live").count()) await page.locator('#live[data-state="live"]').waitFor();
    return answer;
  };
  /** toast waits for a notice with that text. */
  const toast = (text) => page.locator("#toasts .toast", { hasText: text }).first().waitFor();
  return { context, page, open, toast, problems };
}

/** roleOf finds the role of a member on the page Members & roles; its data-now is the role in force. */
export const roleOf = (page, name) => page.locator(".person-row[data-row]", { has: page.locator(".name", { hasText: name }) }).locator(".role");

/** showsRole waits until the page shows a member in a role. */
export const showsRole = (page, name, role) => roleOf(page, name).and(page.locator(`[data-now="${role}"]`)).waitFor({ state: "attached" });

/** chooseRole chooses a role for a member, and setRole answers the question about it as well. */
export async function chooseRole(page, name, role) {
  await roleOf(page, name).locator("summary").click();
  await roleOf(page, name).getByRole("button", { name: role, exact: true }).click();
}
export async function setRole(page, name, role) {
  await chooseRole(page, name, role);
  await page.getByRole("button", { name: /^Make / }).click();
}

/** submitJob submits a job with a service account's token and returns its id. The job has no sandbox unless given. */
export async function submitJob(product, job) {
  const { token } = product.serviceAccounts.find((a) => a.scopes.includes("farm.submit"));
  const answer = await fetch(product.restUrl + "/api/v1/farm/jobs", {
    method: "POST", body: JSON.stringify({ sandbox: { kind: "none" }, ...job }),
    headers: { Authorization: "Bearer " + token, "Content-Type": "application/json" },
  });
  assert.equal(answer.status, 201, await answer.clone().text());
  return (await answer.json()).job.id;
}

/**
 * violations runs axe in the page and describes what is wrong. By default axe also fetches stylesheets and media again,
 * for rules that no page needs, and describes each element that passes, which takes three quarters of the time.
 */
async function violations([within, rules]) {
  const { violations } = await window.axe.run(within, { ...rules, preload: false, resultTypes: ["violations"] });
  return violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.target).join(" ")}`);
}

/**
 * checkAccessibility runs axe on a page, or on what a selector finds in it, at both widths and in both themes, and
 * requires that nothing is wider than the window, also at 200 % zoom. The page's content security policy is bypassed,
 * since it forbids to inject axe.
 */
export async function checkAccessibility(browser, appUrl, name, path, prepare = async () => {}, within = "html") {
  const { page, context, open } = await visitor(browser, appUrl, name, { bypassCSP: true });
  await open(path);
  await prepare(page);
  await page.evaluate(axe);
  // The dark theme differs only in colours, which are those of any width. Zoomed, only the width is checked.
  for (const [viewport, schemes] of [[desktop, ["light", "dark"]], [phone, ["light"]], [zoomed, []]]) {
    await page.setViewportSize(viewport);
    for (const colorScheme of schemes) {
      await page.emulateMedia({ colorScheme });
      const rules = colorScheme === "light" ? {} : { runOnly: ["color-contrast"] };
      const found = await page.evaluate(violations, [within, rules]);
      assert.deepEqual(found, [], `${path} at ${viewport.width}, ${colorScheme}`);
    }
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(wide <= 0, `${path} at ${viewport.width}: ${wide} pixels too wide`);
  }
  await context.close();
}
