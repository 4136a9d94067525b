// A browser, and people in it who have nothing but Better Auth's client.
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { chromium } from "playwright-core";
import { executablePath } from "../chromium.js";

const here = fileURLToPath(new URL(".", import.meta.url));

/** launch starts the browser. */
export function launch() {
  return chromium.launch({
    executablePath,
    args: [
      "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
      "--font-render-hinting=none", // as the whole browser does: kept pictures are of either
    ],
  });
}

/**
 * person opens a browser profile of their own on a page of the app that has
 * nothing but the client, as window.client. What the browser complains of is in
 * complaints.
 */
export async function person(browser, appUrl) {
  const { outputFiles } = await build({ entryPoints: [here + "client.js"], bundle: true, write: false, format: "iife" });
  const context = await browser.newContext();
  const page = await context.newPage();
  const complaints = [];
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (said) => {
    if (said.type() === "error" && !/status of 4\d\d/.test(said.text())) complaints.push(said.text());
  });
  await page.route(appUrl + "/client", (route) => route.fulfill({
    contentType: "text/html", body: `<!doctype html><title>client</title><script>${outputFiles[0].text.replaceAll("</script", "<\\/script")}</script>`,
  }));
  await page.goto(appUrl + "/client");
  /** ask calls client.<path>(input): ask("organization.list"). */
  const ask = (path, input) => page.evaluate(async ([path, input]) => {
    const { data, error } = await path.split(".").reduce((at, name) => at[name], window.client)(input);
    return { data, error };
  }, [path, input]);
  /** must is ask where nothing may be refused. */
  const must = async (path, input) => {
    const { data, error } = await ask(path, input);
    assert.equal(error, null, `${path}: ${JSON.stringify(error)}`);
    return data;
  };
  /** refused is ask where the refusal is wanted. */
  const refused = async (path, input, status, code) => {
    const { error } = await ask(path, input);
    assert.ok(error, `${path} is not refused`);
    assert.deepEqual([error.status, error.code], [status, code], path);
  };
  /** byCodeHost signs in there: as somebody of the list, or as somebody new. */
  const byCodeHost = async (choose) => {
    page.evaluate(() => window.client.signIn.social({ provider: "github", callbackURL: "/client" })).catch(() => {}); // the page goes away under it
    await page.waitForURL(/login\/oauth\/authorize/);
    await choose(page);
    await page.waitForURL(appUrl + "/client");
    await page.goto(appUrl + "/client"); // the end of a redirect is not ours to fulfil
  };
  return { page, ask, must, refused, byCodeHost, complaints };
}

/** as chooses one of the demonstration's people at the code host. */
export const as = (login) => (page) => page.click(`button[name=login][value=${login}]`);

/** asNew is somebody new with a verified address. */
export const asNew = (name, email) => async (page) => {
  await page.click("summary");
  await page.fill("#name", name);
  await page.fill("#email", email);
  await page.click("button[name=new]");
};
