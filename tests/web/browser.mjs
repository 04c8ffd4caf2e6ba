// Starts Debian's Chromium, and what all tests of the page say.
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";

const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

export async function startBrowser(tools, executablePath) {
  const { chromium } = createRequire(`${tools}/`)("playwright-core");
  const folder = mkdtempSync(join(tmpdir(), "partita-page-"));
  const context = await chromium.launchPersistentContext(folder, {
    executablePath,
    headless: true,
    args: FLAGS,
    viewport: { width: 1440, height: 900 },
    reducedMotion: "reduce",
  });
  return {
    context,
    async close() {
      await context.close();
      rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}
