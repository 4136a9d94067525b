// Text that somebody writes to break a page, and what must hold of a page that shows it.
import assert from "node:assert/strict";

const end = "zzz"; // what stands behind it is the page's

/** texts are what is written into every field. */
export const texts = {
  markup: `"'><script>window.ran=1</script><img src=x onerror="ran=1">{{7*7}}</bdi></textarea>`,
  turned: "a\u202eb\u2066\u05d0 " + end, // nothing ends what it begins
  unseen: "a\u200b\u200d\ufeff\u00ad\u2060 " + end,
  blank: "\u200b\u200b",
  lines: "a\r\n\r\nb\tc\u0007\u001b[31md\u0085e\u2028 " + end,
  nul: "a\u0000b",
  broken: "a\ud800b", // half a character
  long: "W".repeat(10_000),
};

/** listen notes whatever a page does that text must not: dialogs, and breaches of its policy. */
export async function listen({ page, complaints }) {
  page.on("dialog", (dialog) => { complaints.push("dialog: " + dialog.message()); dialog.dismiss(); });
  await page.addInitScript(() => document.addEventListener("securitypolicyviolation", (e) => console.error(`policy: ${e.violatedDirective} ${e.blockedURI}`)));
}

/**
 * inShape fails if something of the page was made by text, is wider than the window or
 * higher than tallest pixels as a row, or reads backwards because of what stands before it.
 */
export async function inShape(page, what, tallest) {
  const wrong = await page.evaluate(look, { end, tallest });
  assert.deepEqual(wrong, [], what);
}

/** look runs in the page. */
function look({ end, tallest }) {
  const wrong = [], name = (at) => `${at.tagName.toLowerCase()}.${at.className} ${at.textContent.trim().slice(0, 40)}`;
  if ("ran" in window) wrong.push("a script of the text has run");
  for (const at of document.querySelectorAll("img[src=x],[onerror],script:not([src])")) wrong.push("made by text: " + name(at));
  if (document.documentElement.scrollWidth > innerWidth) wrong.push(`${document.documentElement.scrollWidth - innerWidth} pixels too wide`);
  const clipped = (at) => { while ((at = at.parentElement) !== document.body) if (getComputedStyle(at).overflowX !== "visible") return true; return false; };
  for (const at of document.querySelectorAll("main *")) {
    const { right, width } = at.getBoundingClientRect();
    if (width && right > innerWidth + 1 && at.checkVisibility() && !clipped(at)) wrong.push("outside of the window: " + name(at));
  }
  for (const at of document.querySelectorAll("main [data-row], main tr, main li, .toast, h1")) {
    if (at.checkVisibility() && at.offsetHeight > tallest && !at.querySelector("li, tr, [data-row], [open]")) wrong.push(`${at.offsetHeight} pixels high: ${name(at)}`);
  }
  const range = document.createRange(), walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const place = (node, i) => { range.setStart(node, i); range.setEnd(node, i + 1); return range.getBoundingClientRect(); };
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    const last = node.data.lastIndexOf(end), from = last < 0 ? 0 : last + end.length;
    if (last < 0 && /[\u202e\u2066\u05d0]/.test(node.data)) continue; // a part of the text
    const at = node.data.slice(from).search(/[A-Za-z]{2}/) + from;
    if (at < from || getComputedStyle(node.parentElement).direction === "rtl") continue;
    const one = place(node, at), two = place(node, at + 1);
    if (one.width && one.top === two.top && two.left < one.left) wrong.push("backwards: " + node.data.trim().slice(0, 60));
  }
  return [...new Set(wrong)];
}
