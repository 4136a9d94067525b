// Settings of a workspace, a new workspace, job secrets, and the page of a runner.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
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

const api = (who, method, path, data, slug = "acme") => who.context.request.fetch(product.restUrl + "/api/v1" + path, { method, data, headers: { "X-Svc-Tenant": slug } });

for (const scripts of [true, false]) {
  test(`an Owner deletes a workspace and restores it, ${scripts ? "with" : "without"} scripts`, async () => {
    const ada = await visitor(browser, app, "ada", { javaScriptEnabled: scripts }), { page, problems } = ada;
    const name = scripts ? "Hooli" : "Hooli Two", slug = scripts ? "hooli" : "hooli-two";
    await page.goto(app + "/new-workspace");
    await page.fill("#new-name", name);
    await page.fill("#new-slug", slug);
    await page.getByRole("button", { name: "Create" }).click();
    await page.waitForURL(`${app}/w/${slug}/dashboard`);
    await page.goto(`${app}/w/${slug}/settings`);
    await page.getByLabel(`Type ${name} to delete it`).fill(name.toLowerCase());
    await page.getByRole("button", { name: "Delete this workspace" }).click();
    await page.locator("#confirm-error", { hasText: `must be ${name}, exactly as it is written` }).waitFor();
    await page.locator("#confirm-name").fill(name);
    await page.keyboard.press("Enter");
    await page.waitForURL(app + "/w");
    await page.getByText(`${name} is deleted. An Owner can restore it until`).waitFor();
    assert.equal(await page.locator(`a[href="/w/${slug}"]`).count(), 0);
    assert.equal((await page.goto(`${app}/w/${slug}/settings`)).status(), 404);
    await page.goto(app + "/w");
    await page.getByText("deleted by Ada Lind").waitFor();
    if (scripts) await checkAccessibility(browser, app, "ada", "/w");
    await page.getByRole("button", { name: `Restore ${name}`, exact: true }).click();
    await page.waitForURL(`${app}/w/${slug}/dashboard`);
    await page.getByText(`${name} is restored.`).waitFor();
    assert.deepEqual(problems, []);
  });
}

for (const scripts of [true, false]) {
  test(`an Owner changes the name and the slug, ${scripts ? "with" : "without"} scripts`, async () => {
    const ada = await visitor(browser, app, "ada", { javaScriptEnabled: scripts }), { page, problems } = ada;
    await page.goto(app + "/w/acme/settings");
    await page.fill("#workspace-name", "Acme Works");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("Settings saved.").waitFor();
    await page.getByRole("button", { name: /^Acme Works/ }).first().waitFor();

    await page.fill("#workspace-slug", "ada"); // taken by another workspace
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("heading", { name: "Change the slug to ada?" }).waitFor();
    await page.getByRole("button", { name: /^Change it to / }).click();
    await page.locator("#slug-error", { hasText: "Another workspace has this slug." }).waitFor();
    assert.equal(await page.inputValue("#workspace-slug"), "ada", "what was typed is kept");
    await page.locator("#workspace-slug:focus").waitFor();

    await page.fill("#workspace-slug", "acme-"); // refused by the browser, and without the pattern by the service, without a confirmation
    await page.getByRole("button", { name: "Save" }).click();
    assert.ok(await page.locator("#workspace-slug").evaluate((field) => field.validity.patternMismatch));
    await page.locator("#workspace-slug").evaluate((field) => field.removeAttribute("pattern"));
    await page.getByRole("button", { name: "Save" }).click();
    await page.locator("#slug-error", { hasText: "not end with a hyphen" }).waitFor();

    await page.fill("#workspace-slug", "acme-works");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("Links to pages of /w/acme stop working").waitFor();
    await page.getByRole("link", { name: "Keep acme" }).click();
    assert.equal(await page.inputValue("#workspace-slug"), "acme");
    await page.fill("#workspace-slug", "acme-works");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("button", { name: /^Change it to / }).click();
    await page.waitForURL(app + "/w/acme-works/settings");
    assert.equal((await page.goto(app + "/w/acme/settings")).status(), 404);
    assert.ok((await api(ada, "PATCH", "/workspace", { name: "Acme", slug: "acme" }, "acme-works")).ok());
    assert.deepEqual(problems, []);
  });
}

test("changing the slug keeps a name that somebody else has set meanwhile", async () => {
  const ada = await visitor(browser, app, "ada"), { page } = ada;
  await page.goto(app + "/w/acme/settings");
  assert.ok((await api(ada, "PATCH", "/workspace", { name: "Acme Group" })).ok());
  for (const slug of ["ada", "acme-group"]) { // the first one is refused
    await page.fill("#workspace-slug", slug);
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("button", { name: /^Change it to / }).click();
    if (slug === "ada") await page.locator("#slug-error").waitFor();
  }
  await page.waitForURL(app + "/w/acme-group/settings");
  assert.equal(await page.inputValue("#workspace-name"), "Acme Group");
  assert.ok((await api(ada, "PATCH", "/workspace", { name: "Acme", slug: "acme" }, "acme-group")).ok());
});

test("a Maintainer and a Viewer see why they cannot change the workspace, and a Viewer sees no secrets", async () => {
  for (const [name, secrets] of [["mia", true], ["vera", false]]) {
    const { page, open, context } = await visitor(browser, app, name);
    await open("/w/acme/settings");
    assert.ok(await page.locator("#workspace-name").isDisabled());
    assert.ok(await page.getByRole("button", { name: "Save" }).isDisabled());
    await page.getByText("Only an Owner can change the name and the slug.").waitFor();
    assert.equal((await context.request.post(app + "/w/acme/settings", { form: { name: "Mine", slug: "acme" } })).status(), 409);
    assert.equal(await page.getByRole("link", { name: "Job secrets" }).count(), secrets ? 1 : 0);
    await open("/w/acme/farm/secrets");
    assert.equal(await page.locator("#secret-name").count(), secrets ? 1 : 0);
    if (!secrets) await page.getByText("Only an Owner or Maintainer sees job secrets").waitFor();
  }
});

test("a workspace is created on the page of workspaces", async () => {
  const { page, problems, context } = await visitor(browser, app, "max");
  await page.goto(app + "/w");
  await page.getByRole("link", { name: "Create a workspace" }).click();
  await page.fill("#new-name", "   ");
  await page.fill("#new-slug", "blank");
  await page.getByRole("button", { name: "Create" }).click();
  await page.locator("#name-error", { hasText: /^The name must not be empty\.$/ }).waitFor();
  await page.fill("#new-name", "Acme");
  await page.fill("#new-slug", "acme");
  await page.getByRole("button", { name: "Create" }).click();
  await page.locator("#slug-error", { hasText: "Another workspace has this slug." }).waitFor();
  assert.deepEqual([await page.inputValue("#new-name"), await page.inputValue("#new-slug")], ["Acme", "acme"]);
  await page.fill("#new-slug", "No Slug");
  await page.getByRole("button", { name: "Create" }).click();
  await page.locator("#slug-error").getByText(/^The slug /).waitFor();
  await page.waitForLoadState(); // scripts drop the second click
  await page.fill("#new-slug", "beyond");
  await page.getByRole("button", { name: "Create" }).dblclick(); // created once, and no refusal of a second one
  await page.waitForURL(app + "/w/beyond/dashboard");
  await page.getByText("Acme is ready.").waitFor();
  await page.goto(app + "/w/beyond/settings");
  assert.ok(await page.getByRole("button", { name: "Save" }).isEnabled(), "the creator is the Owner");
  await page.goto("about:blank"); // a page of the old slug would reload itself, and so abort the next step
  assert.ok((await api({ context }, "PATCH", "/workspace", { slug: "menu" }, "beyond")).ok()); // a slug that is also the name of a page element
  await page.goto(app + "/w/menu");
  await page.waitForURL(app + "/w/menu/dashboard");
  await page.locator(".workspace").click();
  await page.locator("#places a[aria-current=true]", { hasText: "menu" }).waitFor();
  assert.deepEqual(problems, []);
});

for (const scripts of [true, false]) {
  test(`a secret is set, replaced and removed, and never shown, ${scripts ? "with" : "without"} scripts`, async () => {
    const { page, problems, context } = await visitor(browser, app, "mia", { javaScriptEnabled: scripts });
    const name = scripts ? "NPM_TOKEN" : "PLAIN_TOKEN", value = "s3cret\nof two lines";
    const repo = scripts ? "acme/api" : "acme/web (unconnected)";
    if (scripts) assert.equal((await api({ context }, "POST", "/repos", { url: product.codeHostUrl + "/acme/api", credential: product.codeHostToken })).status(), 201);
    await page.goto(app + "/w/acme/farm");
    await page.getByRole("link", { name: "Job secrets" }).first().click();
    await page.getByText("No secrets yet").waitFor();
    const set = async (name, value) => {
      await page.fill("#secret-name", name);
      await page.fill("#secret-value", value);
      await page.locator("#secret-name").evaluate((field) => field.removeAttribute("pattern"));
      await page.getByRole("button", { name: "Set", exact: true }).click();
    };
    await page.getByText("Values and lines shorter than 6 bytes are not masked in logs.").waitFor();
    await set("lower case", value);
    await page.locator("#secret-name-error").waitFor();
    assert.equal(await page.inputValue("#secret-name"), "lower case");
    assert.ok(!(await page.content()).includes("s3cret"), "the value is not in the response");
    await set(name, value);
    await page.getByText(name + " is set.").waitFor();
    const row = page.locator("#secret-" + name);
    await row.getByText("by Mia Torres").waitFor();
    await row.getByText("For every job").waitFor();
    await row.getByRole("link", { name: "Change" }).click();
    assert.equal(await page.inputValue("#secret-name"), name);
    await page.getByLabel("one of these names").fill("publish\nunit tests");
    await page.getByLabel(repo, { exact: true }).check();
    await page.getByLabel("all of these labels").fill("nonsense");
    await page.getByRole("button", { name: "Save", exact: true }).click();
    await page.locator("#secret-labels-error").waitFor();
    assert.equal(await page.getByLabel("one of these names").inputValue(), "publish\nunit tests");
    await page.getByLabel("all of these labels").fill("pool=release");
    await page.getByRole("button", { name: "Save", exact: true }).click();
    await page.getByText(name + " is changed. Its value stays.").waitFor();
    const scoped = row.getByText(`Only for jobs named publish or unit tests, of ${repo}, that require pool=release`);
    await scoped.waitFor();
    await page.goto(app + "/w/acme/farm/secrets");
    await set(name, "W".repeat(32_768)); // a form that does not show the scope does not widen it
    await page.getByText(name + " is set.").waitFor();
    await scoped.waitFor();
    await row.getByRole("link", { name: "Change" }).click();
    await page.getByLabel("one of these names").fill("");
    await page.getByLabel(repo, { exact: true }).uncheck();
    await page.getByLabel("all of these labels").fill("");
    await page.getByRole("button", { name: "Save", exact: true }).click();
    await row.getByText("For every job").waitFor();
    await page.waitForLoadState(); // the list is below the message
    assert.equal(await page.locator("#secrets li").count(), 1);
    await row.getByRole("button", { name: "Remove" }).click();
    await page.getByLabel("Type " + name).fill(name);
    await page.locator("button[value=yes]", { hasText: "Remove " + name }).click();
    await page.getByText("No secrets yet").waitFor();
    assert.deepEqual(problems, []);
  });
}

test("the largest secret is accepted, and an invalid one is refused at its field", async () => {
  const { context } = await visitor(browser, app, "mia");
  const post = async (path, data) => {
    const answer = await context.request.post(app + "/w/acme/farm/secrets" + path, { data, headers: { "Content-Type": "application/x-www-form-urlencoded" }, maxRedirects: 0 });
    return { status: answer.status(), text: await answer.text() };
  };
  for (const name of ["", "a/b", "..", ".", "<script>", "A%2F..%2FB", "9A", "A".repeat(65)]) {
    const { status, text } = await post("", `name=${name}&value=s3cret`);
    assert.equal(status, 409, name);
    assert.match(text, /id="secret-name-error"[^>]*>The name must /, name);
  }
  for (const value of ["a%00b", "%ff%fe", "%c3"]) {
    const { status, text } = await post("", `name=BINARY&value=${value}`);
    assert.equal(status, 409, value);
    assert.match(text, /id="secret-value-error"[^>]*>The value must be text/, value);
    assert.match(text, /id="secret-name" name="name" value="BINARY"/, "the name is kept");
  }
  assert.equal((await post("", "name=LINES&value=" + "%0D%0A".repeat(32_767) + "W")).status, 303, "the largest value in its longest encoding");
  assert.equal((await post("/LINES/remove", "confirmed=yes&word=LINES")).status, 303);
  for (const name of [".%2E%2Fmembers", "a%2Fb", "%3Cscript%3E"]) {
    const { status, text } = await post(`/${name}/remove`, "confirmed=yes&word=");
    assert.equal(status, 409, name);
    assert.match(text, /There is no secret with this name\./, name);
  }
});

test("a secret that another person sets appears without a reload", async () => {
  const ada = await visitor(browser, app, "ada");
  await ada.open("/w/acme/farm/secrets");
  assert.equal((await api(ada, "PUT", "/farm/secrets/LIVE", { value: "a" })).status(), 204);
  await ada.page.locator("#secret-LIVE").waitFor();
  assert.equal((await api(ada, "DELETE", "/farm/secrets/LIVE")).status(), 204);
  await ada.page.locator("#secret-LIVE").waitFor({ state: "detached" });
});

for (const scripts of [true, false]) {
  test(`the page of a runner shows its state, drains and resumes it, ${scripts ? "with" : "without"} scripts`, async () => {
    const { page, problems } = await visitor(browser, app, "ada", { javaScriptEnabled: scripts });
    await page.goto(app + "/w/acme/farm?status=online");
    await page.locator(".runner-row").getByRole("link", { name: "make-run" }).click();
    await page.waitForURL(/\/farm\/runners\/[0-9a-f-]{36}$/);
    const facts = page.getByRole("region", { name: "Machine" });
    for (const text of [/os=linux/, /until \d+ \w+ \d{4}/, /0 of \d+ busy/, /renews itself/]) await facts.getByText(text).first().waitFor();
    await page.getByRole("button", { name: "Drain…" }).click();
    await page.locator("dialog[open] input[name=note]").fill("A new disk.");
    await page.locator("dialog[open]").getByRole("button", { name: "Drain" }).click();
    await page.getByText("“A new disk.”, Ada Lind").waitFor();
    assert.match(page.url(), /\/farm\/runners\//);
    if (scripts) await page.locator("h1:focus", { hasText: "make-run" }).waitFor(); // the heading, whose state has changed
    await page.getByRole("button", { name: "Resume" }).click();
    if (scripts) await page.locator("h1:focus", { hasText: "Online" }).waitFor();
    await page.getByText("make-run is taking jobs again.").waitFor();
    await page.locator("h1 .pill", { hasText: "Online" }).waitFor();
    assert.match(page.url(), /\/farm\/runners\/[0-9a-f-]{36}/);
    await page.getByRole("button", { name: "Drain…" }).click(); // again, on the updated page
    assert.equal(await page.locator("dialog[open] input[name=note]").inputValue(), "");
    await page.locator("dialog[open]").getByRole("button", { name: "Drain" }).click();
    await page.locator("h1 .pill", { hasText: "Draining" }).waitFor();
    await page.getByRole("button", { name: "Resume" }).click();
    await page.locator("h1 .pill", { hasText: "Online" }).waitFor();
    assert.deepEqual(problems, []);
  });
}

test("a runner links to its jobs only", async () => {
  const ada = await visitor(browser, app, "ada"), { page, open } = ada;
  await open("/w/acme/farm?status=online");
  await page.locator(".runner-row").getByRole("link", { name: "make-run" }).click();
  await page.waitForURL(/\/farm\/runners\//);
  const runner = page.url().split("/").at(-1);
  const all = page.getByRole("link", { name: "All jobs" });
  if (await all.count()) await all.click();
  else await page.goto(`${app}/w/acme/farm/jobs?runner=${runner}&status=finished`);
  await page.getByText("Jobs of make-run, running and past.").waitFor();
  assert.equal(new URL(page.url()).searchParams.get("runner"), runner);
  const { total } = await (await api(ada, "GET", `/farm/jobs?status=terminal&limit=1&runner=${runner}`)).json();
  assert.equal(await page.locator("#jobs-title .count").innerText(), String(total));
  await page.locator("#state").selectOption("failed");
  await page.waitForURL(/state=failed/);
  assert.equal(new URL(page.url()).searchParams.get("runner"), runner);
  await page.getByRole("link", { name: "Active" }).click();
  await page.waitForURL((url) => !url.searchParams.has("status") && url.searchParams.get("runner") === runner);
  await page.getByRole("link", { name: "Jobs of all runners" }).click();
  await page.waitForURL(app + "/w/acme/farm/jobs");
});

test("an open dialog of a runner keeps its text when the page is updated", async () => {
  const { page, open, context } = await visitor(browser, app, "ada");
  await open("/w/acme/farm?status=online");
  await page.locator(".runner-row").getByRole("link", { name: "make-run" }).click();
  await page.waitForURL(/\/farm\/runners\//);
  await page.locator('#live[data-state="live"]').waitFor();
  const id = page.url().split("/").at(-1);
  await page.getByRole("button", { name: "Drain…" }).click();
  await page.locator("dialog[open] input[name=note]").fill("half a sen");
  assert.ok((await api({ context }, "POST", `/farm/runners/${id}/drain`, { note: "Mine" })).ok());
  await page.getByText("“Mine”").waitFor({ state: "attached" });
  assert.equal(await page.locator("dialog[open] input[name=note]").inputValue(), "half a sen");
  assert.ok((await api({ context }, "POST", `/farm/runners/${id}/resume`)).ok());
  await page.getByText("“Mine”").waitFor({ state: "detached" });
});

test("a Viewer cannot revoke a runner, and a revoked runner cannot be changed", async () => {
  const vera = await visitor(browser, app, "vera");
  await vera.open("/w/acme/farm?status=online");
  const href = await vera.page.locator(".runner-row .name a").first().getAttribute("href");
  await vera.open(href);
  assert.ok(await vera.page.getByRole("button", { name: "Revoke" }).isDisabled());
  await vera.page.getByText("Only an Owner or Maintainer can change a runner.").waitFor();
  const refused = await vera.context.request.post(app + href + "/revoke", { form: { from: "runner" } });
  assert.equal(refused.status(), 409, "refused without asking for the name");
  assert.match(await refused.text(), /Only an Owner or Maintainer can do this/);
  const ada = await visitor(browser, app, "ada");
  for (const [from, back] of [["runner", href], ["", "/w/acme/farm"]]) {
    const confirmation = await (await ada.context.request.post(app + href + "/revoke", { form: { from } })).text();
    assert.equal(confirmation.match(/href="([^"]*)">Keep it/)[1], back);
  }
  assert.equal((await vera.open("/w/acme/farm/runners/01a03bd2-19a0-7d66-aec9-26650f850090")).status(), 404);
  await vera.open("/w/acme/farm?status=ended");
  const ended = vera.page.locator(".runner-row .name a").first();
  if (await ended.count()) { // a product that starts from seeded data has one
    await vera.open(await ended.getAttribute("href"));
    await vera.page.getByText("It takes no more jobs.").waitFor();
    await vera.page.getByText("no longer accepted").waitFor();
    assert.equal(await vera.page.getByRole("button", { name: "Revoke" }).count(), 0);
  }
});

test("settings, secrets and new workspaces are reached with the keyboard and the palette", async () => {
  const { page, open } = await visitor(browser, app, "ada");
  await open("/w/acme/dashboard");
  await page.keyboard.press("g");
  await page.keyboard.press("s");
  await page.waitForURL(/\/settings$/);
  for (const [text, to] of [["job sec", /\/farm\/secrets$/], ["create a work", /\/new-workspace$/]]) {
    await open("/w/acme/dashboard");
    await page.keyboard.press("Control+k");
    await page.keyboard.type(text);
    await page.keyboard.press("Enter");
    await page.waitForURL(to);
  }
});

test("error pages and the sign-in page link to the API, and errors have the request id", async () => {
  const { page } = await visitor(browser, app, null);
  for (const [path, button] of [["/sign-in?error=access_denied", true], ["/nothing", true], ["/sign-in", false]]) {
    await page.goto(app + path);
    assert.equal(await page.getByRole("link", { name: "API docs" }).getAttribute("href"), product.restUrl + "/api/docs", path);
    assert.equal(await page.locator("footer a").count(), 1, "nothing that is for operators: " + path);
    assert.equal(await page.getByRole("button", { name: "Copy the request ID" }).count(), button ? 1 : 0, path);
  }
});

test("pages of the workspace pass axe", async () => {
  const { page, open } = await visitor(browser, app, "ada");
  await open("/w/acme/farm?status=online");
  const runner = await page.locator(".runner-row .name a").first().getAttribute("href");
  for (const path of ["/w/acme/settings", "/w/acme/farm/secrets", "/w/acme/farm/secrets?name=NPM_TOKEN", "/new-workspace", runner]) await checkAccessibility(browser, app, "ada", path);
  for (const path of ["/w/acme/settings", "/w/acme/farm/secrets", runner]) await checkAccessibility(browser, app, "vera", path);
});

// This test is the last one, since it revokes the only runner.
test("after a revocation the focus is on the heading, which shows the new state", async () => {
  const { page, open, problems } = await visitor(browser, app, "ada");
  await open("/w/acme/farm?status=online");
  await open(await page.locator(".runner-row .name a").first().getAttribute("href"));
  const name = await page.locator("h1 bdi").first().innerText();
  await page.getByRole("button", { name: "Revoke" }).click();
  const dialog = page.locator("dialog[open]");
  await dialog.locator("input").fill(name);
  await dialog.getByRole("button", { name: "Revoke" }).click();
  await page.locator("h1:focus", { hasText: "Revoked" }).waitFor();
  assert.equal(await page.getByRole("button", { name: "Revoke" }).count(), 0);
  assert.deepEqual(problems, []);
});
