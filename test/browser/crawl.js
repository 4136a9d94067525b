// Every page of the app that links lead to.

/** kind is the path of an address without what differs between pages of one kind. */
export const kind = (address) => new URL(address, "http://app").pathname.replace(/[0-9a-f]{8}-[0-9a-f-]{27}/g, "{id}");

/**
 * crawl goes to the pages that are named, and to one of each kind that links lead to from
 * there, and does something on each. Files are left out, and workspaces of others.
 */
export async function crawl({ page, open }, app, named, visit) {
  const met = new Set(), waiting = [...named];
  for (let path = waiting.shift(); path; path = waiting.shift()) {
    const one = named.includes(path) ? path : kind(path);
    if (met.has(one)) continue;
    met.add(one).add(kind(path));
    await open(path);
    const links = await page.locator("a[href]:not([download]), [data-href]").evaluateAll((list) => list.map((at) => at.href ?? new URL(at.dataset.href, location).href));
    for (const link of links) {
      const to = link.slice(app.length).replace(/#.*/, "");
      if (link.startsWith(app) && !/\/(export|artifacts\/|log\.txt|api\/|sign-)/.test(to) && !/\/w\/(?!acme)./.test(to)) waiting.push(to);
    }
    await visit(path, kind(path));
  }
}

/** pages are those to begin with: what they show is not what the same path shows otherwise. */
export const pages = ["/w/acme/dashboard", "/w/acme/needs", "/w/acme/runs", "/w/acme/runs?view=list", "/w/acme/farm/jobs", "/w", "/account"];
