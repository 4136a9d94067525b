// Where Chromium is: Debian's headless shell, which takes half of the time of a page, or the browser.
import { existsSync } from "node:fs";

const installed = ["/usr/bin/chromium-headless-shell", "/usr/bin/chromium"];

export const executablePath = process.env.CHROMIUM || installed.find((path) => existsSync(path));
