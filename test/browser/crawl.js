// Visits the pages of the app by following links.

/** pathPattern returns the path of an address with ids replaced by {id}. */
export const pathPattern = (address) => new URL(address, "http://app").pathname.replace(/[0-9a-f]{8}-[0-9a-f-]{27}/g, "{id}");

/**
 * crawl visits the start pages, and one page of each path pattern that links lead to from there. It calls
 * visit(path, pattern) on each. Files and pages of other workspaces are skipped.
 */
export async function crawl({ page, open }, app, startPages, visit) {
  const visited = new Set(), queue = [...startPages];
  for (let path = queue.shift(); path; path = queue.shift()) {
    const key = startPages.includes(path) ? path : pathPattern(path);
    if (visited.has(key)) continue;
    visited.add(key).add(pathPattern(path));
    await open(path);
    const links = await page.locator("a[href]:not([download]), [data-href]").evaluateAll((list) => list.map((el) => el.href ?? new URL(el.dataset.href, location).href));
    for (const link of links) {
      const to = link.slice(app.length).replace(/#.*/, "");
      if (link.startsWith(app) && !/\/(export|artifacts\/|log\.txt|api\/|sign-)/.test(to) && !/\/w\/(?!acme)./.test(to)) queue.push(to);
    }
    await visit(path, pathPattern(path));
  }
}

/** pages are the start pages. Some differ from each other only by their query. */
export const pages = ["/w/acme/dashboard", "/w/acme/needs", "/w/acme/runs", "/w/acme/runs?view=list", "/w/acme/farm/jobs", "/w", "/account"];
