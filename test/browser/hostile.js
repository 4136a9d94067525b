// Texts that are meant to break a page, and checks of pages that show them.
import assert from "node:assert/strict";

const endMark = "zzz"; // ends a text; what follows belongs to the page

/** texts are written into every field. */
export const texts = {
  markup: `"'><script>window.ran=1</script><img src=x onerror="ran=1">{{7*7}}</bdi></textarea>`,
  bidi: "a\u202eb\u2066\u05d0 " + endMark, // bidirectional controls that are not closed
  invisible: "a\u200b\u200d\ufeff\u00ad\u2060 " + endMark,
  blank: "\u200b\u200b",
  lines: "a\r\n\r\nb\tc\u0007\u001b[31md\u0085e\u2028 " + endMark,
  nul: "a\u0000b",
  surrogate: "a\ud800b", // half of a surrogate pair
  long: "W".repeat(10_000),
};

/**
 * recordViolations adds dialogs and violations of the content security policy to problems. The question whether to
 * leave a page, which pages ask that show something once, is answered with yes.
 */
export async function recordViolations({ page, problems }) {
  page.on("dialog", (dialog) => {
    if (dialog.type() === "beforeunload") return dialog.accept();
    problems.push("dialog: " + dialog.message());
    return dialog.dismiss();
  });
  await page.addInitScript(() => document.addEventListener("securitypolicyviolation", (e) => console.error(`policy: ${e.violatedDirective} ${e.blockedURI}`)));
}

/**
 * checkLayout fails if an element of the page was created by text, is wider than the window, is a row higher than
 * maxHeight pixels, or is displayed backwards because of the text before it. about is the failure message.
 */
export async function checkLayout(page, about, maxHeight) {
  const faults = await page.evaluate(findFaults, { endMark, maxHeight });
  assert.deepEqual(faults, [], about);
}

/** findFaults runs in the page and returns descriptions of what checkLayout looks for. */
function findFaults({ endMark, maxHeight }) {
  const faults = [], describe = (el) => `${el.tagName.toLowerCase()}.${el.className} ${el.textContent.trim().slice(0, 40)}`;
  if ("ran" in window) faults.push("a script in a text has run");
  for (const el of document.querySelectorAll("img[src=x],[onerror],script:not([src])")) faults.push("created by text: " + describe(el));
  if (document.documentElement.scrollWidth > innerWidth) faults.push(`${document.documentElement.scrollWidth - innerWidth} pixels too wide`);
  const clipped = (el) => { while ((el = el.parentElement) !== document.body) if (getComputedStyle(el).overflowX !== "visible") return true; return false; };
  for (const el of document.querySelectorAll("main *")) {
    const { right, width } = el.getBoundingClientRect();
    if (width && right > innerWidth + 1 && el.checkVisibility() && !clipped(el)) faults.push("outside of the window: " + describe(el));
  }
  for (const el of document.querySelectorAll("main [data-row], main tr, main li, .toast, h1")) {
    if (el.checkVisibility() && el.offsetHeight > maxHeight && !el.querySelector("li, tr, [data-row], [open]")) faults.push(`${el.offsetHeight} pixels high: ${describe(el)}`);
  }
  const range = document.createRange(), walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  // Two letters that follow a text are displayed backwards if the second one is to the left of the first.
  const charRect = (node, i) => { range.setStart(node, i); range.setEnd(node, i + 1); return range.getBoundingClientRect(); };
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    const last = node.data.lastIndexOf(endMark), from = last < 0 ? 0 : last + endMark.length;
    if (last < 0 && /[\u202e\u2066\u05d0]/.test(node.data)) continue; // inside of a text
    const index = node.data.slice(from).search(/[A-Za-z]{2}/) + from;
    if (index < from || getComputedStyle(node.parentElement).direction === "rtl") continue;
    const first = charRect(node, index), second = charRect(node, index + 1);
    if (first.width && first.top === second.top && second.left < first.left) faults.push("backwards: " + node.data.trim().slice(0, 60));
  }
  return [...new Set(faults)];
}
