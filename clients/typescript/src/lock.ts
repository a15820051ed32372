import { link, mkdir, open, readdir, readFile, rename, rm } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";

/** Who holds a folder. `started` tells two processes with one id apart; it is empty where the system does not say it. */
interface Holder {
  pid: number;
  host: string;
  started: string;
}

let made = 0;

/**
 * lockFolder takes a folder for this process, and returns a function that releases it. It rejects
 * if another process that lives, or one of another host, has the folder.
 *
 * The holder is the file `lock-N` with the highest N. Whoever finds a holder that has died makes
 * the next one, which only one process can, and the highest one is never removed. So two processes
 * that find the same dead holder can't both take its place.
 */
export async function lockFolder(folder: string): Promise<() => Promise<void>> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const mine: Holder = { pid: process.pid, host: hostname(), started: await startOf(process.pid) };
  const temporary = join(folder, `lock.${process.pid}.${++made}.${Date.now()}`);
  await write(temporary, JSON.stringify(mine));
  try {
    for (;;) {
      const last = await newest(folder);
      const path = join(folder, `lock-${last}`);
      if (last > 0) await mustBeDead(path, mine);
      const next = join(folder, `lock-${last + 1}`);
      if (!(await linked(temporary, next))) continue;
      if ((await newest(folder)) !== last + 1) {
        await rm(next, { force: true }); // others were faster, and have removed lower files
        continue;
      }
      await removeOlder(folder, last + 1);
      return () => release(folder, next);
    }
  } finally {
    await rm(temporary, { force: true });
  }
}

async function release(folder: string, path: string): Promise<void> {
  const temporary = join(folder, `lock.${process.pid}.${++made}.${Date.now()}`);
  await write(temporary, "{}");
  await rename(temporary, path);
}

async function write(path: string, text: string): Promise<void> {
  const file = await open(path, "w", 0o600);
  try {
    await file.writeFile(text);
  } finally {
    await file.close();
  }
}

async function newest(folder: string): Promise<number> {
  return Math.max(0, ...(await numbers(folder)));
}

async function numbers(folder: string): Promise<number[]> {
  return (await readdir(folder)).flatMap((name) => /^lock-(\d+)$/.exec(name)?.[1] ?? []).map(Number);
}

async function removeOlder(folder: string, than: number): Promise<void> {
  for (const n of await numbers(folder)) if (n < than) await rm(join(folder, `lock-${n}`), { force: true });
}

/** linked gives a whole file a name, if nobody has it. */
async function linked(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to);
    return true;
  } catch (e) {
    if (codeOf(e) === "EEXIST") return false;
    throw e;
  }
}

/** mustBeDead throws if the holder of a file lives, or if that can't be known. */
async function mustBeDead(path: string, mine: Holder): Promise<void> {
  let holder: Partial<Holder>;
  try {
    holder = JSON.parse(await readFile(path, "utf8")) as Partial<Holder>;
  } catch (e) {
    if (codeOf(e) === "ENOENT" || e instanceof SyntaxError) return; // there is a newer one, or the power was lost
    throw e;
  }
  if (holder.pid === undefined) return; // released
  if (holder.host !== mine.host) {
    throw new Error(`a process of the host ${holder.host} has the folder open: if it does not run any more, remove ${path}`);
  }
  if (!lives(holder.pid) || (holder.started && (await startOf(holder.pid)) !== holder.started)) return;
  throw new Error(`the process ${holder.pid} has the folder open: close its storage first`);
}

function lives(pid: number): boolean {
  try {
    process.kill(pid, 0); // only asks
    return true;
  } catch (e) {
    return codeOf(e) === "EPERM";
  }
}

/** startOf returns when a process was started, on Linux. */
async function startOf(pid: number): Promise<string> {
  try {
    const [boot, stat] = await Promise.all([readFile("/proc/sys/kernel/random/boot_id", "utf8"), readFile(`/proc/${pid}/stat`, "utf8")]);
    return `${boot.trim()} ${stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19]}`;
  } catch {
    return "";
  }
}

/** codeOf returns the code of an error of the system. */
export function codeOf(e: unknown): string | undefined {
  return (e as NodeJS.ErrnoException | undefined)?.code;
}
