// The build farm page, with the runner that make run starts and another one.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { tmpdir } from "node:os";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { start } from "../product.js";
import { checkAccessibility, visitor } from "./app.js";
import { launch } from "./person.js";

let product, browser, app;

before(async () => {
  product = await start();
  app = product.appUrl;
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await product?.stop();
});

/** startRunner enrolls another runner with a token, and starts it. */
async function startRunner(token) {
  const folder = mkdtempSync(tmpdir() + "/svc-runner-");
  const agent = fileURLToPath(new URL("../../bin/svc-runner", import.meta.url));
  const env = { ...process.env, SVC_RUNNER_DATA_DIR: folder, SVC_ENROLL_TOKEN: token };
  await promisify(execFile)(agent, ["enroll", "-url", product.farmUrl, "-server-ca", product.farmCaFile], { env });
  const running = spawn(agent, ["run", "-min-disk-mib", "1"], { env, stdio: "ignore" });
  const stop = async () => {
    running.kill("SIGKILL");
    if (running.exitCode === null && running.signalCode === null) await new Promise((ended) => running.on("exit", ended));
    rmSync(folder, { recursive: true, force: true });
  };
  return { stop };
}

test("a runner is listed, drained with a note, and resumed", async () => {
  const { page, open, toast } = await visitor(browser, app, "ada");
  const leo = await visitor(browser, app, "leo");
  await open("/w/acme/farm");
  await leo.open("/w/acme/farm");
  const row = page.locator(".runner-row", { hasText: "make-run" });
  await row.getByText(/Online|Busy/).waitFor();
  await row.locator("summary").click();
  await page.getByRole("button", { name: "Drain…" }).click();
  await page.locator("dialog[open] [name=note]").fill("Disk swap on Monday");
  await page.locator("dialog[open]").getByRole("button", { name: "Drain" }).click();
  await toast("is draining");
  await row.getByText("“Disk swap on Monday”").waitFor();
  await leo.page.getByText("“Disk swap on Monday”").waitFor({ timeout: 20000 });
  await row.locator("summary").click();
  await page.getByRole("button", { name: "Resume" }).click();
  await toast("is taking jobs again");
  assert.ok(await leo.page.getByRole("button", { name: "Add a runner" }).isDisabled());
  assert.ok(await leo.page.getByText("Only an Owner or Maintainer can add a runner.").isVisible());
});

test("an open dialog, an open menu and the focus survive updates of the page", async () => {
  const ada = await visitor(browser, app, "ada");
  const mia = await visitor(browser, app, "mia");
  await ada.open("/w/acme/farm");
  const row = ada.page.locator(".runner-row", { hasText: "make-run" });
  /** drain has another person drain and resume the runner, and waits until the row shows both. */
  const drain = async (note) => {
    await mia.open("/w/acme/farm");
    await mia.page.locator(".runner-row summary").click();
    await mia.page.getByRole("button", { name: "Drain…" }).click();
    await mia.page.locator("dialog[open] [name=note]").fill(note);
    await mia.page.locator("dialog[open]").getByRole("button", { name: "Drain" }).click();
    await row.getByText(note).waitFor({ state: "attached" });
    await mia.page.locator(".runner-row summary").click();
    await mia.page.getByRole("button", { name: "Resume" }).click();
    await row.getByText(note).waitFor({ state: "detached" });
  };
  await ada.page.getByRole("button", { name: "Add a runner" }).click();
  await ada.page.fill("#add-name", "builder-7");
  await drain("under a dialog");
  assert.ok(await ada.page.locator("#add").isVisible());
  assert.equal(await ada.page.inputValue("#add-name"), "builder-7");
  await ada.page.keyboard.press("Escape");
  await row.locator("summary").click();
  await drain("under a menu");
  assert.ok(await row.getByRole("button", { name: "Revoke" }).isVisible());
  await row.locator("summary").click();
  await ada.page.keyboard.press("j");
  await drain("under the focus");
  assert.match(await ada.page.evaluate(() => document.activeElement.id), /^runner-/);
});

test("an enrollment command is shown once", async () => {
  const { page, open } = await visitor(browser, app, "ada");
  await open("/w/acme/farm");
  await page.getByRole("button", { name: "Add a runner" }).click();
  await page.fill("#add-name", "builder-9");
  await page.getByRole("button", { name: "Create command" }).click();
  const command = await page.locator(".command pre").first().innerText();
  assert.equal(await page.locator("[data-once]").count(), 1, "leaving the page is asked about");
  const token = command.match(/--token (\S+)/)[1];
  assert.ok(token.length > 20);
  assert.ok(!page.url().includes(token));
  await page.getByText("Waiting for the runner to connect…").waitFor();
  await page.locator(".enroll-head").getByText(/works for 1\d min/).waitFor();
  assert.equal(new URL(page.url()).pathname, "/w/acme/farm");
  const mia = await visitor(browser, app, "mia"); // her change updates the list, and the command stays
  await mia.open("/w/acme/farm");
  await mia.page.locator(".runner-row", { hasText: "make-run" }).locator("summary").click();
  await mia.page.getByRole("button", { name: "Drain…" }).click();
  await mia.page.locator("dialog[open] [name=note]").fill("behind a command");
  await mia.page.locator("dialog[open]").getByRole("button", { name: "Drain" }).click();
  await page.locator(".runner-row").getByText("behind a command").waitFor({ state: "attached" });
  await mia.page.locator(".runner-row", { hasText: "make-run" }).locator("summary").click();
  await mia.page.getByRole("button", { name: "Resume" }).click();
  await mia.toast("is taking jobs again");
  assert.ok(await page.evaluate(() => document.activeElement.id === "add-body"));
  assert.equal(await page.locator(".command pre:visible").count(), 1);
  await page.getByRole("button", { name: "Withdraw", exact: true }).click();
  await page.getByText("Command withdrawn. It no longer works.").waitFor();
  assert.ok(!(await page.content()).includes(token));
});

test("the shown command makes a machine a runner, although the gateway uses a private CA", async () => {
  const { page, context, open, problems } = await visitor(browser, app, "ada");
  await open("/w/acme/farm");
  await page.getByRole("button", { name: "Add a runner" }).click();
  await page.fill("#add-name", "builder-4");
  await page.getByRole("button", { name: "Create command" }).click();
  const ca = readFileSync(product.farmCaFile, "utf8"), group = page.getByRole("group", { name: "Private CA of the gateway" });
  await group.getByText(new X509Certificate(ca).fingerprint256, { exact: true }).waitFor();
  const downloading = page.waitForEvent("download");
  await group.getByRole("link", { name: "Download certificate" }).click();
  assert.equal(readFileSync(await (await downloading).path(), "utf8"), ca);
  assert.equal(await group.getByRole("button", { name: "Copy certificate" }).getAttribute("data-copy"), ca);

  // The machine's sudo has the agent installed in a folder, and no service made.
  const machine = mkdtempSync(tmpdir() + "/svc-machine-"), path = machine + ":" + process.env.PATH;
  writeFileSync(machine + "/sudo", `#!/bin/sh\nshift 3\nexec sh -s -- --no-service --prefix '${machine}' --data-dir '${machine}/data' "$@"\n`, { mode: 0o700 });
  const shown = await page.locator(".command pre:visible").innerText();
  try {
    await promisify(execFile)("sh", ["-c", shown], { cwd: machine, env: { ...process.env, PATH: path } });
    await page.getByText("Machine enrolled").waitFor();
  } finally {
    rmSync(machine, { recursive: true, force: true });
  }
  const headers = { "X-Svc-Tenant": "acme" }, runners = product.restUrl + "/api/v1/farm/runners";
  const { id } = (await (await context.request.get(runners, { headers })).json()).items.find((runner) => runner.name === "builder-4");
  assert.equal((await context.request.post(`${runners}/${id}/revoke`, { headers, data: {} })).status(), 200); // its machine is gone
  assert.deepEqual(problems, []);
});

test("the dialog tells how far an enrollment is until that is over, unless it is closed", async () => {
  const { page, context, open, problems } = await visitor(browser, app, "ada"), polls = [];
  await page.clock.install();
  page.on("request", (request) => { if (/enrollments\/[^/]+$/.test(request.url())) polls.push(request.url()); });
  const poll = async () => {
    const answer = page.waitForResponse(/enrollments\/[^/]+$/);
    await page.clock.runFor(2000);
    await answer;
  };
  await open("/w/acme/farm");
  await page.getByRole("button", { name: "Add a runner" }).click();
  await page.fill("#add-name", "builder-2");
  await page.getByRole("button", { name: "Create command" }).click();
  await page.locator("#await .checks").waitFor();
  await page.locator("#await .checks").evaluate((list) => { list.isOld = true; });
  await page.locator("#enrollments li", { hasText: "builder-2" }).waitFor({ state: "attached" }); // its event has arrived
  await page.locator("#await:not(.htmx-request)").waitFor(); // and what it led to
  await poll();
  await poll(); // by now the first answer has been shown
  assert.ok(await page.locator("#await .checks").evaluate((list) => list.isOld), "only what has changed is replaced");
  await page.keyboard.press("Escape");
  const before = polls.length;
  await page.clock.runFor(10000);
  assert.equal(polls.length, before, "while the dialog is closed");
  await page.getByRole("button", { name: "Add a runner" }).click();
  await poll();

  const id = polls[0].split("/").at(-1);
  const gone = await context.request.post(product.restUrl + `/api/v1/farm/enrollments/${id}/withdraw`, { headers: { "X-Svc-Tenant": "acme" } });
  assert.equal(gone.status(), 200);
  const another = page.getByRole("link", { name: "Create another" });
  await page.clock.runFor(2000);
  await another.focus();
  const after = polls.length;
  await page.clock.runFor(10000);
  assert.equal(polls.length, after, "when the command has been withdrawn");
  assert.ok(await another.evaluate((link) => link === document.activeElement));
  assert.deepEqual(problems, []);
});

test("the dialog does not ask again about an enrollment after a refusal", async () => {
  const { page, open } = await visitor(browser, app, "ada");
  await page.clock.install();
  await open("/w/acme/farm");
  await page.getByRole("button", { name: "Add a runner" }).click();
  await page.fill("#add-name", "builder-3");
  await page.getByRole("button", { name: "Create command" }).click();
  await page.locator("#await .checks").waitFor();
  await page.locator("#enrollments li", { hasText: "builder-3" }).waitFor({ state: "attached" }); // its event has arrived
  await page.locator("#await:not(.htmx-request)").waitFor();
  let polls = 0, refuse, markAsked;
  const asked = new Promise((resolve) => { markAsked = resolve; }), refused = new Promise((resolve) => { refuse = resolve; });
  await page.route(/enrollments\/[^/]+$/, async (route) => {
    polls++;
    markAsked();
    await refused;
    await route.fulfill({ status: 403, headers: { "HX-Reswap": "none", "X-Notice": '{"text":"Not yours.","bad":true}' } });
  });
  await page.clock.runFor(2000);
  await asked;
  await page.clock.runFor(2000); // it is time to ask again before the answer has arrived
  refuse();
  await page.locator("#toasts .toast", { hasText: "Not yours." }).waitFor();
  await page.clock.runFor(7000);
  assert.equal(polls, 1);
  assert.ok(await page.locator("#toasts .toast").count() <= 1, "it is told once");
});

test("a refused enrollment keeps the dialog and what was typed", async () => {
  const { page, open } = await visitor(browser, app, "ada");
  await open("/w/acme/farm");
  await page.getByRole("button", { name: "Add a runner" }).click();
  await page.fill("#add-name", "<b>x");
  await page.fill("#add-labels", "pool=default");
  await page.getByRole("button", { name: "Create command" }).click();
  const dialog = page.locator("dialog#add");
  await dialog.locator("#add-name[aria-invalid=true]").waitFor();
  assert.match(await dialog.locator("#add-name-error").innerText(), /^The name /);
  assert.ok(await dialog.isVisible());
  assert.deepEqual([await page.inputValue("#add-name"), await page.inputValue("#add-labels")], ["<b>x", "pool=default"]);
  await page.fill("#add-name", "builder-5");
  await page.getByRole("button", { name: "Create command" }).click();
  await page.getByRole("button", { name: "Withdraw", exact: true }).click();
  await page.getByText("Command withdrawn. It no longer works.").waitFor();
});

test("a form that is sent twice creates one command, and tells where it can be withdrawn", async () => {
  const { page, context } = await visitor(browser, app, "ada", { javaScriptEnabled: false });
  /** pending returns the number of commands that no machine has used. */
  const pending = async () => (await (await context.request.get(product.restUrl + "/api/v1/farm/enrollments?status=pending", { headers: { "X-Svc-Tenant": "acme" } })).json()).total;
  const before = await pending();
  await page.goto(app + "/w/acme/farm/enroll");
  const key = await page.locator("#add-body [name=key]").getAttribute("value");
  const send = async () => (await context.request.post(app + "/w/acme/farm/enroll", { headers: { Origin: app }, form: { key, name: "", labels: "" } })).text();
  const answers = await Promise.all([send(), send()]);
  assert.equal(await pending(), before + 1);
  assert.equal(answers.filter((text) => text.includes("--token")).length, 1);
  await page.setContent(answers.find((text) => !text.includes("--token")));
  const alert = page.locator("#add-body [role=alert]");
  assert.match(await alert.innerText(), /already created/);
  assert.equal(await alert.getByRole("link", { name: "Enrollments" }).getAttribute("href"), "/w/acme/farm/enrollments");
  assert.notEqual(await page.locator("#add-body [name=key]").getAttribute("value"), key, "the form can be sent anew");
});

test("the URL of a form redirects to its page, and the theme changes without a reload", async () => {
  const noScripts = await visitor(browser, app, "ada", { javaScriptEnabled: false });
  await noScripts.page.goto(app + "/w/acme/farm/enroll");
  await noScripts.page.fill("#add-name", "builder-4");
  await noScripts.page.getByRole("button", { name: "Create command" }).click();
  await noScripts.page.locator(".command pre").first().waitFor();
  await noScripts.page.locator("#theme").click();
  await noScripts.page.locator("#add-name").waitFor();
  for (const [form, target] of [["members/1/role", "members"], ["runs/1/cancel", "runs/1"], ["service-accounts/1/rotate", "service-accounts"], ["farm/runners/1/drain", "farm"]]) {
    const answer = await noScripts.context.request.get(app + "/w/acme/" + form + "?q=a", { maxRedirects: 0 });
    assert.deepEqual([answer.status(), answer.headers().location], [303, `/w/acme/${target}?q=a`]);
  }
  const { page, open } = await visitor(browser, app, "ada", { colorScheme: "light" });
  await open("/w/acme/service-accounts");
  await page.evaluate(() => { window.notReloaded = true; });
  await page.locator("#theme").click();
  await page.getByRole("button", { name: /Colours: light/ }).click();
  await page.locator(':root[data-theme="dark"]').waitFor();
  assert.ok(await page.evaluate(() => window.notReloaded && document.activeElement.id === "theme"));
});

test("unused commands are listed, and a machine that uses one appears as a runner", async () => {
  const { page, open } = await visitor(browser, app, "ada");
  await open("/w/acme/farm");
  const other = await visitor(browser, app, "mia");
  await other.open("/w/acme/farm");
  await page.getByRole("button", { name: "Add a runner" }).click();
  await page.fill("#add-name", "builder-8");
  await page.fill("#add-labels", "pool=default, disk=ssd");
  await page.getByRole("button", { name: "Create command" }).click();
  const token = (await page.locator(".command pre:visible").innerText()).match(/--token (\S+)/)[1];
  const waiting = other.page.locator("#enrollments li", { hasText: "builder-8" });
  await waiting.getByText("disk=ssd").waitFor();
  assert.ok(!(await other.page.content()).includes(token));
  const row = other.page.locator(".runner-row", { hasText: "builder-8" });
  const running = await startRunner(token);
  try {
    await page.getByRole("heading", { name: "builder-8 is online" }).waitFor({ timeout: 30000 });
    await page.getByText("disk=ssd").filter({ visible: true }).first().waitFor();
    assert.equal(await page.locator(".command pre:visible").count(), 0);
    await page.getByRole("link", { name: "Add another" }).click();
    await page.locator("#add-name").waitFor();
    await waiting.waitFor({ state: "detached" });
    await row.getByText("Online").waitFor();
  } finally {
    await running.stop();
  }
  await row.getByText("Offline").waitFor({ timeout: 150000 }); // a disconnected runner counts as online for a while
  await row.getByText("svc-runner doctor").or(row.getByText("Check that the machine is running")).waitFor();
  await row.locator("summary").click();
  await row.getByRole("button", { name: "Revoke" }).click();
  const confirm = other.page.getByRole("button", { name: "Revoke builder-8" });
  assert.ok(await confirm.isDisabled());
  await other.page.getByLabel("Type builder-8").fill("builder-8");
  await confirm.click();
  await other.toast("is revoked");
  await row.getByText("Revoked").waitFor();
  assert.equal(await row.locator("summary").count(), 0);
  await other.page.getByText("1 of 1 runners online").waitFor();
  for (const [status, names] of [["Online", /^make-run$/], ["Offline", /^$/], ["Ended", /builder-8/]]) {
    await other.page.getByRole("navigation", { name: "Which runners" }).getByRole("link", { name: status }).click();
    await other.page.waitForURL(/status=/);
    await other.page.locator('.seg [aria-current="true"]', { hasText: status }).waitFor();
    assert.match((await other.page.locator(".runner-row .name").allInnerTexts()).join(" "), names);
  }
});

test("an unused command is withdrawn in the list", async () => {
  const { page, open, toast } = await visitor(browser, app, "ada");
  await open("/w/acme/farm");
  await page.getByRole("button", { name: "Add a runner" }).click();
  await page.fill("#add-name", "builder-6");
  await page.getByRole("button", { name: "Create command" }).click();
  await page.getByRole("link", { name: "Close" }).click();
  await page.getByRole("button", { name: "Withdraw builder-6" }).click();
  await toast("no longer works");
  await page.locator("#enrollments li", { hasText: "builder-6" }).waitFor({ state: "detached" });
  await open("/w/acme/farm");
  await page.getByRole("button", { name: "Add a runner" }).click(); // one for several machines
  await page.getByLabel("Machines").fill("20");
  await page.getByRole("button", { name: "Create command" }).click();
  await page.getByText("0 of 20 machines enrolled").waitFor();
  await page.getByText("Command for 20 machines, shown once").waitFor();
  await page.getByRole("link", { name: "Close" }).click();
  const several = page.locator("#enrollments li", { hasText: "20 of 20 machines left" });
  await several.getByRole("button", { name: "Withdraw" }).click();
  await several.waitFor({ state: "detached" });
  const leo = await visitor(browser, app, "leo");
  await leo.open("/w/acme/farm");
  assert.equal(await leo.page.locator("#enrollments").count(), 0);
});

test("an incomplete configuration is explained", async () => {
  const { page, open } = await visitor(browser, app, "ada");
  const latest = product.farmReleasesDir + "/latest.json";
  renameSync(latest, latest + ".away");
  try {
    await open("/w/acme/farm");
    await page.getByRole("button", { name: "Add a runner" }).click();
    const dialog = page.getByRole("dialog", { name: "The farm is not ready" });
    const missing = dialog.locator(".unset");
    assert.equal(await missing.count(), 1);
    assert.match(await missing.innerText(), /SVC_FARM_RELEASES_DIR[^]*no latest\.json in it/);
    await dialog.locator("li", { hasText: "SVC_FARM_PUBLIC_URL" }).getByText("set", { exact: true }).waitFor();
    assert.equal(await page.locator("#add-name").count(), 0);
  } finally {
    renameSync(latest + ".away", latest);
  }
  await page.getByRole("link", { name: "Check again" }).click();
  await page.getByRole("button", { name: "Add a runner" }).click();
  await page.locator("#add-name").waitFor();
});

for (const path of ["/w/acme/farm", "/w/acme/farm/jobs?status=finished", "/account"]) {
  test(`${path} passes axe`, () => checkAccessibility(browser, app, "ada", path));
}
