// The page Members & roles: members, invitations, and who may change what.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { start } from "../product.js";
import { checkAccessibility, chooseRole, desktop, phone, roleOf, setRole, showsRole, visitor } from "./app.js";
import { createLogin, launch } from "./person.js";

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

const path = "/w/acme/members";
/** openAs opens the page as somebody. */
async function openAs(name, options) {
  const who = await visitor(browser, app, name, options);
  await who.open(path);
  return who;
}
const row = (page, text) => page.locator(".person-row[data-row]", { hasText: text });
const loops = (page, name) => page.getByLabel(name + " may approve loops", { exact: true });
const api = (who, method, to, data) => who.context.request.fetch(product.restUrl + "/api/v1" + to, { method, data, headers: { "X-Svc-Tenant": "acme" } });
const stored = async (who, name) => (await (await api(who, "GET", "/members?q=" + name)).json()).items[0];

test("a role changes without a save button, and others see it", async () => {
  const ada = await openAs("ada"), mia = await openAs("mia");
  await setRole(ada.page, "Vera Novak", "Maintainer");
  await ada.toast("Vera Novak is now Maintainer, and may approve loops.");
  assert.equal((await stored(ada, "vera")).role, "Maintainer");
  await showsRole(mia.page, "Vera Novak", "Maintainer");
  assert.deepEqual([...ada.problems, ...mia.problems], []);
});

test("no key on the way to a role applies it, and what was applied can be undone", async () => {
  const { page, context, toast, problems } = await openAs("ada"), sent = [];
  page.on("request", (request) => { if (request.method() === "POST") sent.push(request.url()); });
  const was = (await stored({ context }, "vera")).role, { keyboard } = page;
  assert.equal(was, "Maintainer");
  await page.getByLabel("Role of Vera Novak").focus();
  for (const key of ["m", "o", "v", "ArrowUp", "ArrowUp", "ArrowDown", "ArrowDown", "Home", "End", " ", "Enter", "Escape", "PageUp"]) await keyboard.press(key);
  const closed = () => page.locator("#confirm-title").waitFor({ state: "detached" }); // the event of closing follows a moment later
  await closed();
  await page.locator(".role[open]").waitFor({ state: "detached" });
  for (const key of ["ArrowDown", "ArrowDown", "ArrowUp", "Enter"]) await keyboard.press(key); // opens the list, moves within it, chooses
  const question = page.getByRole("dialog", { name: "Make Vera Novak an Owner?" });
  await question.getByText("change and remove any Owner").waitFor();
  await keyboard.press("Enter"); // what has the focus keeps the role
  await closed();
  assert.deepEqual(sent, []);
  assert.equal((await stored({ context }, "vera")).role, was);
  await keyboard.press("Enter");
  await question.waitFor();
  await keyboard.press("Tab");
  await keyboard.press("Enter");
  await toast("Vera Novak is now Owner.");
  assert.equal((await stored({ context }, "vera")).role, "Owner");
  assert.equal(await page.evaluate(() => document.activeElement.ariaLabel), "Role of Vera Novak: Owner");
  await page.getByRole("button", { name: "Undo" }).click();
  await toast("Vera Novak is now Maintainer.");
  await showsRole(page, "Vera Novak", "Maintainer");
  assert.deepEqual(problems, []);
});

test("a change that takes rights away asks for confirmation", async () => {
  const { page, toast, context } = await openAs("ada");
  await chooseRole(page, "Vera Novak", "Viewer");
  await page.getByText("Make Vera Novak a Viewer?").waitFor();
  await page.getByText("They also lose approve-loops").waitFor();
  await page.getByRole("button", { name: "Keep Maintainer" }).click();
  assert.equal((await stored({ context }, "vera")).role, "Maintainer");
  await page.keyboard.press("Enter"); // the choice has the focus again
  await page.getByRole("button", { name: "Make Vera Novak a Viewer" }).click();
  await toast("Vera Novak is now Viewer, and may no longer approve loops.");

  await loops(page, "Mia Torres").click();
  await page.getByText("Take approve-loops from Mia Torres?").waitFor();
  await page.getByRole("button", { name: "Keep approve-loops" }).click();
  await loops(page, "Mia Torres").and(page.locator(":checked")).waitFor(); // reset after the dialog has closed
  await loops(page, "Mia Torres").click();
  await page.getByRole("button", { name: "Take approve-loops" }).click();
  await toast("Mia Torres may no longer approve loops.");
  assert.equal((await stored({ context }, "mia")).canApproveLoops, false);
  await loops(page, "Mia Torres").click(); // granting a right needs no confirmation
  await toast("Mia Torres may approve loops.");
});

test("a control that was cancelled shows what others change, and asks accordingly", async () => {
  const ada = await openAs("ada"), ben = await openAs("ben"), { page, toast } = ada;
  const cancel = () => page.getByRole("dialog").getByRole("button", { name: /^Keep / }).click();
  const mia = await stored(ada, "mia"), vera = await stored(ada, "vera"), change = (id, body) => api(ben, "PATCH", "/members/" + id, body);
  await loops(page, "Mia Torres").click();
  await cancel();
  await change(mia.id, { canApproveLoops: false });
  await loops(page, "Mia Torres").and(page.locator(":not(:checked)")).waitFor();
  await loops(page, "Mia Torres").click();
  await toast("Mia Torres may approve loops.");
  assert.equal((await stored(ada, "mia")).canApproveLoops, true);

  await change(vera.id, { role: "Maintainer" });
  await showsRole(page, "Vera Novak", "Maintainer");
  await chooseRole(page, "Vera Novak", "Viewer");
  await cancel();
  await page.waitForFunction((id) => document.activeElement.closest("#role-" + id), vera.id); // once the dialog's close event has come
  await change(vera.id, { role: "Viewer" });
  await showsRole(page, "Vera Novak", "Viewer");
  assert.deepEqual(ada.problems, []);
});

test("a change sends what its question said, whatever others change meanwhile", async () => {
  const ada = await openAs("ada"), ben = await openAs("ben"), { page, toast } = ada;
  const mia = await stored(ada, "mia");
  await loops(page, "Mia Torres").click();
  const question = page.getByRole("dialog").filter({ hasText: "Take approve-loops from Mia Torres?" });
  await question.waitFor();
  await api(ben, "PATCH", "/members/" + mia.id, { canApproveLoops: false });
  await page.waitForFunction((id) => !document.getElementById("approve-" + id).defaultChecked, mia.id);
  await question.getByRole("button", { name: "Take approve-loops" }).click();
  await toast("Mia Torres may no longer approve loops.");
  assert.equal((await stored(ada, "mia")).canApproveLoops, false);

  let release;
  const released = new Promise((resolve) => { release = resolve; });
  await page.route("**/approve", async (route) => { await released; await route.continue(); }, { times: 1 });
  await loops(page, "Mia Torres").click();
  await loops(page, "Mia Torres").click(); // while the first change is being sent
  release();
  await question.getByRole("button", { name: "Take approve-loops" }).click();
  await page.waitForFunction((id) => !document.getElementById("approve-" + id).checked, mia.id);
  assert.equal((await stored(ada, "mia")).canApproveLoops, false);
  await api(ben, "PATCH", "/members/" + mia.id, { canApproveLoops: true });
});

test("the last Owner cannot be changed: the row is reset and the reason shown", async () => {
  const { page, toast, context } = await openAs("ada");
  await setRole(page, "Ben Okoro", "Maintainer");
  await toast("Ben Okoro is now Maintainer.");
  await chooseRole(page, "Ada Lind", "Viewer");
  await page.getByRole("button", { name: "Make yourself a Viewer" }).click();
  await toast("This is the workspace's last owner. Make someone else an owner before changing this role.");
  await showsRole(page, "Ada Lind", "Owner");
  assert.equal((await stored({ context }, "ada")).role, "Owner");
  await page.getByLabel("More actions for Ada Lind").click();
  await page.getByRole("button", { name: "Leave the workspace" }).click();
  await page.locator("#toasts").evaluate((toasts) => toasts.replaceChildren()); // the same reason is awaited again
  await page.getByRole("button", { name: "Leave Acme" }).click();
  await toast("last owner");
  await row(page, "ada@acme.example").waitFor();
});

test("a Maintainer cannot change or appoint Owners, and the controls say so", async () => {
  const { page } = await openAs("mia");
  assert.equal(await roleOf(page, "Ada Lind").locator("summary").count(), 0);
  assert.ok(await loops(page, "Ada Lind").isDisabled());
  await row(page, "ada@acme.example").locator("small", { hasText: "Only an Owner can change an Owner." }).waitFor();
  await roleOf(page, "Vera Novak").locator("summary").click();
  await roleOf(page, "Vera Novak").getByText("Only an owner can make someone an owner.").waitFor();
  assert.equal(await roleOf(page, "Vera Novak").getByRole("button", { name: "Owner" }).count(), 0);
  assert.ok(await page.getByLabel("Role for the invitation").locator("option[value=Owner]").isDisabled());
});

test("a Viewer sees everything, and why nothing can be changed", async () => {
  const { page } = await openAs("leo");
  await page.getByText("Only an Owner or Maintainer can invite people or change roles.").waitFor();
  assert.equal(await page.locator(".role summary").count(), 0);
  for (const flip of await page.locator("#people .switch").all()) assert.ok(await flip.isDisabled());
  assert.equal(await page.locator("#invite-email").count(), 0);
  assert.equal(await page.getByRole("button", { name: /Resend|Revoke/ }).count(), 0);
  await row(page, "leo@acme.example").getByText("you", { exact: true }).waitFor();
  assert.equal(await page.locator(".you").count(), 1);
});

test("invitations: several at once, dimmed, resent, revoked, expired", async () => {
  const { page, toast } = await openAs("ada", { permissions: ["clipboard-read", "clipboard-write"] });
  const expired = row(page, "piet@acme.example");
  await page.getByText("1 expired", { exact: true }).click();
  await expired.getByText("expired", { exact: true }).waitFor();
  await page.locator("#invite-email").fill("eins@example.com, zwei@example.com");
  await page.getByRole("button", { name: "Invite" }).dblclick(); // one invitation each, and no refusal of a second one
  await toast("eins@example.com and zwei@example.com are invited as Viewer. No e-mail is sent: copy the link and send it.");
  assert.equal(await page.evaluate(() => document.activeElement.id), "invite-send", "the button keeps the focus");
  const one = row(page, "eins@example.com");
  await one.getByText("pending", { exact: true }).waitFor();
  await one.getByText("expires in 48 hours").waitFor();
  const colour = (row) => row.locator(".name").first().evaluate((name) => getComputedStyle(name).color);
  assert.notEqual(await colour(one), await colour(row(page, "ada@acme.example")), "dimmed");
  await one.getByRole("button", { name: /Copy the link/ }).click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), app + "/w/acme"); // tests below accept there

  assert.equal(await page.locator("#toasts .bad").count(), 0);

  await page.locator("#invite-email").fill("typed@example.com");
  await page.getByText("1 expired", { exact: true }).click();
  await page.getByRole("button", { name: "Resend the invitation of piet@acme.example" }).click();
  await toast("Resent to piet@acme.example.");
  assert.equal(await page.locator("#invite-email").inputValue(), "typed@example.com", "a change of a row keeps what was typed");
  await expired.getByText("pending", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Revoke the invitation of eins@example.com" }).click();
  await page.getByText("It can no longer be accepted.").waitFor();
  await page.getByRole("button", { name: "Revoke the invitation", exact: true }).click();
  await toast("Invitation revoked.");
  await one.waitFor({ state: "detached" });

  const field = page.locator("#invite-email"), refused = page.locator("#invite-error");
  for (const [typed, reason] of [["not an address", "“not an address” is not an email address."], ["drei@example.com,  bad", "“bad” is not an email address."]]) {
    await field.fill(typed);
    await page.getByRole("button", { name: "Invite" }).click();
    await refused.getByText(reason, { exact: true }).waitFor();
    assert.deepEqual([await field.inputValue(), await page.evaluate(() => document.activeElement.id)], [typed, "invite-email"]);
    assert.equal(await field.getAttribute("aria-errormessage"), "invite-error");
  }
  assert.equal(await page.locator("#toasts .bad").count(), 0, "said once, at the field");
  await field.fill("drei@example.com, mia@acme.example");
  await page.getByLabel("Role for the invitation").selectOption("Maintainer");
  await page.getByRole("button", { name: "Invite" }).click();
  await refused.getByText("mia@acme.example: User is already a member of this organization. drei@example.com is invited as Maintainer.").waitFor();
  assert.equal(await field.inputValue(), "mia@acme.example");
  assert.equal(await page.getByLabel("Role for the invitation").inputValue(), "Maintainer");

  await field.fill("owner@example.com");
  await page.getByLabel("Role for the invitation").selectOption("Owner");
  await page.getByRole("button", { name: "Invite" }).click();
  await page.getByRole("button", { name: "Not as Owner" }).click();
  assert.equal(await row(page, "owner@example.com").count(), 0);
});

test("the form keeps the addresses that were refused, and the role, when the page is updated", async () => {
  const ada = await openAs("ada"), { page, toast } = ada;
  const field = page.locator("#invite-email"), as = page.getByLabel("Role for the invitation");
  /** update has somebody invite a person, and waits until the page shows that. */
  const update = async (email) => {
    assert.equal((await api(ada, "POST", "/invitations", { email })).status(), 201);
    await row(page, email).waitFor();
  };
  await field.fill("vier@example.com, mia@acme.example");
  await as.selectOption("Maintainer");
  await page.getByRole("button", { name: "Invite" }).click();
  await page.locator("#invite-error", { hasText: "vier@example.com is invited" }).waitFor();
  await row(page, "vier@example.com").waitFor();
  await update("sieben@example.com");
  assert.deepEqual([await field.inputValue(), await as.inputValue()], ["mia@acme.example", "Maintainer"]);
  await field.fill("acht@example.com");
  await page.getByRole("button", { name: "Invite" }).click();
  await row(page, "acht@example.com").waitFor();
  await update("neun@example.com");
  assert.deepEqual([await field.inputValue(), await as.inputValue()], ["", "Maintainer"]);
});

test("a search finds invitations too", async () => {
  const { page, open } = await openAs("ada");
  await open(path + "?q=piet");
  await row(page, "piet@acme.example").waitFor();
  assert.equal(await page.getByText("No matching people").count(), 0);
  await open(path + "?q=piet&role=Owner");
  await page.getByText("No matching people").waitFor();
});

/** invitee has Ada invite a new person, opens a page of the workspace as that person, and signs in. */
async function invitee(name, email, link) {
  const ada = await openAs("ada"), { page } = await visitor(browser, app);
  await ada.page.locator("#invite-email").fill(email);
  await ada.page.getByRole("button", { name: "Invite", exact: true }).click();
  await ada.toast(email + " is invited as Viewer.");
  await page.goto(app + link);
  await page.click("text=Continue with GitHub");
  await page.waitForURL(/login\/oauth\/authorize/);
  await createLogin(name, email)(page);
  return page;
}

test("an invitation can be accepted on the page that a link leads to, which opens then", async () => {
  const page = await invitee("Kim Park", "kim@example.com", "/w/acme/runs?view=list");
  await page.getByText("You are invited to Acme").waitFor();
  await page.getByRole("button", { name: "Accept the invitation" }).click();
  await page.waitForURL(app + "/w/acme/runs?view=list");
  await page.getByText("Welcome! You are now a member.").waitFor();
});

test("an invitation can be accepted on the account page", async () => {
  const page = await invitee("Noa Levi", "noa@example.com", "/account");
  await page.getByRole("button", { name: "Accept" }).click();
  await page.waitForURL(/\/w\/acme/);
  await page.getByText("Welcome! You are now a member.").waitFor();
});

test("removing a member asks for confirmation, and ends access at once", async () => {
  const ada = await openAs("ada"), max = await visitor(browser, app, "max");
  await max.open(path);
  await ada.page.getByLabel("More actions for Max Weber").click();
  await ada.page.getByRole("button", { name: "Remove from the workspace" }).click();
  await ada.page.getByText("Remove Max Weber from Acme?").waitFor();
  await ada.page.getByRole("button", { name: "Keep Max Weber" }).click();
  await row(ada.page, "max@acme.example").waitFor();
  await ada.page.getByRole("button", { name: "Remove from the workspace" }).click();
  await max.page.goto("about:blank"); // his page would load itself again, and so abort the last step
  await ada.page.getByRole("button", { name: "Remove Max Weber" }).click();
  await ada.toast("Removed.");
  await row(ada.page, "max@acme.example").waitFor({ state: "detached" });
  assert.ok(await ada.page.evaluate(() => document.activeElement.matches("[data-row]")), "a row of the list has the focus");
  assert.equal((await max.page.goto(app + path)).status(), 404);
});

test("members are exported as CSV, and link to their activity in the audit log", async () => {
  const { page } = await openAs("ada");
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "Download as CSV" }).click()]);
  assert.equal(download.suggestedFilename(), "members-acme.csv");
  const lines = readFileSync(await download.path(), "utf8").trimEnd().split("\r\n");
  assert.equal(lines[0], '"name","email","role","canApproveLoops","lastActiveAt","joinedAt"');
  assert.equal(lines.length - 1, Number(await page.locator("#people .count").first().innerText()));
  await page.getByLabel("More actions for Mia Torres").click();
  await page.getByRole("link", { name: "View activity" }).click();
  await page.locator(".chip", { hasText: "actor: mia@acme.example" }).waitFor();
});

test("without scripts a role changes once the question about it is answered", async () => {
  const { page, context } = await visitor(browser, app, "ada", { javaScriptEnabled: false });
  await page.goto(app + path + "?q=vera");
  await chooseRole(page, "Vera Novak", "Maintainer");
  await page.getByRole("heading", { name: "Make Vera Novak a Maintainer?" }).waitFor();
  await page.getByText("They also get approve-loops: they can approve and merge. It applies at once.").waitFor();
  await page.getByRole("link", { name: "Keep Viewer" }).click();
  assert.equal(await page.evaluate(() => location.search), "?q=vera");
  assert.equal((await stored({ context }, "vera")).role, "Viewer");
  await setRole(page, "Vera Novak", "Maintainer");
  await page.getByText("Vera Novak is now Maintainer, and may approve loops.").waitFor();
  await showsRole(page, "Vera Novak", "Maintainer");
  await setRole(page, "Vera Novak", "Viewer");
  await page.getByText("Vera Novak is now Viewer, and may no longer approve loops.").waitFor();
  assert.equal((await stored({ context }, "vera")).role, "Viewer");
  await page.goto(app + path);
  const folded = page.locator("#invitations:not([open]) > summary"); // tests above invite more people than are shown at once
  if (await folded.count()) await folded.click();
  await page.getByRole("button", { name: /^Revoke the invitation of/ }).first().click();
  await page.getByText("It can no longer be accepted.").waitFor();
});

test("legacy members have a filter of their own, also for the CSV", async () => {
  const { page } = await openAs("ada");
  await page.selectOption("#of-role", { label: "Viewer (member)" });
  await page.waitForURL(/role=member/);
  await row(page, "vera@acme.example").waitFor({ state: "detached" });
  await row(page, "leo@acme.example").waitFor();
  await page.reload();
  assert.equal(await page.locator("#of-role option:checked").innerText(), "Viewer (member)");
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "Download as CSV" }).click()]);
  const lines = readFileSync(await download.path(), "utf8").trimEnd().split("\r\n").slice(1);
  assert.ok(lines.some((line) => line.includes("leo@acme.example")) && !lines.some((line) => line.includes("vera@acme.example")), lines.join("\n"));
});

test("a legacy member can be made a Viewer", async () => {
  const { page, toast, context } = await openAs("ada");
  await showsRole(page, "Leo Brandt", "member");
  assert.match(await roleOf(page, "Leo Brandt").locator("summary").innerText(), /Viewer \(member\)/);
  await chooseRole(page, "Leo Brandt", "Viewer");
  await page.getByText("They can no longer queue issues or review facts.").waitFor();
  await page.getByRole("button", { name: "Make Leo Brandt a Viewer" }).click();
  await toast("Leo Brandt is now Viewer.");
  assert.equal((await stored({ context }, "leo")).role, "Viewer");
  await showsRole(page, "Leo Brandt", "Viewer");
});

test("on a phone members and invitations take two lines, without broken words", async () => {
  const { page, open } = await visitor(browser, app, "ada", { viewport: phone });
  await open("/w/acme/members");
  const rows = await page.locator(".person-row:not(.column-heads)").evaluateAll((list) => list.map((row) => ({
    text: row.innerText, height: row.getBoundingClientRect().height, lines: row.querySelector("small bdi, .name bdi").getClientRects().length,
  })));
  assert.ok(rows.length > 6);
  for (const { text, height, lines } of rows) {
    assert.ok(height <= 110, `${text}: ${height}`);
    assert.equal(lines, 1, text);
  }
  const unlabelled = await page.locator(".person-row .switch").evaluateAll((list) => list.filter((el) => !/Approves/.test(el.closest("[role=cell]").innerText)).length);
  assert.equal(unlabelled, 0, "the switch says what it is");
  await open("/w/acme/farm");
  assert.match(await page.locator(".runner-row:not(.column-heads)").first().innerText(), /Version[^]*Heartbeat[^]*Current jobs/);
  await page.locator(".menu", { hasText: "Menu" }).waitFor();
});

test("a hundred invitations do not bury the members, and can be reached without scripts", async () => {
  const ada = await visitor(browser, app, "ada"), max = 100;
  const before = (await (await api(ada, "GET", "/invitations?limit=1")).json()).total;
  const made = await Promise.all(Array.from({ length: max + 1 - before }, (_, i) => api(ada, "POST", "/invitations", { email: `many-${i}@example.com` })));
  for (const answer of made) assert.equal(answer.status(), 201);
  for (const viewport of [desktop, phone]) {
    const { page } = await openAs("ada", { viewport });
    const you = await row(page, "ada@acme.example").boundingBox();
    assert.ok(you.y + you.height < viewport.height, `the first member at ${viewport.width} pixels: ${you.y}`);
    await page.locator("#invitations > summary", { hasText: `Invitations ${max + 1}` }).click();
    await row(page, "many-0@example.com").scrollIntoViewIfNeeded();
    await page.locator("#find").fill("many-7");
    await row(page, "many-8@example.com").waitFor({ state: "detached" });
    await row(page, "many-7@example.com").waitFor();
  }
  const { page } = await visitor(browser, app, "ada", { javaScriptEnabled: false });
  await page.goto(app + path);
  const people = await page.locator("#people .count").first().innerText();
  await page.locator("#invitations > summary").click();
  assert.equal(await page.locator(".person-row.invited").count(), max);
  await page.getByText(`Invitations 1 to 100 of ${max + 1}`).waitFor();
  await page.getByRole("link", { name: "Next" }).click();
  await page.getByText(`Invitations 101 to 101 of ${max + 1}`).waitFor();
  assert.equal(await page.locator(".person-row.invited").count(), 1);
  assert.equal(await page.locator("#people .count").first().innerText(), people);
  await page.getByRole("link", { name: "Previous" }).click();
  await page.locator("#invitations > summary").click();
  await page.getByText(`Invitations 1 to 100 of ${max + 1}`).waitFor();
  for (const answer of made) await api(ada, "DELETE", "/invitations/" + (await answer.json()).id);
});

test("members are paged, and a filter also applies to the CSV", async () => {
  const { page, context } = await visitor(browser, app, "ada", { javaScriptEnabled: false });
  const csv = async () => (await (await context.request.get(app + await page.getByRole("link", { name: "Download as CSV" }).getAttribute("href"))).text()).trim().split("\r\n");
  await page.goto(app + path + "?role=Owner");
  const owners = await csv();
  assert.ok(owners.length > 1 && owners.slice(1).every((line) => line.includes('"Owner"')), owners.join("\n"));
  await page.goto(app + path + "?q=mia");
  assert.equal((await csv()).length, 2);
  await page.goto(app + path);
  const all = await csv(), shown = await page.locator(".person-row[data-row]:not(.invited)").count();
  assert.equal(all.length - 1, shown);
  await page.goto(app + path + "?from=2"); // an offset within the list
  assert.equal(await page.locator(".person-row[data-row]:not(.invited)").count(), shown - 2);
  await page.getByText(`3 to ${shown} of ${shown} people`).waitFor();
  await page.getByRole("link", { name: "Previous" }).click();
  await page.waitForLoadState();
  assert.equal(await page.locator(".person-row[data-row]:not(.invited)").count(), shown);
  assert.equal(await page.getByRole("link", { name: "Previous" }).count(), 0);
});

test("members pass axe", async () => {
  for (const name of ["ada", "mia", "leo"]) await checkAccessibility(browser, app, name, path);
});

test("a search is complete although answers and updates arrive while it is typed", async () => {
  const { page } = await openAs("ada"), mia = await openAs("mia");
  await page.route("**/members?*", async (route) => { // answers arrive while the next letter is typed
    await new Promise((later) => setTimeout(later, 230));
    await route.continue();
  });
  await page.locator("#find").focus();
  for (const letter of "vera") {
    await page.keyboard.type(letter);
    await new Promise((later) => setTimeout(later, 260));
  }
  await setRole(mia.page, "Vera Novak", "Maintainer");
  await page.waitForURL(/members\?q=vera$/);
  await page.waitForFunction(() => document.querySelectorAll("#people .person-row[data-row]").length === 1);
  assert.equal(await page.locator("#find").inputValue(), "vera");
  assert.ok(await page.locator("#find").evaluate((field) => field === document.activeElement && field.selectionStart === 4));
});

test("a search that follows a filter is not replaced by the answer to the filter alone", async () => {
  const { page } = await openAs("ada");
  const filtered = new Promise((resolve) => page.route(/members\?role=Owner$/, resolve)); // it is not answered
  await page.selectOption("#of-role", "Owner");
  await filtered;
  const dropped = page.waitForEvent("requestfailed", (request) => /members\?role=Owner$/.test(request.url()));
  await page.locator("#find").fill("ada");
  await page.waitForURL(/members\?q=ada&role=Owner$/);
  await dropped;
});

test("an update that arrives after a search does not replace its result", async () => {
  const { page } = await openAs("ada"), mia = await openAs("mia");
  let release, markRequested;
  const requested = new Promise((resolve) => { markRequested = resolve; }), released = new Promise((resolve) => { release = resolve; });
  await page.route("**/members", async (route) => { // the update, which has no query
    const response = await route.fetch();
    markRequested();
    await released;
    await route.fulfill({ response });
  });
  const now = await roleOf(mia.page, "Vera Novak").getAttribute("data-now") === "Viewer" ? "Maintainer" : "Viewer";
  await setRole(mia.page, "Vera Novak", now);
  await requested;
  await page.locator("#find").fill("vera");
  await page.waitForURL(/members\?q=vera$/);
  const people = page.locator("#people .person-row[data-row]");
  await people.nth(1).waitFor({ state: "detached" });
  const again = page.waitForResponse(/members\?q=vera$/);
  release();
  await again;
  assert.equal(await people.count(), 1);
  await showsRole(page, "Vera Novak", now);
});

test("after a change of its own a list shows changes by others", async () => {
  const ada = await openAs("ada"), mia = await openAs("mia"), refused = [];
  ada.page.on("response", (r) => { if (r.status() >= 400) refused.push(r.url()); });
  for (const [one, other] of [[ada, mia], [mia, ada]]) {
    const now = await roleOf(one.page, "Vera Novak").getAttribute("data-now") === "Viewer" ? "Maintainer" : "Viewer";
    await setRole(one.page, "Vera Novak", now);
    await showsRole(other.page, "Vera Novak", now);
  }
  assert.deepEqual(refused, []);
});

test("an update that was refused or not answered is requested again", async () => {
  const { page } = await visitor(browser, app, "ada"), mia = await openAs("mia");
  await page.clock.install();
  await page.goto(app + "/w/acme/members");
  await page.locator('#live[data-state="live"]').waitFor();
  for (const fail of [(route) => route.fulfill({ status: 503, body: "Busy." }), (route) => route.abort()]) {
    const failed = new Promise((done) => page.route("**/members", async (route) => { await fail(route); done(); }, { times: 1 }));
    const now = await roleOf(mia.page, "Vera Novak").getAttribute("data-now") === "Viewer" ? "Maintainer" : "Viewer";
    await setRole(mia.page, "Vera Novak", now);
    await failed;
    for (let left = 100; await roleOf(page, "Vera Novak").getAttribute("data-now") !== now; left--) {
      assert.ok(left, "the update is not requested again");
      await page.clock.runFor(500);
    }
  }
});

test("a part of the page that could not be loaded is requested again", async () => {
  const { page } = await visitor(browser, app, "ada");
  const failed = new Promise((done) => page.route("**/service-accounts", async (route) => { await route.fulfill({ status: 503, body: "Busy." }); done(); }, { times: 1 }));
  await page.goto(app + path);
  await failed;
  await page.locator("#service-accounts").waitFor();
});

test("a refusal of something in front of the app leaves the page as it is", async () => {
  const { page, toast } = await openAs("ada"), mia = await openAs("mia"), refuse = (route) => route.fulfill({ status: 429, body: "slow down" });
  const now = await roleOf(mia.page, "Vera Novak").getAttribute("data-now") === "Viewer" ? "Maintainer" : "Viewer";
  await page.route("**/members", refuse, { times: 1 });
  await setRole(mia.page, "Vera Novak", now);
  await toast("Refused with status 429.");
  assert.notEqual(await roleOf(page, "Vera Novak").getAttribute("data-now"), now);
  await showsRole(page, "Vera Novak", now);
  await page.route("**/badge", refuse, { times: 1 }); // a part without an element of its own
  const refused = page.waitForResponse("**/badge"), badge = await page.locator("#badge").innerText();
  await page.evaluate(() => document.body.dispatchEvent(new Event("live-decision")));
  await refused;
  await page.locator("#toasts .toast", { hasText: "Refused" }).nth(1).waitFor();
  assert.equal(await page.locator("#badge").innerText(), badge);
});

test("a filter without an answer is reset to what the list shows", async () => {
  const { page } = await openAs("ada");
  await page.route("**/members?*", (route) => route.abort());
  await page.selectOption("#of-role", "Viewer");
  await page.locator("#toasts .toast", { hasText: "No answer from the server" }).waitFor();
  assert.equal(await page.locator("#of-role").inputValue(), "");
});
