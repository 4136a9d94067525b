// What all pages share: sign-in, sign-out, keyboard shortcuts, themes, headers.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { start } from "../product.js";
import { checkAccessibility, password, phone, setRole, showsRole, visitor } from "./app.js";
import { chooseLogin, launch } from "./person.js";
import { cuttableProxy } from "./proxy.js";

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

test("sign-in through the code host leads back to the requested page", async () => {
  const { page } = await visitor(browser, app);
  await page.goto(app + "/w/acme/members?q=mia");
  assert.equal(await page.title(), "Sign in · Workspace Service");
  await page.locator("main").getByText("Workspace Service").waitFor();
  await page.click("text=Continue with GitHub");
  await page.waitForURL(/login\/oauth\/authorize/);
  await chooseLogin("ada")(page);
  await page.waitForURL(app + "/w/acme/members?q=mia");
  await page.getByText("mia@acme.example").waitFor();
});

test("sign-in does not redirect to other sites", async () => {
  const { page } = await visitor(browser, app, "ada");
  for (const to of ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", "/api/auth/sign-out"]) {
    await page.goto(app + "/sign-in?to=" + encodeURIComponent(to));
    for (const href of await page.locator("main .card a").evaluateAll((list) => list.map((a) => a.getAttribute("href")))) {
      assert.match(href, /^\/sign-in\/github\?to=%2Fw$/, to);
    }
  }
});

test("a refused sign-in says why", async () => {
  const { page } = await visitor(browser, app);
  await page.goto(app + "/sign-in?error=access_denied");
  await page.getByText("You cancelled the sign-in at the code host.").waitFor();
  await page.goto(app + "/sign-in?error=x&error_description=Call+555-0100+now");
  await page.getByText("The code host did not sign you in.").waitFor();
  assert.doesNotMatch(await page.innerText("main"), /555/);
  await page.goto(app + "/sign-in?error=redirect_uri_mismatch");
  await page.getByText("The redirect_uri is not associated with this application").waitFor();
  assert.match(await page.innerText("main"), new RegExp(app + "/api/auth/callback/github"));
  await page.click("summary");
  await page.fill("#email", "ada@acme.example");
  await page.fill("#password", "wrong");
  await page.click("details button");
  await page.locator(".card").getByText("Wrong email address or password.").waitFor();
  assert.equal(await page.inputValue("#email"), "ada@acme.example", "what was typed is kept");
  assert.deepEqual([await page.inputValue("#password"), await page.evaluate(() => document.activeElement.id)], ["", "password"]);
  assert.equal(await page.locator("main > .banner:visible").count(), 0, "it is said once");
});

/** clickEnded clicks in a page whose session has ended and waits for a URL, to which the page may also go by itself. */
async function clickEnded(page, selector, url) {
  const redirected = page.waitForURL(url);
  await Promise.race([page.click(selector).catch(() => redirected), redirected]);
  await redirected;
}

test("after a sign-out elsewhere a link leads to the sign-in page, and from there to its target", async () => {
  const { page, context, open } = await visitor(browser, app, "mia", { ownSession: true });
  await open("/w/acme/members");
  await context.request.post(app + "/api/auth/sign-out", { data: {} });
  await clickEnded(page, "nav >> text=Members", /\/sign-in\?to=%2Fw%2Facme%2Fmembers$/);
});

test("after a sign-out elsewhere a request for a part of a page leads back to the whole page", async () => {
  const { page, context, open } = await visitor(browser, app, "mia", { ownSession: true });
  await open("/w/acme/runs?view=list");
  await context.request.post(app + "/api/auth/sign-out", { data: {} });
  // The list of workspaces is loaded by a separate request.
  await clickEnded(page, ".workspace", /\/sign-in\?to=%2Fw%2Facme%2Fruns%3Fview%3Dlist$/);
});

test("a tab that was opened as somebody else does and shows nothing as who is signed in now before it has asked", async () => {
  const { page, context, open } = await visitor(browser, app, "ada", { ownSession: true });
  const plain = await visitor(browser, app, "", { javaScriptEnabled: false }), tab = plain.page;
  await plain.context.addCookies(await context.cookies());
  await tab.goto(app + "/w/acme/settings");
  await open("/w/acme/members");
  const answer = await context.request.post(app + "/api/auth/sign-in/email", { data: { email: "mia@acme.example", password } }); // in another tab
  assert.equal(answer.status(), 200);
  await plain.context.addCookies(await context.cookies());
  const audit = async () => (await (await context.request.get(product.restUrl + "/api/v1/workspace", { headers: { "X-Svc-Tenant": "acme" } })).json()).seq;
  const before = await audit();
  await setRole(page, "Max Weber", "Viewer");
  const dialog = page.locator("#other-person[open]");
  await dialog.getByText("You are signed in as Mia Torres").waitFor();
  assert.match(await dialog.innerText(), /This tab was opened as Ada Lind/);
  assert.equal(await audit(), before, "nothing was done as Mia");
  assert.equal(await page.locator(".person .avatar").innerText(), "AL", "nothing is shown as Mia's");
  await page.goto(app + "/w/acme/runs"); // a page that is made for Mia
  await dialog.getByText("You are signed in as Mia Torres").waitFor();
  await page.keyboard.press("Escape");
  assert.ok(await dialog.isVisible());
  await dialog.getByRole("button", { name: "Go on as Mia Torres" }).click();
  await page.locator("#other-person:not([open])").waitFor({ state: "attached" });
  await page.goto(app + "/w/acme/members");
  assert.ok(await dialog.isHidden());
  await tab.getByRole("button", { name: "Save" }).click();
  await tab.getByText("You are signed in as Mia Torres").waitFor();
  assert.equal(await audit(), before, "without scripts neither");
  await tab.getByRole("link", { name: "Go on as Mia Torres" }).click();
  await tab.waitForURL(app + "/w/acme/settings");
});

test("a page that loses its connection tells since when, and catches up afterwards", async () => {
  const proxy = await cuttableProxy(app);
  const mia = await visitor(browser, proxy.url, "mia"), ada = await visitor(browser, app, "ada");
  try {
    await mia.page.clock.install();
    await mia.open("/w/acme/members");
    await mia.page.clock.fastForward("02:00:00"); // a long time without events
    proxy.cut();
    await mia.page.clock.runFor(3000);
    const stale = mia.page.getByText(/Showing data from (just now|\d+ seconds ago), reconnecting/);
    await mia.page.waitForFunction(() => document.querySelector("#live").dataset.state === "stale");
    await mia.page.clock.runFor(3000);
    await stale.waitFor();
    await mia.page.clock.fastForward("05:00");
    await mia.page.getByText(/Showing data from 5 minutes ago, reconnecting/).waitFor();
    await ada.open("/w/acme/members");
    await setRole(ada.page, "Max Weber", "Viewer");
    await ada.toast("Max Weber is now Viewer");
    proxy.restore();
    // Not by a real click: the button disappears if the page reconnects by itself.
    await mia.page.getByRole("button", { name: "Try now", includeHidden: true }).evaluate((button) => button.click());
    await mia.page.locator('#live[data-state="live"]').waitFor();
    await mia.page.clock.runFor(3000);
    await showsRole(mia.page, "Max Weber", "Viewer");
    assert.ok(await mia.page.locator("#stale").isHidden());
  } finally {
    await mia.context.close();
    proxy.close();
  }
});

test("another person's workspace is shown like a missing one", async () => {
  const { page, open } = await visitor(browser, app, "leo");
  for (const slug of ["initech-of-nobody", "ada"]) {
    const answer = await open(`/w/${slug}/members`);
    assert.equal(answer.status(), 404);
    await page.getByText("You are not in this workspace").waitFor();
    await page.click("text=Your workspaces");
    await page.waitForURL(app + "/w");
  }
});

test("a missing page of a workspace keeps its navigation, and a refusal by role names whom to ask", async () => {
  const { page, open } = await visitor(browser, app, "vera");
  assert.equal((await open("/w/acme/nope/at/all")).status(), 404);
  await page.getByText("There is no page at this address.").waitFor();
  await page.locator("nav").getByText("Needs You").waitFor();
  await page.locator("main").getByRole("link", { name: "Dashboard" }).click();
  await page.waitForURL(app + "/w/acme/dashboard");
  assert.equal((await open("/w/acme/audit")).status(), 403);
  assert.match(await page.innerText("main"), /You are a Viewer\. Ask Ada Lind, Ben \w+ or \w+ \w+\./);
  await page.locator("nav").getByText("Needs You").waitFor();
  const gone = await visitor(browser, app, "");
  await gone.page.goto(app + "/w/acme/nope");
  assert.match(gone.page.url(), /\/sign-in\?to=%2Fw%2Facme%2Fnope$/);
});

test("keyboard shortcuts", async () => {
  const { page, open, problems } = await visitor(browser, app, "ada");
  await open("/w/acme/members");
  await page.keyboard.press("?");
  await page.locator("#keys").getByText("Search or jump to").waitFor();
  await page.keyboard.press("Escape");
  await page.locator("#keys").waitFor({ state: "hidden" });
  await page.keyboard.press("/");
  assert.equal(await page.evaluate(() => document.activeElement.id), "find");
  await page.keyboard.press("Escape");
  await page.locator("#find").blur();
  await page.keyboard.press("Control+k");
  await page.keyboard.type("acc");
  await page.keyboard.press("Enter");
  await page.waitForURL(app + "/account");
  await page.goBack();
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  assert.ok(await page.evaluate(() => document.activeElement.matches("[data-row]")));
  await page.keyboard.press("Tab"); // moves the focus without an error
  assert.deepEqual(problems, []);
});

test("the list of shortcuts depends on the page and the role", async () => {
  const shortcutsOf = async (name, path) => {
    const { page, open } = await visitor(browser, app, name);
    await open(path);
    await page.keyboard.press("?");
    await page.locator("#keys[open]").waitFor();
    return page.locator("#keys").innerText();
  };
  const leo = await shortcutsOf("leo", "/w/acme/needs");
  assert.doesNotMatch(leo, /Audit log/);
  assert.match(leo, /Approve, allow or confirm/);
  const ada = await shortcutsOf("ada", "/w/acme/audit/replay");
  assert.match(ada, /Audit log/);
  assert.match(ada, /step of a replay/);
  assert.doesNotMatch(ada, /Approve, allow or confirm/);
});

test("the workspace button shows the role, on a phone in its menu", async () => {
  for (const [name, role] of [["ada", "Owner"], ["mia", "Maintainer"], ["vera", "Viewer"]]) {
    const { page, open } = await visitor(browser, app, name);
    await open("/w/acme/members");
    assert.match(await page.locator(".workspace").innerText(), new RegExp(`Acme[^]*${role}`));
    await page.setViewportSize(phone);
    await page.locator(".workspace").click();
    await page.locator("#workspaces").getByText(new RegExp(`You are an? ${role}`)).waitFor();
    await page.locator("#places a").first().waitFor();
  }
});

test("the theme can be chosen", async () => {
  const { page, open } = await visitor(browser, app, "ada", { colorScheme: "light" });
  await open("/w/acme/members");
  const background = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  const light = await background();
  await page.getByRole("button", { name: /Colours: system/ }).click();
  await page.getByRole("button", { name: /Colours: light/ }).click();
  await page.getByRole("button", { name: /Colours: dark/ }).waitFor();
  assert.notEqual(await background(), light);
});

test("a duration that runs is shown in the units of the server", async () => {
  const { page } = await visitor(browser, app, "ada");
  await page.goto(app + "/w/acme");
  for (const [seconds, text] of [[50 * 3600 + 5, "2 d 2 h"], [48 * 3600 + 5, "2 d"], [3600 + 125, "1 h 2 min"], [605, /^10 min \d+ s$/]]) {
    const shown = await page.evaluateHandle((seconds) => {
      const time = document.createElement("time");
      time.dataset.since = new Date(Date.now() - seconds * 1000).toISOString();
      document.querySelector("main").append(time);
      return time;
    }, seconds);
    await page.waitForFunction((time) => time.textContent !== "", shown);
    assert.match(await shown.textContent(), new RegExp(text));
  }
});

test("times are shown in the words of the server, also if the browser's clock is wrong", async () => {
  /** shown returns what a page shows for a time a number of milliseconds from now if its clock is late. */
  const shown = async (late, ahead) => {
    const { page } = await visitor(browser, app, "ada");
    await page.addInitScript((late) => { const right = Date.now; Date.now = () => right() - late; }, late); // performance.now stays
    await page.goto(app + "/w/acme/settings");
    return page.evaluate((at) => {
      const time = Object.assign(document.createElement("time"), { dateTime: at });
      time.dataset.ago = "";
      document.querySelector("main").append(time);
      window.updateTimes();
      return time.textContent;
    }, new Date(Date.now() + ahead).toISOString());
  };
  assert.equal(await shown(0, 500), "just now");
  assert.match(await shown(20000, -2000), /^(just now|[5-9] seconds ago)$/);
  assert.match(await shown(-90000, 65000), /^in (1 minute|[56]\d seconds)$/);
});

test("the browser's clock is right if the page was rendered between request and answer, and corrected otherwise", async () => {
  const { page } = await visitor(browser, app, "ada");
  await page.goto(app + "/w/acme/settings");
  const ahead = (rendered, navigation) => page.evaluate((args) => window.measureAhead(...args), [rendered, 1000000, navigation]);
  const navigation = { requestStart: 200, responseStart: 5200 };
  for (const [rendered, want] of [[1000200, 0], [1003000, 0], [1005200, 0], [1000000, 5200], [995200, 10000], [1015200, -10000]]) {
    assert.equal(await ahead(rendered, navigation), want, String(rendered));
  }
  assert.equal(await ahead(999000), 1000, "in a browser that does not tell when it sent the request");
});

test("headers forbid framing and scripts of other sites", async () => {
  const { open } = await visitor(browser, app, "ada");
  const headers = (await open("/w/acme/members")).headers();
  const policy = headers["content-security-policy"];
  for (const rule of ["default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "form-action 'self'", "base-uri 'none'"]) {
    assert.ok(policy.includes(rule), rule);
  }
  assert.equal(headers["x-frame-options"], "DENY");
  assert.equal(headers["cache-control"], "no-store");
});

test("cross-site requests are refused", async () => {
  const { context } = await visitor(browser, app, "ada");
  for (const headers of [{ "Sec-Fetch-Site": "cross-site" }, { Origin: "https://evil.example" }]) {
    for (const path of ["/w/acme/members/invite", "/sign-out", "/theme"]) {
      const answer = await context.request.post(app + path, { headers, form: { email: "eve@evil.example", role: "Owner" } });
      assert.equal(answer.status(), 403, path);
    }
  }
});

test("forms work at an address without https, where browsers send no Sec-Fetch-Site", async () => {
  const { context: { request } } = await visitor(browser, app, "ada"), { cookies } = await request.storageState();
  for (const scripts of [false, true]) {
    const { page, context, toast } = await visitor(browser, app, "", { javaScriptEnabled: scripts });
    await context.addCookies(cookies.map((cookie) => ({ ...cookie, domain: "svc.test" })));
    await page.goto(app.replace("127.0.0.1", "svc.test") + "/w/acme/members");
    await page.getByRole("button", { name: /Colours: system/ }).click();
    await page.getByRole("button", { name: /Colours: light/ }).waitFor();
    if (!scripts) continue;
    await page.locator("#people [data-copy]").first().click();
    await toast("This browser does not allow copying here.");
  }
});

test("a member who is removed while a page is open is told, and led to other workspaces", async () => {
  const owner = await visitor(browser, app, "ada");
  const leo = await visitor(browser, app, "leo");
  await leo.open("/w/acme/members");
  await owner.open("/w/acme/members");
  await owner.page.getByLabel("More actions for Leo Brandt").click();
  await owner.page.getByRole("button", { name: "Remove from the workspace" }).click();
  await owner.page.getByRole("button", { name: "Remove Leo Brandt" }).click();
  await owner.toast("Removed.");
  await leo.page.getByText("You are not in this workspace").waitFor({ timeout: 15000 });
  await leo.page.click("text=Your workspaces");
  await leo.page.waitForURL(app + "/w");
});

test("pages without a workspace pass axe", async () => {
  await checkAccessibility(browser, app, null, "/sign-in?error=access_denied&to=/w/acme/runs");
  await checkAccessibility(browser, app, "ada", "/w");
  await checkAccessibility(browser, app, "ada", "/w/nowhere/members");
});

test("the style guide shows every component and its states, and passes axe", async () => {
  const { page, open, problems } = await visitor(browser, app);
  await open("/kit");
  for (const theme of ["light", "dark"]) {
    const pane = page.locator(".pane." + theme);
    assert.equal(await pane.locator(".banner").count(), 5);
    assert.notEqual(await pane.evaluate((el) => getComputedStyle(el).backgroundColor), await page.locator(`.pane:not(.${theme})`).evaluate((el) => getComputedStyle(el).backgroundColor));
  }
  for (const theme of ["light", "dark"]) {
    const buttons = page.locator(`.pane.${theme} td .button:text-is("Plain")`);
    const styles = await buttons.evaluateAll((list) => list.map((el) => [getComputedStyle(el).backgroundColor, getComputedStyle(el).outlineStyle]));
    assert.equal(styles.length, 3);
    const [normal, hover, focus] = styles;
    assert.notEqual(hover[0], normal[0], "hovering changes the background");
    assert.deepEqual([normal[1], hover[1], focus[1]], ["none", "none", "solid"]);
  }
  assert.deepEqual(problems, []);
  await checkAccessibility(browser, app, undefined, "/kit");
});

test("a page with events that a restored backup lacks is fetched again, and shows what follows", async () => {
  const mia = await visitor(browser, app, "mia"), ada = await visitor(browser, app, "ada");
  await mia.page.route(/\/w\/acme\/members$/, async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, body: (await response.text()).replace(/data-seq="\d+"/, 'data-seq="1000000"') });
  }, { times: 1 });
  await Promise.all([mia.page.waitForResponse((r) => /members/.test(r.url()) && r.request().headers()["hx-request"] && r.ok()), mia.open("/w/acme/members")]);
  await ada.open("/w/acme/members");
  await setRole(ada.page, "Vera Novak", "Maintainer");
  await showsRole(mia.page, "Vera Novak", "Maintainer");
  await mia.context.close();
});
